"""From a photograph of handwriting to an image like those the model was trained on."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import cv2
import numpy as np

from posformer.errors import NoInkError
from posformer.image.paper import Contrast, erase_ruling, measure_contrast
from posformer.image.pen import pen_width, thin
from posformer.ink.render import render

__all__ = ["Cleaned", "clean", "split_lines", "split_strokes"]

# CROHME's images, which the model was trained on.
SYMBOL_HEIGHT = 29.5  # median over them of the mean height of connected ink, without the pen's
USUAL_HEIGHTS = (16.0, 80.0)  # between which that mean lies in nearly all of them
PEN_WIDTH = 3.0
USUAL_PENS = (2.4, 3.6)
MARGINS = (12, 12, 11, 11)  # above, left, below, right

THICK_PEN = 0.12  # of the height of symbols

LINE_GAP = 0.7  # between two lines, in heights of symbols; less is rare
LIMIT_HEIGHT = 0.9  # of what stands under a sum, likewise

COARSE_PIXELS = 800_000  # at most, where ink is looked for
FINE_HEIGHT = 2.2 * SYMBOL_HEIGHT  # of symbols where their shape is decided
FINE_PIXELS = 6_000_000
LARGEST_IMAGE = 2_000_000  # pixels of what is handed to the model


Band = tuple[int, int]  # rows of an image: the first, and the one behind the last


@dataclass(frozen=True)
class Cleaned:
    """An image ready for the model, and how it came out of the one that was given."""

    image: np.ndarray  # uint8 (height, width), white ink on black, with CROHME's margins
    box: tuple[int, int, int, int]  # left, top, right, bottom of the ink in the given image
    scale: float  # pixels of `image` for one of the given image
    light_ink: bool  # whether ink was lighter than paper
    pen_width: float  # in pixels of the given image


@dataclass(frozen=True)
class _Ink:
    """What was found in a part of an image, at some scale."""

    mask: np.ndarray  # uint8 (height, width), 1 where there is ink
    contrast: Contrast
    height: float  # typical of its symbols, without the pen's width
    pen: float  # typical width of its strokes
    scale: float  # pixels of the mask for one of the given image
    left: float  # where the mask begins in the given image
    top: float


def clean(image: np.ndarray) -> Cleaned:
    """Find the ink of an image and bring it to the size and pen of the training images.

    An image that is already like those comes out unchanged, up to its margins.

    Args:
        image: uint8 (height, width) or (height, width, 3), of any size, dark on light or light
            on dark, with uneven light, and on plain, ruled or squared paper.

    Raises:
        NoInkError: if nothing is written there.
    """
    found = _look_closer(image, _look(image))
    as_it_is = (
        found.scale == 1
        and USUAL_HEIGHTS[0] <= found.height <= USUAL_HEIGHTS[1]
        and USUAL_PENS[0] <= found.pen <= USUAL_PENS[1]
    )
    left, top, width, down = cv2.boundingRect(found.mask)
    part = np.s_[top : top + down, left : left + width]
    if as_it_is:
        resize, mask = 1.0, found.mask[part]
    else:
        resize = _resizing(found.height, width * down)
        shade = np.clip(found.contrast.map[part] / found.contrast.level, 0, 1)
        mask = _redraw(shade, found.mask[part], found.pen, resize)
    x, y = found.left + left / found.scale, found.top + top / found.scale
    right, bottom = x + width / found.scale, y + down / found.scale
    return Cleaned(
        image=_with_margins(mask * np.uint8(255)),
        box=(int(x), int(y), int(np.ceil(right)), int(np.ceil(bottom))),
        scale=found.scale * resize,
        light_ink=found.contrast.light_ink,
        pen_width=found.pen / found.scale,
    )


def _look(image: np.ndarray) -> _Ink:
    """Find the ink of a whole image, no finer than needed to see where it is."""
    scale = min(1.0, (COARSE_PIXELS / (image.shape[0] * image.shape[1])) ** 0.5)
    small = image
    if scale < 1:
        small = cv2.resize(image, None, fx=scale, fy=scale, interpolation=cv2.INTER_AREA)
    return _find_ink(small, None, scale, 0.0, 0.0)


def _look_closer(image: np.ndarray, coarse: _Ink) -> _Ink:
    """Look at the ink alone, and as finely as its symbols ask for."""
    scale = min(1.0, coarse.scale * FINE_HEIGHT / coarse.height)
    left, top, width, height = cv2.boundingRect(coarse.mask)
    around = 0.5 * coarse.height
    x, y = (max(0, int((start - around) / coarse.scale)) for start in (left, top))
    right = int((left + width + around) / coarse.scale) + 1
    bottom = int((top + height + around) / coarse.scale) + 1
    part = image[y:bottom, x:right]
    scale = min(scale, (FINE_PIXELS / (part.shape[0] * part.shape[1])) ** 0.5)
    if scale <= 1.1 * coarse.scale:
        return coarse
    part = cv2.resize(part, None, fx=scale, fy=scale, interpolation=cv2.INTER_AREA)
    return _find_ink(part, coarse.contrast.light_ink, scale, x, y)


def _find_ink(
    image: np.ndarray, light_ink: bool | None, scale: float, left: float, top: float
) -> _Ink:
    contrast = measure_contrast(image, light_ink)
    if not contrast.level:
        raise NoInkError("there is no ink in the image")
    mask = erase_ruling(_strong_parts(contrast), contrast)
    mask, boxes = _without_dirt(mask)
    if len(boxes) == 0:
        raise NoInkError("there is no ink in the image")
    pen = pen_width(mask)
    if pen > THICK_PEN * _symbol_height(boxes, pen):
        mask, boxes = _without_dirt(_core(mask, contrast, pen))
        pen = pen_width(mask)
    return _Ink(mask, contrast, _symbol_height(boxes, pen), pen, scale, left, top)


def _strong_parts(contrast: Contrast) -> np.ndarray:
    """Pixels of at least 0.4 of the contrast of ink that hang together with some of 0.55."""
    weak = (contrast.map > 0.4 * contrast.level).astype(np.uint8)
    strong = contrast.map > 0.55 * contrast.level
    count, labels = cv2.connectedComponents(weak, connectivity=8)
    kept = np.zeros(count, np.uint8)
    kept[labels[strong & (weak > 0)]] = 1
    kept[0] = 0
    return kept[labels]


def _core(mask: np.ndarray, contrast: Contrast, pen: float) -> np.ndarray:
    """Thick strokes without what is lighter than their middle: the narrow gaps between them."""
    ink = np.minimum(contrast.map, contrast.level) * mask
    size = math.ceil(pen)
    nib = cv2.getStructuringElement(cv2.MORPH_ELLIPSE, (size, size))
    return mask * (ink > 0.8 * cv2.dilate(ink, nib)).astype(np.uint8)


def _without_dirt(mask: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Drop specks smaller than a dot of the pen, and dark masses at the edge of the image.

    Returns:
        The mask, and of each connected part int32 (parts, 5) left, top, width, height, area.
    """
    _, labels, boxes, _ = cv2.connectedComponentsWithStats(mask, connectivity=8)
    left, top, width, height, area = boxes.T
    edge = (left == 0) | (top == 0)
    edge |= (left + width == mask.shape[1]) | (top + height == mask.shape[0])
    inner = (~edge).astype(np.uint8)[labels]
    pen = pen_width(inner) or pen_width(mask)
    kept = area >= 0.4 * pen**2
    kept[0] = False
    for label in np.flatnonzero(kept & edge):
        x, y, across, down = boxes[label, :4]
        part = (labels[y : y + down, x : x + across] == label).astype(np.uint8)
        kept[label] = pen_width(part) < 2 * pen
    return kept.astype(np.uint8)[labels], boxes[kept]


