"""Splitting an image that holds several formulas, one below the other."""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import cv2
import numpy as np
from numpy.typing import NDArray

from posformer.image.cleanup import MARGINS, PEN_WIDTH, SYMBOL_HEIGHT, CleanImage, add_margins
from posformer.image.sizing import covering_box

MIN_LINE_GAP = 0.7 * SYMBOL_HEIGHT  # between two formulas; narrower gaps are rare
MAX_LIMIT_HEIGHT = 0.9 * SYMBOL_HEIGHT  # of a limit below or above an operator

Band = tuple[int, int]
"""A range of image rows: the first row and the one after the last."""


def split_lines(cleaned: CleanImage) -> list[CleanImage]:
    """Split an image into its formulas.

    Numerators, denominators and limits stand below each other too. The image is cut only where
    the gap is as wide as one between lines and neither side looks like a part of the other.

    Args:
        cleaned: A cleaned image.

    Returns:
        The formulas from top to bottom; the image itself if it holds only one.
    """
    lines = find_lines(cleaned.image)
    return [cleaned] if len(lines) == 1 else [_crop_rows(cleaned, line) for line in lines]


def find_lines(image: NDArray[np.uint8]) -> list[Band]:
    """Return the rows of each formula, from top to bottom.

    Args:
        image: uint8 (height, width), white ink on black, in the size of CROHME's images.
    """
    ink = (image > 0).astype(np.uint8)
    edges = np.flatnonzero(np.diff(ink.any(axis=1).astype(np.int8), prepend=0, append=0))
    parts = _Parts(ink, [(int(top), int(bottom)) for top, bottom in edges.reshape(-1, 2)])
    gaps = [gap for first in range(len(parts.bands) - 1) if (gap := parts.gap(first))]
    heapq.heapify(gaps)
    while gaps:  # join the parts of a formula, the nearest first
        gap = heapq.heappop(gaps)
        if gap == parts.gap(gap.upper):  # neither side has been joined with another part since
            for changed in parts.join(gap):
                if new := parts.gap(changed):
                    heapq.heappush(gaps, new)
    return list(parts.bands.values())


class _Gap(NamedTuple):
    """The space between two neighboring parts of one formula, in the order of joining."""

    height: int
    upper: int  # numbers of the parts
    lower: int
    rows: tuple[Band, Band]


class _Parts:
    """Parts of an image that stand below each other, and are joined step by step.

    Each part keeps its outline, so that no decision looks at the pixels again.
    """

    def __init__(self, ink: np.ndarray, bands: Sequence[Band]) -> None:
        self.bands = dict(enumerate(bands))  # by number; the lower of two joined parts vanishes
        self._height = len(ink)
        self._outlines = {n: self._outline(ink, *band) for n, band in self.bands.items()}
        self._below = {n: n + 1 for n in range(len(bands) - 1)}
        self._above = {n + 1: n for n in range(len(bands) - 1)}
        bars = _find_bars(ink)
        self._bars = bars[np.argsort(bars[:, 1], kind="stable")]  # from top to bottom

    def _outline(self, ink: np.ndarray, top: int, end: int) -> np.ndarray:
        """Return the first and the last row with ink in each column, int32 (2, width).

        A column without ink has the image's height and -1.
        """
        part = ink[top:end]
        inked = part.any(axis=0)
        first = np.where(inked, top + part.argmax(axis=0), self._height)
        last = np.where(inked, end - 1 - part[::-1].argmax(axis=0), -1)
        return np.stack([first, last]).astype(np.int32)

    def gap(self, upper: int) -> _Gap | None:
        """Return the gap below a part, if it belongs to the same formula as the next one."""
        lower = self._below.get(upper)
        if lower is None or upper not in self.bands or not self._belong_together(upper, lower):
            return None
        rows = self.bands[upper], self.bands[lower]
        return _Gap(rows[1][0] - rows[0][1], upper, lower, rows)

    def join(self, gap: _Gap) -> list[int]:
        """Join two neighbors; return the parts whose lower gap changes."""
        upper, lower = gap.upper, gap.lower
        self.bands[upper] = (self.bands[upper][0], self.bands.pop(lower)[1])
        first, last = zip(self._outlines[upper], self._outlines.pop(lower), strict=True)
        self._outlines[upper] = np.stack([np.minimum(*first), np.maximum(*last)])
        below = self._below.pop(lower, None)
        if below is None:
            del self._below[upper]
        else:
            self._below[upper], self._above[below] = below, upper
        above = self._above.get(upper)
        return [upper] if above is None else [above, upper]

    def _belong_together(self, upper: int, lower: int) -> bool:
        """Whether two neighbors are parts of one formula."""
        rows = [self.bands[upper], self.bands[lower]]
        gap = rows[1][0] - rows[0][1]
        if gap < MIN_LINE_GAP or self._faces_bar(upper, lower) or self._faces_bar(lower, upper):
            return True
        if gap >= 2 * MIN_LINE_GAP:
            return False
        heights = [bottom - top for top, bottom in rows]
        columns = [np.flatnonzero(self._outlines[part][1] >= 0) for part in (upper, lower)]
        widths = [int(np.ptp(part)) + 1 for part in columns]
        narrow = int(np.argmin(widths))
        is_flat = min(heights) <= 4 * PEN_WIDTH  # a bar, or dots
        is_limit = heights[narrow] <= MAX_LIMIT_HEIGHT and 2 * min(widths) <= max(widths)
        return is_flat or is_limit

    def _faces_bar(self, part: int, other: int) -> bool:
        """Whether only space lies between a part and a bar of the other one that spans it."""
        inked = np.concatenate([[0], np.cumsum(self._outlines[part][1] >= 0)])
        left, top, width, height, _ = self._bars[
            slice(*np.searchsorted(self._bars[:, 1], self.bands[other]))
        ].T
        first, last = self._outlines[other]
        middle = left + width // 2
        is_above = self.bands[part][0] < self.bands[other][0]
        hidden = first[middle] < top if is_above else last[middle] >= top + height
        spanning = inked[left + width] - inked[left] > 0.9 * inked[-1]
        for bar in np.flatnonzero(spanning & ~hidden):
            span = np.s_[left[bar] : left[bar] + width[bar]]
            if is_above and first[span].min() >= top[bar]:
                return True
            if not is_above and last[span].max() < top[bar] + height[bar]:
                return True
        return False


def _find_bars(ink: np.ndarray) -> np.ndarray:
    """Return wide flat components, such as fraction bars: int32 (bars, 5), OpenCV statistics."""
    _, _, boxes, _ = cv2.connectedComponentsWithStats(ink, connectivity=8)
    boxes = boxes[1:]
    return boxes[(boxes[:, 2] >= 3 * boxes[:, 3]) & (boxes[:, 2] >= 0.6 * SYMBOL_HEIGHT)]


def _crop_rows(cleaned: CleanImage, rows: Band) -> CleanImage:
    """Return some rows of a cleaned image as an image of their own."""
    top, bottom = rows
    left, _, width, _ = cv2.boundingRect(cleaned.image[top:bottom])
    x = cleaned.box[0] + (left - MARGINS[1]) / cleaned.scale
    y = cleaned.box[1] + (top - MARGINS[0]) / cleaned.scale
    box = covering_box(x, y, width / cleaned.scale, (bottom - top) / cleaned.scale)
    return replace(cleaned, image=add_margins(cleaned.image[top:bottom]), box=box)
