"""From a photo of handwriting to an image like those the model was trained on."""

from __future__ import annotations

import math
from dataclasses import dataclass

import cv2
import numpy as np
from numpy.typing import NDArray

from posformer.errors import NoInkError
from posformer.image.contrast import Contrast, measure_contrast
from posformer.image.loading import Reload
from posformer.image.pen import pen_width, thin
from posformer.image.ruling import erase_ruling
from posformer.image.sizing import covering_box

# Measured on CROHME's images, which the model was trained on.
SYMBOL_HEIGHT = 29.5  # median of the mean height of connected components, without the pen's width
SYMBOL_HEIGHT_RANGE = (16.0, 80.0)  # holds that mean in nearly all images
PEN_WIDTH = 3.0
PEN_WIDTH_RANGE = (2.4, 3.6)
MARGINS = (12, 12, 11, 11)  # top, left, bottom, right

THICK_PEN = 0.12  # relative to the height of symbols

COARSE_PIXELS = 800_000  # at most, for finding the ink
FINE_HEIGHT = 2.2 * SYMBOL_HEIGHT  # height of symbols at which their shape is decided
FINE_PIXELS = 6_000_000
MAX_RESULT_PIXELS = 2_000_000
MAX_GROWTH = 8  # pixels added on each side of a stroke at once; symbols need at most 3


@dataclass(frozen=True)
class CleanImage:
    """An image that is ready for the model, and its relation to the original."""

    image: NDArray[np.uint8]  # (height, width), white ink on black, with CROHME's margins
    box: tuple[int, int, int, int]  # left, top, right, bottom of the ink in the original
    scale: float  # pixels of `image` per pixel of the original
    light_ink: bool  # whether the ink was lighter than the paper
    pen_width: float  # in pixels of the original


@dataclass(frozen=True)
class _Ink:
    """The ink found in a part of an image, at some scale."""

    mask: np.ndarray  # uint8 (height, width), 1 where there is ink
    contrast: Contrast
    height: float  # typical height of symbols, without the pen's width
    pen: float  # typical width of strokes
    scale: float  # pixels of the mask per pixel of the original
    left: float  # where the mask begins in the original
    top: float

    @property
    def matches_training_images(self) -> bool:
        return (
            self.scale == 1
            and SYMBOL_HEIGHT_RANGE[0] <= self.height <= SYMBOL_HEIGHT_RANGE[1]
            and PEN_WIDTH_RANGE[0] <= self.pen <= PEN_WIDTH_RANGE[1]
        )


def clean(image: NDArray[np.uint8], reload: Reload | None = None) -> CleanImage:
    """Find the ink of an image and redraw it with the size and pen of the training images.

    An image that already looks like those is returned unchanged, except for its margins.

    Args:
        image: uint8 (height, width) or (height, width, 3) RGB, of any size, dark on light or
            light on dark, under uneven light, on plain, ruled or squared paper.
        reload: Loads the image at full size if the given one is reduced, see `load_reduced`; used
            if its symbols are too small.

    Raises:
        NoInkError: If the image has no ink.
    """
    coarse = _find_ink_coarsely(image)
    if reload and coarse.height < FINE_HEIGHT * coarse.scale:
        image = reload()
        coarse = _find_ink_coarsely(image)
    found = _find_ink_finely(image, coarse)
    left, top, width, height = cv2.boundingRect(found.mask)
    part = np.s_[top : top + height, left : left + width]
    if found.matches_training_images:
        factor, mask = 1.0, found.mask[part]
    else:
        factor = _resize_factor(found.height, width * height)
        shade = np.clip(found.contrast.map[part] / found.contrast.level, 0, 1)
        mask = _redraw(shade, found.mask[part], found.pen, factor)
    x, y = found.left + left / found.scale, found.top + top / found.scale
    return CleanImage(
        image=add_margins(mask * np.uint8(255)),
        box=covering_box(x, y, width / found.scale, height / found.scale),
        scale=found.scale * factor,
        light_ink=found.contrast.light_ink,
        pen_width=found.pen / found.scale,
    )