def _symbol_height(boxes: np.ndarray, pen: float) -> float:
    """Mean height of connected parts, without the pen's and without flat ones.

    Args:
        boxes: int32 (parts, 5), left, top, width, height, area.
        pen: width of strokes.
    """
    heights = boxes[:, 3] - pen
    tall = heights[heights > max(0.1 * heights.max(), 1.5 * pen)]
    if len(tall):
        return float(tall.mean())
    return float(max(boxes[:, 2].max() / 2, 1.0))  # nothing but dots and dashes


def _resizing(height: float, area: int) -> float:
    """The factor from the size at hand to the model's."""
    factor = SYMBOL_HEIGHT / max(height, 1.0)
    return float(min(factor, 8.0, (LARGEST_IMAGE / area) ** 0.5))


def _redraw(shade: np.ndarray, mask: np.ndarray, pen: float, factor: float) -> np.ndarray:
    """Ink at another size, with the model's pen.

    Args:
        shade: float32 (height, width), 0 paper to 1 ink.
        mask: uint8 (height, width), where ink is.
        pen: width of its strokes in these pixels.
        factor: of the size.

    Returns:
        uint8 (new height, new width), 1 where there is ink.
    """
    missing = (PEN_WIDTH / factor - pen) / 2
    if missing < 0 and factor < 1:  # here, where steps are finer than in the smaller image
        mask = thin(mask, math.ceil(-missing - 0.2))
        shade = shade * mask
    shade = np.where(
        mask > 0,
        np.maximum(shade, 0.5),
        np.minimum(shade, 0.4) * cv2.dilate(mask, np.ones((3, 3), np.uint8)),
    ).astype(np.float32)
    if (layers := round(missing)) > 0:
        nib = cv2.getStructuringElement(cv2.MORPH_ELLIPSE, (2 * layers + 1, 2 * layers + 1))
        shade = cv2.dilate(np.pad(shade, layers), nib)
    how = cv2.INTER_AREA if factor < 1 else cv2.INTER_CUBIC
    shade = cv2.resize(shade, None, fx=factor, fy=factor, interpolation=how)
    result = (shade > 0.45).astype(np.uint8)
    excess = round((pen_width(result) - PEN_WIDTH) / 2)
    return thin(result, excess) if excess > 0 else result


