"""Rendering strokes exactly like CROHME's images.

Ink is scaled so that its strokes are 28 pixels tall on average, points are rounded down to whole
pixels and joined by lines one pixel wide, and every pixel is dilated to a 3 x 3 square.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Sequence
from dataclasses import dataclass

import cv2
import numpy as np
from numpy.typing import NDArray
from PIL import Image

from posformer.errors import InkError
from posformer.image.pen import thin
from posformer.image.sizing import resample
from posformer.ink.aligned import AlignedInk, bounds

STROKE_HEIGHT = 28
"""Mean height in pixels of the strokes of a CROHME image."""

MAX_PIXELS = 2**24
"""Maximum size of a rendered image, before resampling; four pages of handwriting."""

MAX_LENGTH = 2**22
"""Maximum length of all lines together, in pixels."""


@dataclass(frozen=True)
class RenderStyle:
    """How strokes are rendered."""

    scale: float = 1.0
    """Factor by which the finished image is resampled."""
    margin: tuple[int, int] = (12, 11)
    """Empty pixels, before resampling, at left and top and at right and bottom."""
    pen_width: int = 3
    """Side of the square pen in pixels, before resampling."""
    thinned: int = 0
    """Layers peeled off the strokes, as page clean-up does with those of thick pens."""

    def __post_init__(self) -> None:
        if not 0 < self.scale <= 16:
            raise InkError(f"scale {self.scale} is not above 0 and at most 16")
        if min(self.margin) < 0 or max(self.margin) > 10_000:
            raise InkError(f"margin {self.margin} is not within 0 and 10000")
        if not 1 <= self.pen_width <= 64:
            raise InkError(f"pen width {self.pen_width} is not within 1 and 64")
        if not 0 <= self.thinned < self.pen_width:
            raise InkError(f"cannot thin a pen of {self.pen_width} pixels by {self.thinned} layers")


CROHME_STYLE = RenderStyle()


def natural_scale(strokes: Sequence[np.ndarray]) -> float:
    """Return the factor that scales ink in any unit to the size of CROHME's images.

    It is 28 pixels divided by the mean height of the strokes that are taller than a tenth of the
    tallest. If all strokes are flat, as in a minus sign, widths are used instead.

    Args:
        strokes: float (points, 2) each.
    """
    grid, unit = _on_grid(strokes)
    return unit * STROKE_HEIGHT / _stroke_height(grid)


def strokes_in_pixels(
    strokes: Sequence[np.ndarray], measured: Collection[int] = ()
) -> tuple[np.ndarray, ...]:
    """Scale ink to the pixels of its CROHME image.

    Args:
        strokes: float (points, 2) each, in any unit.
        measured: Indices of the strokes that determine the scale; all if empty.

    Returns:
        float32 (points, 2) each, not rounded; the smallest coordinates lie in [0, 1), so that
        `render` reproduces the CROHME image. Consecutive points in one pixel are merged.
    """
    grid, _ = _on_grid(strokes)
    sizing = [points for index, points in enumerate(grid) if index in measured] or grid
    # CROHME's images were made in single precision: where a product should be a whole number,
    # its last bit decides between two pixels.
    scale = np.float32(STROKE_HEIGHT / _stroke_height(sizing))
    scaled = [points.astype(np.float32) * scale for points in grid]
    corner = np.floor(np.min([points.min(axis=0) for points in scaled], axis=0))
    return tuple(_drop_repeats(points - corner) for points in scaled)


def _drop_repeats(points: np.ndarray) -> np.ndarray:
    """Drop points in the pixel of the previous point: they draw nothing."""
    pixels = np.floor(points)
    moved = (pixels[1:] != pixels[:-1]).any(axis=1)
    return points[np.concatenate([[True], moved])]


def _on_grid(strokes: Sequence[np.ndarray]) -> tuple[list[np.ndarray], float]:
    """Return integral coordinates and their unit: ink with decimals is rounded to thousandths."""
    if all((points == np.floor(points)).all() for points in strokes):
        return [np.asarray(points, np.float64) for points in strokes], 1.0
    return [np.floor(np.asarray(points, np.float64) * 1000 + 0.5) for points in strokes], 1000.0


def _stroke_height(strokes: Sequence[np.ndarray]) -> float:
    extents = np.array([np.ptp(points, axis=0) for points in strokes])
    widths, heights = extents.T
    sizes = widths if (heights <= widths / 5).all() else heights
    if not sizes.max():
        return float(STROKE_HEIGHT)  # only dots
    return float(max(1.0, np.floor(sizes[sizes > 0.1 * sizes.max()].mean())))


def rendered_size(
    strokes: Sequence[np.ndarray], style: RenderStyle = CROHME_STYLE
) -> tuple[int, int]:
    """Return the height and width of the image that `render` returns."""
    return _sizes(np.floor(np.concatenate(strokes)), style)[1]


def _sizes(points: np.ndarray, style: RenderStyle) -> tuple[tuple[int, int], tuple[int, int]]:
    """Return height and width for pixels (points, 2), before and after resampling."""
    low, high = bounds(points)
    width, height = high - low + style.pen_width + sum(style.margin)
    if not height * width * max(1, style.scale) ** 2 <= MAX_PIXELS:
        size = f"{width * style.scale:.0f} x {height * style.scale:.0f}"
        raise InkError(f"an image of {size} pixels is too large")
    scaled = max(1, int(int(height) * style.scale)), max(1, int(int(width) * style.scale))
    return (int(height), int(width)), scaled


def render(strokes: Sequence[np.ndarray], style: RenderStyle = CROHME_STYLE) -> NDArray[np.uint8]:
    """Render strokes.

    Args:
        strokes: float (points, 2) each, in pixels; see `strokes_in_pixels`.
        style: Pen, margin and scale.

    Returns:
        uint8 (height, width), white ink on black.
    """
    points = np.floor(np.concatenate(strokes)).astype(np.int64)
    full, scaled = _sizes(points, style)
    points += style.margin[0] + (style.pen_width - 1) // 2 - bounds(points)[0]
    image = np.zeros(full, np.uint8)
    columns, rows = _pixels(points, np.cumsum([len(stroke) for stroke in strokes])[:-1] - 1)
    image[rows, columns] = 255
    if style.pen_width > 1:
        pen = np.ones((style.pen_width, style.pen_width), np.uint8)
        image = np.asarray(cv2.dilate(image, pen), np.uint8)
    if style.thinned:
        image = thin((image > 0).astype(np.uint8), style.thinned) * np.uint8(255)
    return resample(image, *scaled)


def _pixels(points: np.ndarray, breaks: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return all pixels of the lines between consecutive points.

    A line takes as many steps as its longer side has pixels. Half a pixel is rounded away from
    the start of the line, as in CROHME's images. (Bresenham's algorithm leaves that open, and
    OpenCV's lines differ.)

    Args:
        points: int64 (points, 2).
        breaks: Indices of the last point of each stroke but the last: no line starts there.

    Returns:
        Columns and rows, int64 (pixels,).
    """
    moves = np.diff(points, axis=0)
    steps = np.maximum(*np.abs(moves).T)
    steps[breaks] = 0
    if (length := steps.sum()) > MAX_LENGTH:
        raise InkError(f"strokes of {length} pixels together are too long to be rendered")
    line = np.repeat(np.arange(len(steps)), steps)
    step = np.arange(1, len(line) + 1) - np.repeat(np.cumsum(steps) - steps, steps)
    count = steps[line]
    found = [points.T]
    if len(line):
        move, start = moves[line].T, points[line].T
        found.append(start + np.sign(move) * ((2 * np.abs(move) * step + count) // (2 * count)))
    columns, rows = np.concatenate(found, axis=1)
    return columns, rows


def token_boxes(ink: AlignedInk, style: RenderStyle = CROHME_STYLE) -> NDArray[np.float32]:
    """Return the bounding boxes of the tokens in the rendered image.

    Returns:
        float32 (tokens, 4): left, top, right, bottom in pixels of the image, including the
        width of the pen; NaN for a token without ink.
    """
    points = np.floor(np.concatenate(ink.strokes))
    starts = np.cumsum([0, *(len(stroke) for stroke in ink.strokes[:-1])])
    low = np.minimum.reduceat(points, starts)
    high = np.maximum.reduceat(points, starts) + style.pen_width
    boxes = np.full((len(ink.tokens), 4), np.nan, np.float32)
    inked = [index for index, strokes in enumerate(ink.alignment) if strokes]
    if inked:
        members = [stroke for index in inked for stroke in ink.alignment[index]]
        starts = np.cumsum([0, *(len(ink.alignment[index]) for index in inked[:-1])])
        boxes[inked, :2] = np.minimum.reduceat(low[members], starts)
        boxes[inked, 2:] = np.maximum.reduceat(high[members], starts)
    offset = style.margin[0] - low.min(axis=0)
    boxes += np.concatenate([offset, offset]).astype(np.float32)
    (full_height, full_width), (height, width) = _sizes(points, style)
    boxes *= np.array([width / full_width, height / full_height] * 2, np.float32)
    return boxes


def render_aligned(
    ink: AlignedInk, style: RenderStyle = CROHME_STYLE
) -> tuple[NDArray[np.uint8], NDArray[np.float32]]:
    """Render aligned ink; returns the image of `render` and the boxes of `token_boxes`."""
    return render(ink.strokes, style), token_boxes(ink, style)


def save_image(image: NDArray[np.uint8], path: str | os.PathLike[str]) -> None:
    """Write an image, uint8 (height, width), in the format of the file's extension.

    Raises:
        InkError: If the format is unknown or the file cannot be written.
    """
    try:
        Image.fromarray(image).save(path)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else error
        raise InkError(f"{os.fspath(path)}: {reason}") from error