def add_margins(image: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Crop an image, uint8 (height, width), to its ink and add CROHME's margins."""
    left, top, width, height = cv2.boundingRect(image)
    above, before, below, after = MARGINS
    content = image[top : top + height, left : left + width]
    return np.pad(content, ((above, below), (before, after)))


def _find_ink_coarsely(image: np.ndarray) -> _Ink:
    """Find the ink of the whole image, at a resolution just high enough to locate it."""
    scale = min(1.0, (COARSE_PIXELS / (image.shape[0] * image.shape[1])) ** 0.5)
    if scale < 1:
        image = cv2.resize(image, None, fx=scale, fy=scale, interpolation=cv2.INTER_AREA)
    return _find_ink(image, None, scale, 0.0, 0.0)


def _find_ink_finely(image: np.ndarray, coarse: _Ink) -> _Ink:
    """Repeat the search around the ink, at the resolution that its symbols require."""
    scale = min(1.0, coarse.scale * FINE_HEIGHT / coarse.height)
    left, top, width, height = cv2.boundingRect(coarse.mask)
    padding = 0.5 * coarse.height
    x, y = (max(0, int((start - padding) / coarse.scale)) for start in (left, top))
    right = int((left + width + padding) / coarse.scale) + 1
    bottom = int((top + height + padding) / coarse.scale) + 1
    part = image[y:bottom, x:right]
    scale = min(scale, (FINE_PIXELS / (part.shape[0] * part.shape[1])) ** 0.5)
    if scale <= 1.1 * coarse.scale:
        return coarse
    part = cv2.resize(part, None, fx=scale, fy=scale, interpolation=cv2.INTER_AREA)
    return _find_ink(part, coarse.contrast.light_ink, scale, x, y)


def _find_ink(image: np.ndarray, light_ink: bool | None, scale: float, x: float, y: float) -> _Ink:
    contrast = measure_contrast(image, light_ink)
    if not contrast.level:
        raise NoInkError("there is no ink in the image")
    mask, boxes = _drop_dirt(erase_ruling(_threshold(contrast), contrast))
    if len(boxes) == 0:
        raise NoInkError("there is no ink in the image")
    pen = pen_width(mask)
    if pen > THICK_PEN * _symbol_height(boxes, pen):
        mask, boxes = _drop_dirt(_keep_stroke_cores(mask, contrast, pen))
        pen = pen_width(mask)
    return _Ink(mask, contrast, _symbol_height(boxes, pen), pen, scale, x, y)


def _threshold(contrast: Contrast) -> np.ndarray:
    """Return a mask of pixels above 0.4 of the ink's contrast connected to some above 0.55."""
    weak = (contrast.map > 0.4 * contrast.level).astype(np.uint8)
    strong = contrast.map > 0.55 * contrast.level
    count, labels = cv2.connectedComponents(weak, connectivity=8)
    keep = np.zeros(count, np.uint8)
    keep[labels[strong & (weak > 0)]] = 1
    keep[0] = 0
    return keep[labels]


def _keep_stroke_cores(mask: np.ndarray, contrast: Contrast, pen: float) -> np.ndarray:
    """Open the narrow gaps between thick strokes: drop pixels lighter than the stroke's center."""
    ink = np.minimum(contrast.map, contrast.level) * mask
    return mask * (ink > 0.8 * cv2.dilate(ink, _ellipse(math.ceil(pen)))).astype(np.uint8)


def _drop_dirt(mask: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Drop specks smaller than a dot of the pen, and dark masses at the edge of the image.

    Returns:
        The mask, and for each connected component int32 (components, 5): left, top, width,
        height, area.
    """
    _, labels, boxes, _ = cv2.connectedComponentsWithStats(mask, connectivity=8)
    left, top, width, height, area = boxes.T
    at_edge = (left == 0) | (top == 0)
    at_edge |= (left + width == mask.shape[1]) | (top + height == mask.shape[0])
    inner = (~at_edge).astype(np.uint8)[labels]
    pen = pen_width(inner) or pen_width(mask)
    keep = area >= 0.4 * pen**2
    keep[0] = False
    for label in np.flatnonzero(keep & at_edge):
        x, y, box_width, box_height = boxes[label, :4]
        part = (labels[y : y + box_height, x : x + box_width] == label).astype(np.uint8)
        keep[label] = pen_width(part) < 2 * pen
    return keep.astype(np.uint8)[labels], boxes[keep]


def _symbol_height(boxes: np.ndarray, pen: float) -> float:
    """Return the mean height of connected components without the pen's width.

    Args:
        boxes: int32 (components, 5): left, top, width, height, area. Flat ones do not count.
        pen: Width of strokes.
    """
    heights = boxes[:, 3] - pen
    tall = heights[heights > max(0.1 * heights.max(), 1.5 * pen)]
    if len(tall):
        return float(tall.mean())
    return float(max(boxes[:, 2].max() / 2, 1.0))  # only dots and dashes


def _resize_factor(height: float, area: int) -> float:
    """Return the factor from the current size to that of the training images."""
    factor = SYMBOL_HEIGHT / max(height, 1.0)
    return float(min(factor, 8.0, (MAX_RESULT_PIXELS / area) ** 0.5))


def _redraw(shade: np.ndarray, mask: np.ndarray, pen: float, factor: float) -> np.ndarray:
    """Resize ink and bring its strokes to the pen width of the training images.

    Args:
        shade: float32 (height, width), 0 for paper to 1 for ink.
        mask: uint8 (height, width), 1 where there is ink.
        pen: Width of strokes in these pixels.
        factor: Resize factor.

    Returns:
        uint8 (new height, new width), 1 where there is ink.
    """
    missing = (PEN_WIDTH / factor - pen) / 2
    if missing > MAX_GROWTH:  # a long bar: a wide pen would take the fourth power of its length
        step = math.ceil(missing / MAX_GROWTH)
        mask, shade = _shrink_keeping_strokes(mask, step), _shrink_keeping_strokes(shade, step)
        return _redraw(shade, mask, max(pen_width(mask), 1.0), factor * step)
    if missing < 0 and factor < 1:  # thin before shrinking, where steps are finer
        mask = thin(mask, math.ceil(-missing - 0.2))
        shade = shade * mask
    shade = np.where(
        mask > 0,
        np.maximum(shade, 0.5),
        np.minimum(shade, 0.4) * cv2.dilate(mask, np.ones((3, 3), np.uint8)),
    ).astype(np.float32)
    if (layers := round(missing)) > 0:
        shade = cv2.dilate(np.pad(shade, layers), _ellipse(2 * layers + 1))
    method = cv2.INTER_AREA if factor < 1 else cv2.INTER_CUBIC
    shade = cv2.resize(shade, None, fx=factor, fy=factor, interpolation=method)
    result = (shade > 0.45).astype(np.uint8)
    excess = round((pen_width(result) - PEN_WIDTH) / 2)
    return thin(result, excess) if excess > 0 else result


def _shrink_keeping_strokes(ink: np.ndarray, step: int) -> np.ndarray:
    """Return the maximum of each square of `step` pixels, so that thin strokes stay."""
    height, width = ink.shape
    padded = np.pad(ink, ((0, -height % step), (0, -width % step)))
    return padded.reshape(len(padded) // step, step, -1, step).max(axis=(1, 3))


def _ellipse(size: int) -> np.ndarray:
    return cv2.getStructuringElement(cv2.MORPH_ELLIPSE, (size, size))