def _with_margins(image: np.ndarray) -> np.ndarray:
    left, top, width, height = cv2.boundingRect(image)
    content = image[top : top + height, left : left + width]
    above, before, below, behind = MARGINS
    return cv2.copyMakeBorder(content, above, below, before, behind, cv2.BORDER_CONSTANT, value=0)


def split_lines(cleaned: Cleaned) -> list[Cleaned]:
    """Cut formulas that stand below each other apart.

    Numerators, denominators and limits stand below each other too; a cut is made only where the
    gap is as wide as a line's and neither side looks like a part of the other.

    Args:
        cleaned: a cleaned image.

    Returns:
        The formulas from top to bottom; the image itself if there is one.
    """
    lines = _lines(cleaned.image)
    if len(lines) == 1:
        return [cleaned]
    return [_cut_out(cleaned, top, bottom) for top, bottom in lines]


def split_strokes(strokes: Sequence[np.ndarray]) -> list[tuple[np.ndarray, ...]]:
    """Cut ink apart where `split_lines` would cut its image.

    Formulas are written one after the other, their parts rarely so: no cut is made where
    something above it was written after something below.

    Args:
        strokes: float (points, 2) each, in pixels as `strokes_in_pixels` gives them, in the order
            they were written.

    Returns:
        The strokes of each formula, from top to bottom.
    """
    lines = _lines(render(strokes))
    top = min(np.floor(stroke[:, 1].min()) for stroke in strokes)
    middles = np.array([(stroke[:, 1].min() + stroke[:, 1].max()) / 2 for stroke in strokes])
    middles += MARGINS[0] - top + PEN_WIDTH / 2
    cuts = []
    for upper, lower in pairwise(lines):
        above = middles < (upper[1] + lower[0]) / 2
        if np.flatnonzero(above).max() < np.flatnonzero(~above).min():
            cuts.append(int(above.sum()))
    return [tuple(strokes[start:end]) for start, end in pairwise([0, *cuts, len(strokes)])]


