"""From a photograph to what the network reads, with grey levels kept.

`prepare_photo` finds the formula, crops it, brings it to the size of the training images and
flattens the light. It never decides pixel by pixel what is ink: the network does. `flatten` is
also applied to simulated photographs in training, so that both look alike.
"""

from __future__ import annotations

from dataclasses import dataclass

import cv2
import numpy as np

from posformer.errors import NoInkError
from posformer.image.cleanup import CleanImage
from posformer.image.contrast import Contrast
from posformer.image.lines import split_lines
from posformer.image.loading import Reload
from posformer.image.pen import pen_width
from posformer.image.ruling import erase_ruling

__all__ = ["Formula", "crop_formula", "find_formula", "flatten", "prepare_photo", "split_photo"]

SYMBOL_HEIGHT = 29.5  # pixels: mean height of connected ink in CROHME's images, without the pen
MARGIN = 12  # pixels around the formula
LARGEST_IMAGE = 2_000_000  # pixels of the result
MOST_ENLARGED = 5.0

STROKE_REACH = 20  # pixels, wider than any stroke at the working size
SMALLEST_CONTRAST = 0.02  # of the paper's brightness; less is never ink
RIM = 8  # pixels at the edges that do not count for the contrast of ink
FAINT = 0.15  # noise floor relative to the contrast of ink, above which noise is smoothed
COARSE_PIXELS = 600_000  # at most, where the formula is looked for


@dataclass(frozen=True)
class Formula:
    """Where the formula of a photograph is."""

    box: tuple[float, float, float, float]  # left, top, right, bottom in the photograph
    symbol_height: float  # mean height of its symbols there, without the pen's width
    light_ink: bool  # whether ink is lighter than paper
    weights: tuple[float, ...]  # of the color channels, for the grey image with the most contrast


def prepare_photo(image: np.ndarray, reload: Reload | None = None) -> np.ndarray:
    """Bring a photograph into the form of the training images, with grey levels kept.

    Args:
        image: uint8 (height, width) or (height, width, 3) RGB, of any size.
        reload: Loads the photograph at full size if `image` is reduced, see `load_reduced`; used
            if its symbols are too small.

    Returns:
        uint8 (height, width), light ink on black, symbols as tall as in CROHME's images, with a
        margin of at least 12 pixels. A rendering of CROHME comes out as it is.

    Raises:
        NoInkError: If nothing stands out from the paper.
    """
    if _is_rendered(image):
        return _frame(image)
    formula = find_formula(image)
    if reload and formula.symbol_height < 2 * SYMBOL_HEIGHT:
        image = reload()
        formula = find_formula(image)
    return _frame(flatten(crop_formula(image, formula), formula.light_ink))


def split_photo(prepared: np.ndarray) -> list[np.ndarray]:
    """Cut formulas that stand below each other apart.

    Args:
        prepared: What `prepare_photo` returns.

    Returns:
        uint8 (height, width) each, from top to bottom, with a margin of 12 pixels; the image itself
        if there is one formula.
    """
    contrast = prepared.astype(np.float32) / np.float32(255)
    mask = erase_ruling(_strong_parts(contrast, 1.0), Contrast(contrast, 1.0, True))
    left, top, width, height = cv2.boundingRect(mask)
    ink = np.pad(mask[top : top + height, left : left + width] * np.uint8(255), MARGIN)
    box = (left, top, left + width, top + height)
    lines = split_lines(CleanImage(ink, box, scale=1.0, light_ink=True, pen_width=3.0))
    if len(lines) == 1:
        return [prepared]
    parts = [prepared[y:bottom, x:right] for x, y, right, bottom in (line.box for line in lines)]
    return [np.pad(part, MARGIN) for part in parts]


def _is_rendered(image: np.ndarray) -> bool:
    """Whether an image is a rendering like those of CROHME already."""
    if image.ndim != 2 or cv2.countNonZero(cv2.inRange(image, 1, 254)):
        return False
    ink = (image > 0).astype(np.uint8)
    return bool(2 * ink.sum() < ink.size and 2.4 <= pen_width(ink) <= 3.6)


