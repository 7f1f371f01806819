"""Strokes to images, drawn the way CROHME's images were drawn.

The images that the field trains on follow a rule that can be read off them, and it is the rule
here: ink is brought to a size at which its strokes are 28 pixels tall on average, points are moved
to whole pixels, joined by lines one pixel wide, and every pixel grows into a 3 x 3 square.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Sequence
from dataclasses import dataclass

import cv2
import numpy as np
from PIL import Image

from posformer.errors import InkError
from posformer.image.pen import thin
from posformer.ink.aligned import AlignedInk, bounds

__all__ = [
    "RenderStyle",
    "natural_scale",
    "render",
    "render_aligned",
    "rendered_size",
    "save_image",
    "strokes_in_pixels",
    "token_boxes",
]

STROKE_HEIGHT = 28
"""Mean height in pixels of the strokes of a CROHME image."""

MAX_PIXELS = 2**26


@dataclass(frozen=True)
class RenderStyle:
    """How strokes become an image."""

    scale: float = 1.0
    """The finished image is resampled by this factor, as a real image would be."""
    margin: tuple[int, int] = (12, 11)
    """Empty pixels, before resampling, at left and top, and at right and bottom."""
    pen_width: int = 3
    """Side of the square pen in pixels, before resampling."""
    thinned: int = 0
    """Layers that are peeled off the strokes again, as clean-up does with those of thick pens."""

    def __post_init__(self) -> None:
        if not 0 < self.scale <= 16:
            raise InkError(f"scale {self.scale} is not above 0 and at most 16")
        if min(self.margin) < 0 or max(self.margin) > 10_000:
            raise InkError(f"margin {self.margin} is not within 0 and 10000")
        if not 1 <= self.pen_width <= 64:
            raise InkError(f"pen width {self.pen_width} is not within 1 and 64")
        if not 0 <= self.thinned < self.pen_width:
            raise InkError(f"{self.thinned} layers are no part of a pen of {self.pen_width}")


CROHME_STYLE = RenderStyle()


def natural_scale(strokes: Sequence[np.ndarray]) -> float:
    """The factor that brings ink of any unit to the size of CROHME's images.

    28 pixels divided by the mean height of the strokes, of those taller than a tenth of the
    tallest. Ink of flat strokes only, such as a minus sign, is sized by width instead.

    Args:
        strokes: float (points, 2) each.
    """
    grid, unit = _on_grid(strokes)
    return unit * STROKE_HEIGHT / _stroke_height(grid)


def strokes_in_pixels(
    strokes: Sequence[np.ndarray], measured: Collection[int] = ()
) -> tuple[np.ndarray, ...]:
    """Ink in the pixels of its CROHME image.

    Args:
        strokes: float (points, 2) each, in any unit.
        measured: Places of the strokes that tell how large the writing is; all if empty.

    Returns:
        float32 (points, 2) each, not rounded; the smallest coordinates lie in [0, 1), so that
        `render` finds the very pixels of the CROHME image. Points that do not leave the pixel
        of the point before are left out.
    """
    grid, _ = _on_grid(strokes)
    # Single precision, as the images were made: where a product should be a whole number, its
    # last bit decides between two pixels.
    telling = [points for place, points in enumerate(grid) if place in measured] or grid
    scale = np.float32(STROKE_HEIGHT / _stroke_height(telling))
    scaled = [points.astype(np.float32) * scale for points in grid]
    corner = np.floor(np.min([points.min(axis=0) for points in scaled], axis=0))
    return tuple(_without_repeats(points - corner) for points in scaled)


def _without_repeats(points: np.ndarray) -> np.ndarray:
    """Leave out points in the pixel of the point before: they draw nothing."""
    pixels = np.floor(points)
    moved = (pixels[1:] != pixels[:-1]).any(axis=1)
    return points[np.concatenate([[True], moved])]


def _on_grid(strokes: Sequence[np.ndarray]) -> tuple[list[np.ndarray], float]:
    """Whole numbers, as the images were made from; decimals count in thousandths."""
    if all((points == np.floor(points)).all() for points in strokes):
        return [np.asarray(points, np.float64) for points in strokes], 1.0
    return [np.floor(np.asarray(points, np.float64) * 1000 + 0.5) for points in strokes], 1000.0


def _stroke_height(strokes: Sequence[np.ndarray]) -> float:
    extents = np.array([np.ptp(points, axis=0) for points in strokes])
    widths, heights = extents.T
    sizes = widths if (heights <= widths / 5).all() else heights
    if not sizes.max():
        return float(STROKE_HEIGHT)  # dots only: there is nothing to go by
    return float(max(1.0, np.floor(sizes[sizes > 0.1 * sizes.max()].mean())))


def rendered_size(
    strokes: Sequence[np.ndarray], style: RenderStyle = CROHME_STYLE
) -> tuple[int, int]:
    """Height and width of the image that `render` gives."""
    return _scaled_size(*_full_size(*bounds(np.floor(np.concatenate(strokes))), style), style)


def _full_size(low: np.ndarray, high: np.ndarray, style: RenderStyle) -> tuple[int, int]:
    """Height and width before resampling, for pixels from `low` to `high`."""
    width, height = high - low + style.pen_width + sum(style.margin)
    if not height * width <= MAX_PIXELS:
        raise InkError(f"an image of {width:.0f} x {height:.0f} pixels is too large")
    return int(height), int(width)


def _scaled_size(height: int, width: int, style: RenderStyle) -> tuple[int, int]:
    return max(1, int(height * style.scale)), max(1, int(width * style.scale))


def render(strokes: Sequence[np.ndarray], style: RenderStyle = CROHME_STYLE) -> np.ndarray:
    """Draw strokes.

    Args:
        strokes: float (points, 2) each, in pixels; see `strokes_in_pixels`.
        style: How.

    Returns:
        uint8 (height, width), white ink on black.
    """
    points = np.floor(np.concatenate(strokes)).astype(np.int64)
    low, high = bounds(points)
    height, width = _full_size(low, high, style)
    points += style.margin[0] + (style.pen_width - 1) // 2 - low
    lengths = np.array([len(stroke) for stroke in strokes])
    image: np.ndarray = np.zeros((height, width), np.uint8)
    columns, rows = _pixels(points, np.cumsum(lengths)[:-1] - 1)
    image[rows, columns] = 255
    if style.pen_width > 1:
        pen = np.ones((style.pen_width, style.pen_width), np.uint8)
        image = np.asarray(cv2.dilate(image, pen))
    if style.thinned:
        image = thin((image > 0).astype(np.uint8), style.thinned) * np.uint8(255)
    return resample(image, *_scaled_size(height, width, style))


def _pixels(points: np.ndarray, breaks: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """All pixels of lines between points that follow each other.

    A line takes as many steps as its longer side has pixels; half a pixel rounds away from where
    the line starts, as in the images (Bresenham's rule leaves that open, and OpenCV's lines
    differ).

    Args:
        points: int64 (points, 2).
        breaks: Places of the last point of each stroke but the last: no line leaves them.

    Returns:
        Columns and rows, int64 (pixels,).
    """
    moves = np.diff(points, axis=0)
    steps = np.maximum(*np.abs(moves).T)
    steps[breaks] = 0
    line = np.repeat(np.arange(len(steps)), steps)
    step = np.arange(1, len(line) + 1) - np.repeat(np.cumsum(steps) - steps, steps)
    count = steps[line]
    found = [points.T]
    if len(line):
        move, start = moves[line].T, points[line].T
        found.append(start + np.sign(move) * ((2 * np.abs(move) * step + count) // (2 * count)))
    columns, rows = np.concatenate(found, axis=1)
    return columns, rows


def resample(image: np.ndarray, height: int, width: int) -> np.ndarray:
    """Bring an image to a size: averaging when it shrinks, blending when it grows."""
    if image.shape == (height, width):
        return image
    method = cv2.INTER_AREA if height * width < image.size else cv2.INTER_LINEAR
    return np.asarray(cv2.resize(image, (width, height), interpolation=method))


def token_boxes(ink: AlignedInk, style: RenderStyle = CROHME_STYLE) -> np.ndarray:
    """Where the tokens are in the image of the ink.

    Returns:
        float32 (tokens, 4): left, top, right, bottom in pixels of the image, with the pen's
        width; NaN for a token without ink.
    """
    points = np.floor(np.concatenate(ink.strokes))
    starts = np.cumsum([0, *(len(stroke) for stroke in ink.strokes[:-1])])
    low = np.minimum.reduceat(points, starts)
    high = np.maximum.reduceat(points, starts) + style.pen_width
    boxes = np.full((len(ink.tokens), 4), np.nan, np.float32)
    inked = [place for place, strokes in enumerate(ink.alignment) if strokes]
    if inked:
        members = [stroke for place in inked for stroke in ink.alignment[place]]
        starts = np.cumsum([0, *(len(ink.alignment[place]) for place in inked[:-1])])
        boxes[inked, :2] = np.minimum.reduceat(low[members], starts)
        boxes[inked, 2:] = np.maximum.reduceat(high[members], starts)
    offset = style.margin[0] - low.min(axis=0)
    boxes += np.concatenate([offset, offset]).astype(np.float32)
    full = _full_size(*bounds(points), style)
    height, width = _scaled_size(*full, style)
    boxes *= np.array([width / full[1], height / full[0]] * 2, np.float32)
    return boxes


def render_aligned(
    ink: AlignedInk, style: RenderStyle = CROHME_STYLE
) -> tuple[np.ndarray, np.ndarray]:
    """Draw aligned ink; gives the image of `render` and the boxes of `token_boxes`."""
    return render(ink.strokes, style), token_boxes(ink, style)


def save_image(image: np.ndarray, path: str | os.PathLike[str]) -> None:
    """Write an image, uint8 (height, width), in the format its name ends with.

    Raises:
        InkError: When the format is unknown or the file cannot be written; names the file.
    """
    try:
        Image.fromarray(image).save(path)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else error
        raise InkError(f"{os.fspath(path)}: {reason}") from error