def _lines(image: np.ndarray) -> list[Band]:
    """The rows of each formula in an image, from top to bottom."""
    ink = (image > 0).astype(np.uint8)
    edges = np.flatnonzero(np.diff(ink.any(axis=1).astype(np.int8), prepend=0, append=0))
    return _join(ink, [(int(top), int(bottom)) for top, bottom in edges.reshape(-1, 2)])


def _join(ink: np.ndarray, bands: list[Band]) -> list[Band]:
    """Join bands that are parts of one formula, the nearest first."""
    bars = _bars(ink)
    while True:
        gaps = [
            (lower[0] - upper[1], place)
            for place, (upper, lower) in enumerate(pairwise(bands))
            if _belong_together(ink, upper, lower, bars)
        ]
        if not gaps:
            return bands
        _, place = min(gaps)
        bands[place : place + 2] = [(bands[place][0], bands[place + 1][1])]


def _bars(ink: np.ndarray) -> np.ndarray:
    """Flat wide parts, such as fraction bars: int32 (bars, 5), left, top, width, height, area."""
    _, _, boxes, _ = cv2.connectedComponentsWithStats(ink, connectivity=8)
    boxes = boxes[1:]
    return boxes[(boxes[:, 2] >= 3 * boxes[:, 3]) & (boxes[:, 2] >= 0.6 * SYMBOL_HEIGHT)]


def _belong_together(ink: np.ndarray, upper: Band, lower: Band, bars: np.ndarray) -> bool:
    """Whether two bands are parts of one formula."""
    gap = lower[0] - upper[1]
    if gap < LINE_GAP * SYMBOL_HEIGHT:
        return True
    if _faces_bar(ink, upper, lower, bars) or _faces_bar(ink, lower, upper, bars):
        return True
    heights = upper[1] - upper[0], lower[1] - lower[0]
    columns = [np.flatnonzero(ink[top:bottom].any(axis=0)) for top, bottom in (upper, lower)]
    widths = [int(np.ptp(part)) + 1 for part in columns]
    small = int(np.argmin(widths))
    is_flat = min(heights) <= 4 * PEN_WIDTH  # a bar, or dots
    is_limit = heights[small] <= LIMIT_HEIGHT * SYMBOL_HEIGHT and 2 * min(widths) <= max(widths)
    return bool((is_flat or is_limit) and gap < 2 * LINE_GAP * SYMBOL_HEIGHT)


def _faces_bar(ink: np.ndarray, part: Band, other: Band, bars: np.ndarray) -> bool:
    """Whether the other band turns a bar to this part, and so is the rest of a fraction."""
    columns = np.asarray(ink[part[0] : part[1]].any(axis=0))
    for left, top, width, height, _ in bars:
        if not other[0] <= top < other[1]:
            continue
        across = np.s_[left : left + width]
        rows = np.s_[part[1] : top] if part[0] < top else np.s_[top + height : part[0]]
        between = ink[rows, across]
        if not between.any() and columns[across].sum() > 0.9 * columns.sum():
            return True
    return False


def _cut_out(cleaned: Cleaned, top: int, bottom: int) -> Cleaned:
    """Some rows of a cleaned image as an image of their own."""
    left, _, width, _ = cv2.boundingRect(cleaned.image[top:bottom])
    x = cleaned.box[0] + (left - MARGINS[1]) / cleaned.scale
    y = cleaned.box[1] + (top - MARGINS[0]) / cleaned.scale
    right, below = x + width / cleaned.scale, y + (bottom - top) / cleaned.scale
    return replace(
        cleaned,
        image=_with_margins(cleaned.image[top:bottom]),
        box=(int(x), int(y), int(np.ceil(right)), int(np.ceil(below))),
    )
