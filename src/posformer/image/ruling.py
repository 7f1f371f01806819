"""Removing the printed lines of ruled and squared paper."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import cv2
import numpy as np
from numpy.typing import NDArray

from posformer.image.contrast import Contrast
from posformer.image.pen import pen_width

MIN_LINE_CONTRAST = 0.15  # relative to the contrast of ink
MAX_LINES = 100  # per direction; A4 paper with squares of 5 mm has 60
MAX_LINE_PIXELS = 200_000  # considered per component
MAX_SLOPE = 0.1  # of a printed line in a photo that is held slightly askew


def erase_ruling(ink: NDArray[np.uint8], contrast: Contrast) -> NDArray[np.uint8]:
    """Remove ruled or squared lines from an ink mask; strokes that cross them stay.

    A line counts as printed if it leaves the image at both ends, or if several similar lines
    run in parallel. Fraction bars, minus signs and brackets do neither.

    Args:
        ink: bool or uint8 (height, width), 1 where something is drawn or printed.
        contrast: Contrast of the same pixels.

    Returns:
        uint8 (height, width), 1 where there is ink.
    """
    ink = ink.astype(np.uint8)
    faint = (contrast.map > MIN_LINE_CONTRAST * contrast.level).astype(np.uint8)
    horizontal = _find_lines(faint, allow_families=True)
    if len(horizontal) == 1 and horizontal[0].thickness > 0.7 * pen_width(ink):
        horizontal = []  # a fraction bar in an image that is cropped to the bar
    result = _remove_lines(ink, contrast, horizontal)
    # Brackets and digits of the same height look like a family of vertical lines.
    vertical = _find_lines(cv2.transpose(faint), allow_families=bool(horizontal))
    if vertical:
        turned = replace(contrast, map=np.ascontiguousarray(contrast.map.T))
        result = _remove_lines(np.ascontiguousarray(result.T), turned, vertical).T
        # Fragments that were connected by vertical lines are loose now.
        result = _remove_lines(np.ascontiguousarray(result), contrast, horizontal)
    return result


@dataclass(frozen=True)
class _Line:
    """A nearly horizontal curve across an image."""

    rows: np.ndarray  # float64 (image width,), y of its center in every column
    thickness: float
    left: int
    right: int

    @property
    def slope(self) -> float:
        rise = self.rows[self.right] - self.rows[self.left]
        return float(rise / max(self.right - self.left, 1))


def _find_lines(faint: np.ndarray, allow_families: bool) -> list[_Line]:
    """Find printed lines that run from left to right.

    Args:
        faint: uint8 (height, width), 1 where anything stands out from the paper.
        allow_families: Whether similar parallel lines count even if they end inside the image.
    """
    length = max(15, faint.shape[1] // 32)
    # The runs of a slightly rotated line are short; dilating vertically makes them long enough.
    dilated = cv2.dilate(faint, np.ones((3, 1), np.uint8))
    runs = cv2.morphologyEx(dilated, cv2.MORPH_OPEN, np.ones((1, length), np.uint8))
    if runs.any(axis=0).mean() < 0.25:
        return []
    linked = cv2.dilate(runs, np.ones((3, 2 * length), np.uint8))
    _, labels, boxes, _ = cv2.connectedComponentsWithStats(linked, connectivity=8)
    candidates = _line_candidates(boxes, faint.shape, allow_families)
    lines: list[_Line] = []
    if len(candidates) > MAX_LINES:
        return []  # hatching or noise
    for label in candidates:
        left, top, box_width, box_height, _ = boxes[label]
        part = np.s_[top : top + box_height, left : left + box_width]
        rows, columns = np.nonzero((labels[part] == label) & (runs[part] > 0))
        lines += _fit_lines(rows + top, columns + left, faint, MAX_LINES + 1 - len(lines))
        if len(lines) > MAX_LINES:
            return []
    return _select_printed(lines, faint.shape, allow_families)


def _line_candidates(boxes: np.ndarray, shape: tuple[int, ...], allow_families: bool) -> np.ndarray:
    """Return the labels of components whose bounding boxes allow a printed line.

    Most images have none, so that nothing has to be fitted.
    """
    height, width = shape
    left, top, box_width, box_height, _ = boxes.T
    right, bottom = left + box_width, top + box_height
    flat = box_height <= 0.6 * box_width
    flat[0] = False
    long = flat & (box_width > width / 2)
    through = long & (left == 0) & (right == width)
    if through.any():
        sides = (left == 0).astype(int) + (right == width) + (top <= 5) + (bottom >= height - 5)
        return np.flatnonzero(through | (flat & (sides >= 2)))
    return np.flatnonzero(long) if allow_families and long.sum() >= 4 else np.zeros(0, int)


def _fit_lines(rows: np.ndarray, columns: np.ndarray, faint: np.ndarray, limit: int) -> list[_Line]:
    """Fit up to `limit` lines to the pixels of one component; several if strokes connect them."""
    lines: list[_Line] = []
    step = 1 + len(rows) // MAX_LINE_PIXELS
    rows, columns = rows[::step], columns[::step]
    min_columns = np.count_nonzero(np.bincount(columns)) / 2
    while len(lines) < limit and np.count_nonzero(np.bincount(columns)) >= min_columns:
        line = _fit_line(rows, columns, faint)
        if line is None:
            break
        lines.append(line)
        rest = np.abs(rows - line.rows[columns]) > 4
        rows, columns = rows[rest], columns[rest]
    return lines


def _fit_line(rows: np.ndarray, columns: np.ndarray, faint: np.ndarray) -> _Line | None:
    """Fit a smooth curve to most of the pixels; None if they do not follow one."""
    ends = int(columns.min()), int(columns.max())
    step = max(1, len(rows) // 4000)
    rows, columns = rows[::step], columns[::step]
    degree = 2 if ends[1] - ends[0] > faint.shape[1] / 2 else 1  # paper is rarely quite flat
    straight = _vote_straight_line(rows, columns)
    curve = _refine(rows, columns, straight, degree, (4, 2.5, 1.5))
    if (found := _count_on(curve, rows, columns)) < 0.9 * len(rows):
        # Curled paper needs a wide tolerance at first, strokes along the line a narrow one.
        other = _refine(rows, columns, straight, degree, (8, 4, 2.5, 1.5))
        if _count_on(other, rows, columns) > found:
            curve = other
    center = curve(np.arange(faint.shape[1]))
    if (_count_near(faint, center, ends, 1) > 0).mean() < 0.75:
        return None
    counts = _count_near(faint, center, ends, 4)
    return _Line(center, float(np.median(counts[counts > 0])), *ends)


@dataclass(frozen=True)
class _Curve:
    """A polynomial; of `numpy.polynomial`, every call takes several times as long."""

    coefficients: np.ndarray  # of powers of (column - middle) / reach, the constant first
    middle: float = 0.0
    reach: float = 1.0

    def __call__(self, columns: np.ndarray) -> np.ndarray:
        x = (columns - self.middle) / self.reach
        rows = np.full(len(x), self.coefficients[-1])
        for coefficient in self.coefficients[-2::-1]:
            rows = rows * x + coefficient
        return rows

    @classmethod
    def fit(cls, columns: np.ndarray, rows: np.ndarray, degree: int) -> _Curve:
        """Fit by least squares, through the normal equations."""
        first, last = float(columns.min()), float(columns.max())
        middle, reach = (first + last) / 2, (last - first) / 2 + 1e-9
        x = (columns - middle) / reach
        powers = np.stack([x**power for power in range(degree + 1)])
        normal = powers @ powers.T
        normal[np.diag_indices(degree + 1)] += 1e-9 * len(x)  # all pixels may be in one column
        return cls(np.linalg.solve(normal, powers @ rows), middle, reach)


def _count_on(curve: _Curve, rows: np.ndarray, columns: np.ndarray) -> int:
    """Count the pixels on a curve."""
    return int((np.abs(rows - curve(columns)) <= 1.5).sum())


def _refine(
    rows: np.ndarray, columns: np.ndarray, curve: _Curve, degree: int, limits: Sequence[float]
) -> _Curve:
    """Refit a curve to the pixels near it, with decreasing tolerance."""
    for tolerance in limits:
        near = np.abs(rows - curve(columns)) <= tolerance
        if near.sum() <= 10:
            break
        curve = _Curve.fit(columns[near], rows[near], degree)
    return curve


def _vote_straight_line(rows: np.ndarray, columns: np.ndarray) -> _Curve:
    """Return the straight line through most pixels (Hough transform)."""
    slopes = np.linspace(-MAX_SLOPE, MAX_SLOPE, 41)
    starts = np.rint(rows - slopes[:, None] * columns).astype(int)
    lowest = starts.min()
    bins = starts.max() - lowest + 3  # with an empty one at each end
    places = starts - lowest + 1 + bins * np.arange(len(slopes))[:, None]
    counts = np.bincount(places.ravel(), minlength=bins * len(slopes)).reshape(len(slopes), bins)
    votes = counts[:, :-2] + counts[:, 1:-1] + counts[:, 2:]
    slope, start = np.unravel_index(votes.argmax(), votes.shape)
    return _Curve(np.array([lowest + start, slopes[slope]], float))


def _count_near(
    faint: np.ndarray, center: np.ndarray, ends: tuple[int, int], distance: int
) -> np.ndarray:
    """Count the marked pixels within a distance of a curve, in each column between its ends."""
    columns = np.arange(ends[0], ends[1] + 1)
    offsets = np.arange(-distance, distance + 1)
    rows = np.rint(center[columns]).astype(int)[:, None] + offsets
    inside = (rows >= 0) & (rows < faint.shape[0])
    values = faint[np.clip(rows, 0, faint.shape[0] - 1), columns[:, None]]
    return (values * inside).sum(axis=1)


def _select_printed(
    lines: list[_Line], shape: tuple[int, ...], allow_families: bool
) -> list[_Line]:
    """Return the lines that leave the image at both ends or belong to a family of parallels."""
    height, width = shape

    def leaves_image(line: _Line) -> bool:
        exits = []
        for column, border in ((line.left, 0), (line.right, width - 1)):
            row = line.rows[column]
            above_or_below = min(row, height - 1 - row) <= 5 and abs(line.slope) > 0.005
            exits.append(abs(column - border) <= 3 + 0.003 * width or above_or_below)
        return all(exits)

    def is_similar(line: _Line, other: _Line) -> bool:
        near = 0.05 * width
        ends = abs(line.left - other.left) < near and abs(line.right - other.right) < near
        return ends and abs(line.slope - other.slope) < 0.02 and line.right - line.left > width / 2

    leaving = [line for line in lines if leaves_image(line)]
    through = [line for line in leaving if line.right - line.left > 0.9 * width]
    if through:
        slopes = np.array([line.slope for line in through])
        return [line for line in leaving if np.abs(slopes - line.slope).min() < 0.03]
    if not allow_families:
        return []
    return [line for line in lines if sum(is_similar(line, other) for other in lines) >= 4]


def _remove_lines(ink: np.ndarray, contrast: Contrast, lines: list[_Line]) -> np.ndarray:
    """Remove the pixels that belong to horizontal lines and to no stroke."""
    if not lines:
        return ink
    result = ink.copy()
    beside = np.zeros_like(ink)
    for line in lines:
        radius = int(np.ceil(line.thickness / 2)) + 2
        first = max(0, int(np.floor(line.rows.min())) - 2 * radius)
        last = min(len(ink), int(np.ceil(line.rows.max())) + 2 * radius + 1)
        if last <= first:
            continue
        distance = np.abs(np.arange(first, last)[:, None] - line.rows)
        beside[first:last][distance <= 2 * radius] = 1
        values = contrast.map[first:last]
        shade = float(np.median(values[distance <= 0.6]))
        if shade < 0.6 * contrast.level:
            keep = values > (shade + contrast.level) / 2
        else:
            keep = _in_tall_runs(ink, line.thickness + 2, first, last)
        result[first:last][(distance <= radius) & ~keep] = 0
    thickest = max(line.thickness for line in lines)
    rim = int(2 * thickest) + 6  # where lines leave the image in pieces too short to be found
    beside[:rim] = beside[-rim:] = 1
    return _drop_fragments(result, beside, thickest + 2)


def _in_tall_runs(ink: np.ndarray, height: float, first: int, last: int) -> np.ndarray:
    """Mark the pixels of some rows that belong to vertical runs of this height: strokes."""
    size = int(np.ceil(height))
    start = max(0, first - size)
    runs = cv2.morphologyEx(ink[start : last + size], cv2.MORPH_OPEN, np.ones((size, 1), np.uint8))
    return runs[first - start :][: last - first] > 0


def _drop_fragments(ink: np.ndarray, beside: np.ndarray, height: float) -> np.ndarray:
    """Drop the remains of lines: flat components that lie entirely beside them."""
    count, labels, boxes, _ = cv2.connectedComponentsWithStats(ink, connectivity=8)
    keep = np.zeros(count, bool)
    keep[labels[beside == 0]] = True
    keep |= boxes[:, 3] > height
    keep[0] = False
    return keep.astype(np.uint8)[labels]