def flatten(image: np.ndarray, light_ink: bool | None = None) -> np.ndarray:
    """Remove uneven light and stretch the contrast: paper becomes 0, ink 255, grey levels stay.

    Args:
        image: uint8 (height, width) grey, symbols about 30 pixels tall.
        light_ink: Whether ink is lighter than paper; None decides by the image.

    Returns:
        uint8 (height, width), light ink on black; black for an image without contrast.
    """
    contrast, _ = _contrast(image, STROKE_REACH, light_ink)
    levels = _levels(contrast)
    if levels is None:
        return np.zeros(image.shape, np.uint8)
    floor, full = levels
    gain = 255 / (full - floor)
    return np.asarray(cv2.convertScaleAbs(np.maximum(contrast - np.float32(floor), 0), alpha=gain))


def _contrast(image: np.ndarray, reach: int, light_ink: bool | None) -> tuple[np.ndarray, bool]:
    """Share of the paper's light that is missing, float32 (height, width), and the polarity."""
    if light_ink is None:
        light_ink = _is_ink_light(image, reach)
    if light_ink:
        image = cv2.bitwise_not(image)
    paper = _paper(image, reach)
    return 1 - cv2.divide(image, paper, dtype=cv2.CV_32F), light_ink


def _paper(image: np.ndarray, reach: int) -> np.ndarray:
    """Brightness of the paper under dark ink, float32 (height, width).

    A closing at low resolution removes strokes narrower than `reach`; averaging first and
    smoothing afterwards keep noise from lifting it.
    """
    step = max(1, reach // 5)
    height, width = image.shape
    size = (max(1, round(width / step)), max(1, round(height / step)))
    small = cv2.resize(image, size, interpolation=cv2.INTER_AREA)
    side = 2 * (reach // (2 * step)) + 1
    border = side + 1
    small = cv2.copyMakeBorder(small, border, border, border, border, cv2.BORDER_REFLECT)
    closed = cv2.morphologyEx(small, cv2.MORPH_CLOSE, np.ones((side, side), np.uint8))
    smooth = cv2.blur(closed, (side, side))[border:-border, border:-border]
    large = cv2.resize(smooth, (width, height), interpolation=cv2.INTER_LINEAR)
    return np.maximum(large, 4).astype(np.float32)


def _is_ink_light(image: np.ndarray, reach: int) -> bool:
    """Ink is what stands out most from its surroundings, on whichever side."""
    step = max(1, 2 * reach // 5)  # surroundings twice as wide as the widest strokes
    # The root evens out noise and keeps reflections on a dark sheet from counting most.
    small = np.sqrt(_without_rim(image)[::step, ::step], dtype=np.float32)
    padded = cv2.copyMakeBorder(small, 2, 2, 2, 2, cv2.BORDER_REFLECT)
    difference = small - cv2.medianBlur(padded, 5)[2:-2, 2:-2]
    return float(np.vdot(difference * difference, difference)) > 0  # the cube, fast


def _without_rim(image: np.ndarray) -> np.ndarray:
    """All but the edges of an image, where the table may show."""
    return image[RIM:-RIM, RIM:-RIM] if min(image.shape) > 8 * RIM else image


def _levels(contrast: np.ndarray) -> tuple[float, float] | None:
    """The contrast that becomes black and the one that becomes white; None without ink."""
    contrast = _without_rim(contrast)
    sample = contrast[:: 1 + contrast.shape[0] // 600, :: 1 + contrast.shape[1] // 600].ravel()
    some = sample[:: 1 + len(sample) // 8000]
    sixth, half = len(some) // 6, len(some) // 2
    low, paper = np.partition(some, [sixth, half])[[sixth, half]].tolist()
    # Where lines and ink fill half of the image, that difference is none of noise; neighbors tell.
    rows = contrast[:: 1 + len(contrast) // 20]
    rough = _median(np.abs(rows[:, 1:] - rows[:, :-1])) if rows.shape[1] > 1 else 0.0
    noise = max(min(paper - low, 3 * rough), 0.004)
    standing_out = sample[sample > paper + max(4 * noise, SMALLEST_CONTRAST)]
    if len(standing_out) < 5:
        return None
    # A mean in which strong pixels count most: faint lines and specks may outnumber ink.
    squares = standing_out**2
    full = float(np.vdot(squares, standing_out) / squares.sum())
    floor = paper + min(2 * noise, 0.3 * (full - paper))
    return floor, full


def _median(values: np.ndarray) -> float:
    """Return what `np.median` does, without the import of `numpy.ma` at its first call."""
    middle = [(values.size - 1) // 2, values.size // 2]
    return float(np.mean(np.partition(values, middle, axis=None)[middle]))


def find_formula(image: np.ndarray) -> Formula:
    """Find the formula of a photograph; see `prepare_photo` for arguments and errors."""
    scale = min(1.0, (COARSE_PIXELS / (image.shape[0] * image.shape[1])) ** 0.5)
    small = image
    if scale < 1:
        small = cv2.resize(image, None, fx=scale, fy=scale, interpolation=cv2.INTER_AREA)
    weights = _ink_color(small)
    grey = _grey(small, weights)
    # First with a window for strokes of any width, then with one for those that were found.
    reach = max(STROKE_REACH, max(small.shape[:2]) // 16)
    light_ink = _is_ink_light(grey, reach)
    boxes, pen = _find_symbols(grey, reach, light_ink)
    height = _symbol_height(boxes, pen)
    closer = max(8, round(0.7 * height))
    if closer < reach:
        more, pen = _find_symbols(grey, closer, light_ink)
        # A narrow window turns the edge of the sheet into a line, far from what was found before.
        symbols = _inside(more, boxes, height) | (more[:, 2:4].max(axis=1) < 3 * height)
        if symbols.any():
            # Of a part that a ruled line runs through, symbols that were found before remain.
            hidden = [_inside(boxes, part[None], 0.0) for part in more[~symbols]]
            joined = boxes[np.any(hidden, axis=0)] if hidden else boxes[:0]
            boxes = np.concatenate([more[symbols], joined[joined[:, 2:4].max(axis=1) < 3 * height]])
            height = _symbol_height(more[symbols], pen)
    low, high = _bounds(boxes)
    left, top, right, bottom = (np.concatenate([low, high]) / scale).tolist()
    return Formula((left, top, right, bottom), height / scale, light_ink, weights)


def _bounds(boxes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """First and last corner of all boxes."""
    return boxes[:, :2].min(axis=0), (boxes[:, :2] + boxes[:, 2:4]).max(axis=0)


def _inside(boxes: np.ndarray, others: np.ndarray, reach: float) -> np.ndarray:
    """Which boxes lie within `reach` of the area of other ones."""
    low, high = _bounds(others)
    first, last = boxes[:, :2] >= low - reach, boxes[:, :2] + boxes[:, 2:4] <= high + reach
    return np.asarray((first & last).all(axis=1))


def crop_formula(image: np.ndarray, formula: Formula) -> np.ndarray:
    """Cut out a formula at the working size.

    Args:
        image: uint8 (height, width) or (height, width, 3).
        formula: What `find_formula` found there.

    Returns:
        uint8 (height, width) grey, with as much of the margin as the photograph has.
    """
    left, top, right, bottom = formula.box
    scale = min(SYMBOL_HEIGHT / max(formula.symbol_height, 1.0), MOST_ENLARGED)
    scale = min(scale, (LARGEST_IMAGE / max((right - left) * (bottom - top), 1)) ** 0.5)
    margin = MARGIN / scale
    x, y = max(0, round(left - margin)), max(0, round(top - margin))
    part = image[y : round(bottom + margin) + 1, x : round(right + margin) + 1]
    grey = _grey(part, formula.weights)
    size = [max(1, round(side * scale)) for side in grey.shape[::-1]]
    how = cv2.INTER_AREA if scale < 1 else cv2.INTER_CUBIC
    return np.asarray(cv2.resize(grey, size, interpolation=how))


def _frame(flat: np.ndarray) -> np.ndarray:
    """Add the margin where the photograph ends at the formula."""
    left, top, width, height = cv2.boundingRect((flat > 127).astype(np.uint8))
    if not width:
        raise NoInkError("there is no ink in the image")
    right, bottom = flat.shape[1] - left - width, flat.shape[0] - top - height
    missing = [max(0, MARGIN - side) for side in (top, bottom, left, right)]
    return np.pad(flat, (missing[:2], missing[2:]))


def _ink_color(image: np.ndarray) -> tuple[float, ...]:
    """Weights of the channels: as much as ink takes from each; (1,) for a grey image."""
    if image.ndim == 2:
        return (1.0,)
    around = cv2.blur(image, (41, 41))
    lost = np.abs(cv2.subtract(image, around, dtype=cv2.CV_32F)) / (around + np.float32(8))
    lost = lost[:: 1 + lost.shape[0] // 400, :: 1 + lost.shape[1] // 400].reshape(-1, 3)
    strength = lost.max(axis=1)
    color = lost[strength >= np.quantile(strength, 0.97)].mean(axis=0) + 1e-3
    return tuple((color / color.sum()).tolist())


def _grey(image: np.ndarray, weights: tuple[float, ...]) -> np.ndarray:
    if image.ndim == 2:
        return image
    return np.asarray(cv2.transform(image, np.array([weights], np.float32)))


def _find_symbols(grey: np.ndarray, reach: int, light_ink: bool) -> tuple[np.ndarray, float]:
    """Boxes of the formula's connected parts, int32 (parts, 5), and the width of its strokes."""
    contrast, _ = _contrast(grey, reach, light_ink)
    levels = _levels(contrast)
    if levels is not None and levels[0] > FAINT * levels[1]:
        contrast = np.asarray(cv2.GaussianBlur(contrast, (0, 0), 1.2))
        levels = _levels(contrast)
    if levels is None:
        raise NoInkError("there is no ink in the image")
    floor, full = levels
    contrast = np.maximum(contrast - np.float32(floor), 0)
    level = full - floor
    mask = erase_ruling(_strong_parts(contrast, level), Contrast(contrast, level, light_ink))
    _, labels, boxes, _ = cv2.connectedComponentsWithStats(mask, connectivity=8)
    pen = pen_width(_away_from_edges(labels, boxes)) or pen_width(mask)
    kept = np.flatnonzero(boxes[:, 4] >= 0.5 * pen**2)
    kept = kept[(kept > 0) & ~_is_edge_mass(labels, boxes, kept, pen)]
    if not len(kept):
        raise NoInkError("there is no ink in the image")
    height = _symbol_height(boxes[kept], pen)
    kept = kept[~_is_fragment(boxes[kept], height, mask.shape)]
    kept = kept[~_is_frame(labels, boxes, kept, pen)]
    return boxes[kept], pen


def _away_from_edges(labels: np.ndarray, boxes: np.ndarray) -> np.ndarray:
    """Parts that the photograph does not cut off, uint8 (height, width)."""
    inner = (boxes[:, :2] > 0).all(axis=1)
    inner &= (boxes[:, :2] + boxes[:, 2:4] < labels.shape[::-1]).all(axis=1)
    return inner.astype(np.uint8)[labels]


def _strong_parts(contrast: np.ndarray, level: float) -> np.ndarray:
    """Parts above 0.4 of the level that reach 0.6 somewhere, uint8 (height, width)."""
    weak = (contrast > 0.4 * level).astype(np.uint8)
    count, labels = cv2.connectedComponents(weak, connectivity=8)
    kept = np.zeros(count, np.uint8)
    kept[labels[contrast > 0.6 * level]] = 1
    kept[0] = 0
    return kept[labels]


def _symbol_height(boxes: np.ndarray, pen: float) -> float:
    """Mean height of connected parts, without the pen's and without flat ones."""
    heights = boxes[:, 3] - pen
    tall = heights[heights > max(0.1 * heights.max(), 1.5 * pen)]
    if len(tall):
        return float(max(tall.mean(), 1.0))
    return float(max(boxes[:, 2].max() / 2, 1.0))  # nothing but dots and dashes


def _is_edge_mass(
    labels: np.ndarray, boxes: np.ndarray, kept: np.ndarray, pen: float
) -> np.ndarray:
    """Which parts are no writing but the edge of the sheet: a table, a finger, a border."""
    low, high = boxes[kept, :2], boxes[kept, :2] + boxes[kept, 2:4]
    size = np.array(labels.shape[::-1])
    near = ((low < 3) | (high > size - 3)).any(axis=1) & (boxes[kept, 4] >= 12 * pen**2)
    cut = ((low == 0) | (high == size)).any(axis=1)
    rims = (labels[:3], labels[-3:], labels[:, :3].T, labels[:, -3:].T)
    shares = np.sort([_shares(rim, len(boxes)) for rim in rims], axis=0)
    found = np.zeros(len(kept), bool)
    for place in np.flatnonzero(near):
        contacts = shares[:, kept[place]]
        (left, top), (right, bottom) = low[place], high[place]
        part = (labels[top:bottom, left:right] == kept[place]).astype(np.uint8)
        thick = pen_width(part) > pen * (1.3 if contacts[-1] > 0.4 else 2.0)
        found[place] = (cut[place] and thick) or contacts[-2] > 0.4
    return found


def _shares(rim: np.ndarray, count: int) -> np.ndarray:
    """Share of the columns of a rim, int32 (3, width), that each of `count` labels occurs in."""
    rim = np.sort(rim, axis=0)
    new = np.ones(rim.shape, bool)
    new[1:] = rim[1:] != rim[:-1]
    return np.bincount(rim[new], minlength=count) / rim.shape[1]


def _is_fragment(boxes: np.ndarray, height: float, shape: tuple[int, ...]) -> np.ndarray:
    """Which parts are no part of the formula: cut-off writing above or below it, and specks."""
    left, top = boxes[:, 0], boxes[:, 1]
    right, bottom = left + boxes[:, 2], top + boxes[:, 3]
    usual = float(np.average(boxes[:, 3], weights=boxes[:, 4]))  # fragments have little area
    cut = ((top <= 1) | (bottom >= shape[0] - 1)) & (boxes[:, 3] < 0.7 * usual)
    flat = boxes[:, 3] < 0.4 * height
    body = ~cut & ~flat
    if body.all() or not body.any():
        return np.zeros(len(boxes), bool)
    first, last = top[body].min(), bottom[body].max()
    beyond = (bottom <= first + 0.15 * height) | (top >= last - 0.15 * height)
    far = (bottom < first - 0.6 * height) | (top > last + 0.6 * height)
    far |= (right < left[body].min() - 4 * height) | (left > right[body].max() + 4 * height)
    return np.asarray((cut & beyond) | (flat & far))


def _is_frame(labels: np.ndarray, boxes: np.ndarray, kept: np.ndarray, pen: float) -> np.ndarray:
    """Which parts are boxes around the others, drawn or formed by a table; a side may lack."""
    found = np.zeros(len(kept), bool)
    if len(kept) < 2:
        return found
    low, high = boxes[kept, :2], boxes[kept, :2] + boxes[kept, 2:4]
    middles, extent = (low + high) / 2, high.max(axis=0) - low.min(axis=0)
    for place in np.flatnonzero((high - low >= 0.6 * extent).all(axis=1)):
        label = kept[place]
        left, top, across, down, _ = boxes[label]
        inside = ((middles > (left, top)) & (middles < (left + across, top + down))).all(axis=1)
        if inside.mean() < 0.8 or across < 8 * pen or down < 8 * pen:
            continue
        part = labels[top : top + down, left : left + across] == label
        rim = int(3 * pen) + 1
        sides = (part[:rim].any(0), part[-rim:].any(0), part[:, :rim].any(1), part[:, -rim:].any(1))
        found[place] = sorted(side.mean() for side in sides)[1] > 0.8
    return found if not found.all() else np.zeros(len(kept), bool)
