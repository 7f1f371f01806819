"""Tells ink from paper: light, colour and the lines that are printed on the paper."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import cv2
import numpy as np

from posformer.image.pen import pen_width

__all__ = ["Contrast", "erase_ruling", "measure_contrast"]

BACKGROUND_SIDE = 120  # pixels, squared: how many light is estimated from
BACKGROUND_WINDOW = 41  # a third of that: wider than any stroke, narrower than most shadows
DARKEST_PAPER = 80  # of 255; in less light than that differences are noise
FAINTEST_INK = 0.12  # of the light that the paper gives back
FAINTEST_LINE = 0.15  # of the contrast of ink
STEEPEST = 0.1  # slope of a printed line in an image that is held slightly askew


@dataclass(frozen=True)
class Contrast:
    """How much darker than the paper around it each pixel is."""

    map: np.ndarray  # float32 (height, width): 0 paper, `level` ink
    level: float  # of ink; 0 where there is none
    light_ink: bool  # whether ink is lighter than paper


def measure_contrast(image: np.ndarray, light_ink: bool | None = None) -> Contrast:
    """Compare every pixel with the paper around it, so that light and shadow drop out.

    Args:
        image: uint8 (height, width) or (height, width, 3).
        light_ink: whether ink is lighter than paper; None finds out.
    """
    small = _shrink(image, BACKGROUND_SIDE**2)
    table = _table(small)
    paper = _background(small, table)
    if light_ink is None:
        light_ink = _is_ink_light(image, paper, table)
    if light_ink:
        image, paper = 255 - image, 255 - paper
    paper = _grow(np.maximum(paper, DARKEST_PAPER), image)
    loss: np.ndarray = 1 - image.astype(np.float32) / paper.astype(np.float32)
    if table.any():
        loss[_grow(table, image) > 0] = 0
    if loss.ndim == 3:
        loss = _along_ink_colour(loss)
    sample = np.abs(loss[:: 1 + loss.shape[0] // 500, :: 1 + loss.shape[1] // 500])
    noise = 1.48 * float(np.median(sample))
    if noise > 0.01:
        loss = np.asarray(cv2.GaussianBlur(loss, (0, 0), 1.0))
        noise *= 0.4
    return Contrast(loss, _ink_level(loss, max(4 * noise, 0.06)), light_ink)


def _shrink(image: np.ndarray, pixels: int) -> np.ndarray:
    factor = min(1.0, (pixels / (image.shape[0] * image.shape[1])) ** 0.5)
    size = (max(1, round(image.shape[1] * factor)), max(1, round(image.shape[0] * factor)))
    return cv2.resize(image, size, interpolation=cv2.INTER_AREA)


def _grow(small: np.ndarray, image: np.ndarray) -> np.ndarray:
    size = (image.shape[1], image.shape[0])
    return cv2.resize(small, size, interpolation=cv2.INTER_LINEAR)


def _table(small: np.ndarray) -> np.ndarray:
    """What lies around the paper: dark masses at the edge; uint8 (height, width), 1 there."""
    grey = small if small.ndim == 2 else small.max(axis=2)
    dark = (grey < 0.4 * np.quantile(grey, 0.75)).astype(np.uint8)
    masses = cv2.morphologyEx(dark, cv2.MORPH_OPEN, np.ones((5, 5), np.uint8))
    _, labels = cv2.connectedComponents(masses, connectivity=8)
    edges = np.concatenate([labels[0], labels[-1], labels[:, 0], labels[:, -1]])
    at_edge = np.isin(labels, edges[edges > 0]).astype(np.uint8)
    return cv2.dilate(at_edge, np.ones((7, 7), np.uint8))


def _background(small: np.ndarray, table: np.ndarray) -> np.ndarray:
    """The paper under the ink: a median in a window that ink does not fill."""
    if table.any() and not table.all():
        small = small.copy()
        small[table > 0] = np.median(small[table == 0], axis=0)
    half = BACKGROUND_WINDOW // 2
    # Mirrored edges: repeated ones would let a dark rim outweigh the paper.
    padded = cv2.copyMakeBorder(small, half, half, half, half, cv2.BORDER_REFLECT)
    return cv2.medianBlur(padded, BACKGROUND_WINDOW)[half:-half, half:-half]


def _is_ink_light(image: np.ndarray, paper: np.ndarray, table: np.ndarray) -> bool:
    """Ink is what stands out most from the paper, on whichever side."""
    small = _shrink(image, 150_000)
    difference = small.astype(np.float32) - _grow(paper, small).astype(np.float32)
    difference[np.abs(difference) < 255 * FAINTEST_INK / 2] = 0
    difference[_grow(table, small) > 0] = 0
    return float((difference**3).sum()) > 0


def _along_ink_colour(loss: np.ndarray) -> np.ndarray:
    """The three channels as one, weighted as the ink absorbs them.

    Args:
        loss: float32 (height, width, 3), the light of each colour that is lost.
    """
    sample = loss[:: 1 + loss.shape[0] // 500, :: 1 + loss.shape[1] // 500].reshape(-1, 3)
    strength = sample.max(axis=1)
    darkest = sample[strength >= np.quantile(strength, 0.99)]
    colour = np.maximum(darkest.mean(axis=0), 0)
    if colour.sum() < 1e-3:
        colour = np.ones(3)
    return cv2.transform(loss, (colour / colour.sum()).astype(np.float32)[None])


def _ink_level(loss: np.ndarray, floor: float) -> float:
    """The contrast of the darkest strokes; 0 if nothing stands out."""
    sample = loss[:: 1 + loss.shape[0] // 1000, :: 1 + loss.shape[1] // 1000]
    standing_out = sample[sample > floor]
    if len(standing_out) < 5:
        return 0.0
    level = float(np.quantile(standing_out, 0.97))
    return level if level >= FAINTEST_INK else 0.0


def erase_ruling(ink: np.ndarray, contrast: Contrast) -> np.ndarray:
    """Take ruled or squared lines out of an image of ink.

    What makes a line printed is that it leaves the image at both ends, or that several alike
    stand in a row; fraction bars, minus signs and brackets do neither. Where a stroke crosses, it
    stays.

    Args:
        ink: bool or uint8 (height, width), 1 where something was drawn or printed.
        contrast: of the same pixels.

    Returns:
        uint8 (height, width).
    """
    ink = ink.astype(np.uint8)
    faint = (contrast.map > FAINTEST_LINE * contrast.level).astype(np.uint8)
    kept = ink
    level_lines = _find_lines(faint, families=True)
    if len(level_lines) == 1 and level_lines[0].thickness > 0.7 * pen_width(ink):
        level_lines = []  # the bar of a fraction in an image that ends where the bar does
    if level_lines:
        kept = _without_lines(ink, contrast.map, level_lines, contrast.level)
    # Brackets and digits of one height look like a family of upright lines.
    upright_lines = _find_lines(cv2.transpose(faint), families=bool(level_lines))
    if upright_lines:
        turned = cv2.transpose(kept), cv2.transpose(contrast.map)
        kept = cv2.transpose(_without_lines(*turned, upright_lines, contrast.level))
    if level_lines and upright_lines:  # what hung together by the upright ones is loose now
        kept = _without_lines(kept, contrast.map, level_lines, contrast.level)
    return kept


@dataclass(frozen=True)
class _Line:
    """A nearly level curve across an image."""

    rows: np.ndarray  # float64 (width,), its middle in every column
    thickness: float
    left: int
    right: int

    @property
    def slope(self) -> float:
        rise = self.rows[self.right] - self.rows[self.left]
        return float(rise / max(self.right - self.left, 1))


def _find_lines(faint: np.ndarray, families: bool) -> list[_Line]:
    """Printed lines that run from left to right.

    Args:
        faint: uint8 (height, width), 1 where anything stands out from the paper.
        families: whether lines that are alike count though they end within the image.
    """
    height, width = faint.shape
    length = max(15, width // 32)
    # Runs of a line that is turned a little are short; a little height makes them long enough.
    grown = cv2.dilate(faint, np.ones((3, 1), np.uint8))
    runs = cv2.morphologyEx(grown, cv2.MORPH_OPEN, np.ones((1, length), np.uint8))
    if runs.any(axis=0).mean() < 0.25:
        return []
    linked = cv2.dilate(runs, np.ones((3, 2 * length), np.uint8))
    _, labels, boxes, _ = cv2.connectedComponentsWithStats(linked, connectivity=8)
    lines = []
    for label in _worth_fitting(boxes, height, width, families):
        left, top, across, down, _ = boxes[label]
        part = np.s_[top : top + down, left : left + across]
        rows, columns = np.nonzero((labels[part] == label) & (runs[part] > 0))
        lines += _fit_all(rows + top, columns + left, faint)
    return _printed(lines, height, width, families)


def _worth_fitting(boxes: np.ndarray, height: int, width: int, families: bool) -> np.ndarray:
    """Labels of the linked runs that can be printed lines, going by their boxes alone.

    Most images have none, and are done here.
    """
    left, top, across, down, _ = boxes.T
    right, bottom = left + across, top + down
    flat = down <= 0.6 * across
    flat[0] = False
    long = flat & (across > width / 2)
    through = long & (left == 0) & (right == width)
    if through.any():
        sides = (left == 0).astype(int) + (right == width) + (top <= 5) + (bottom >= height - 5)
        return np.flatnonzero(through | (flat & (sides >= 2)))
    return np.flatnonzero(long) if families and long.sum() >= 4 else np.zeros(0, int)


def _fit_all(rows: np.ndarray, columns: np.ndarray, faint: np.ndarray) -> list[_Line]:
    """The lines that linked runs lie on: several where strokes join them."""
    lines: list[_Line] = []
    long_enough = len(np.unique(columns)) / 2
    while len(np.unique(columns)) >= long_enough:
        line = _fit(rows, columns, faint)
        if line is None:
            break
        lines.append(line)
        rest = np.abs(rows - line.rows[columns]) > 4
        rows, columns = rows[rest], columns[rest]
    return lines


def _fit(rows: np.ndarray, columns: np.ndarray, faint: np.ndarray) -> _Line | None:
    """A smooth curve through most of the pixels; None if they do not follow one."""
    ends = int(columns.min()), int(columns.max())
    step = max(1, len(rows) // 4000)
    rows, columns = rows[::step], columns[::step]
    bent = 2 if ends[1] - ends[0] > faint.shape[1] / 2 else 1  # paper is rarely quite flat
    straight = _straight_line(rows, columns)
    # Paper that is bent asks for a wide reach at first, strokes along the line for a narrow one.
    curves = [
        _follow(rows, columns, straight, bent, reaches)
        for reaches in ((4, 2.5, 1.5), (8, 4, 2.5, 1.5))
    ]
    best = max(curves, key=lambda curve: (np.abs(rows - curve(columns)) <= 1.5).sum())
    middle = best(np.arange(faint.shape[1]))
    if (_heights_at(faint, middle, ends, 1) > 0).mean() < 0.75:
        return None
    heights = _heights_at(faint, middle, ends, 4)
    return _Line(middle, float(np.median(heights[heights > 0])), *ends)


def _follow(
    rows: np.ndarray,
    columns: np.ndarray,
    curve: np.polynomial.Polynomial,
    bent: int,
    reaches: Sequence[float],
) -> np.polynomial.Polynomial:
    """A polynomial of degree `bent` through the pixels along a curve, nearer and nearer ones."""
    for reach in reaches:
        near = np.abs(rows - curve(columns)) <= reach
        if near.sum() <= 10:
            break
        curve = np.polynomial.Polynomial.fit(columns[near], rows[near], bent)
    return curve


def _straight_line(rows: np.ndarray, columns: np.ndarray) -> np.polynomial.Polynomial:
    """The straight line on which most pixels lie, strokes beside it or not."""
    best, votes = [0.0, 0.0], 0
    for slope in np.linspace(-STEEPEST, STEEPEST, 41):
        starts = np.rint(rows - slope * columns).astype(int)
        lowest = starts.min()
        counts = np.convolve(np.bincount(starts - lowest), (1, 1, 1), mode="same")
        if counts.max() > votes:
            best, votes = [float(lowest + counts.argmax()), float(slope)], counts.max()
    return np.polynomial.Polynomial(best)


def _heights_at(
    faint: np.ndarray, middle: np.ndarray, ends: tuple[int, int], reach: int
) -> np.ndarray:
    """How many pixels are marked within reach of a curve, in each column between its ends."""
    columns = np.arange(ends[0], ends[1] + 1)
    offsets = np.arange(-reach, reach + 1)
    rows = np.rint(middle[columns]).astype(int)[:, None] + offsets
    inside = (rows >= 0) & (rows < faint.shape[0])
    values = faint[np.clip(rows, 0, faint.shape[0] - 1), columns[:, None]]
    return (values * inside).sum(axis=1)


def _printed(lines: list[_Line], height: int, width: int, families: bool) -> list[_Line]:
    """Those lines that leave the image at both ends, or stand in a family of equals."""

    def leaves(line: _Line) -> bool:
        exits = []
        for column, border in ((line.left, 0), (line.right, width - 1)):
            row = line.rows[column]
            above_or_below = min(row, height - 1 - row) <= 5 and abs(line.slope) > 0.005
            exits.append(abs(column - border) <= 3 + 0.003 * width or above_or_below)
        return all(exits)

    def alike(line: _Line, other: _Line) -> bool:
        near = 0.05 * width
        ends = abs(line.left - other.left) < near and abs(line.right - other.right) < near
        return ends and abs(line.slope - other.slope) < 0.02 and line.right - line.left > width / 2

    leaving = [line for line in lines if leaves(line)]
    through = [line for line in leaving if line.right - line.left > 0.9 * width]
    if through:
        slopes = np.array([line.slope for line in through])
        return [line for line in leaving if np.abs(slopes - line.slope).min() < 0.03]
    if not families:
        return []
    return [line for line in lines if sum(alike(line, other) for other in lines) >= 4]


def _without_lines(
    ink: np.ndarray, contrast: np.ndarray, lines: list[_Line], level: float
) -> np.ndarray:
    """Ink without what belongs to level lines only."""
    result = ink.copy()
    beside = np.zeros_like(ink)
    for line in lines:
        reach = int(np.ceil(line.thickness / 2)) + 2
        first = max(0, int(np.floor(line.rows.min())) - 2 * reach)
        last = min(len(ink), int(np.ceil(line.rows.max())) + 2 * reach + 1)
        if last <= first:
            continue
        distance = np.abs(np.arange(first, last)[:, None] - line.rows)
        beside[first:last][distance <= 2 * reach] = 1
        shade = float(np.median(contrast[first:last][distance <= 0.6]))
        if shade < 0.6 * level:
            keep = contrast[first:last] > (shade + level) / 2
        else:
            keep = _taller(ink, line.thickness + 2, first, last)
        result[first:last][(distance <= reach) & ~keep] = 0
    thickest = max(line.thickness for line in lines)
    rim = int(2 * thickest) + 6  # here lines leave the image in pieces too short to be found
    beside[:rim] = beside[-rim:] = 1
    return _without_crumbs(result, beside, thickest + 2)


def _taller(ink: np.ndarray, height: float, first: int, last: int) -> np.ndarray:
    """Which pixels of some rows belong to upright runs of this height: strokes, not lines."""
    size = int(np.ceil(height))
    start = max(0, first - size)
    runs = cv2.morphologyEx(ink[start : last + size], cv2.MORPH_OPEN, np.ones((size, 1), np.uint8))
    return runs[first - start :][: last - first] > 0


def _without_crumbs(ink: np.ndarray, beside: np.ndarray, height: float) -> np.ndarray:
    """Drop what is left of lines: flat parts that lie along them and nowhere else."""
    count, labels, boxes, _ = cv2.connectedComponentsWithStats(ink, connectivity=8)
    outside = np.zeros(count, bool)
    outside[labels[beside == 0]] = True
    kept = outside | (boxes[:, 3] > height)
    kept[0] = False
    return kept.astype(np.uint8)[labels]
