"""Splitting ink that holds several formulas."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from posformer.image.cleanup import MARGINS, PEN_WIDTH, SYMBOL_HEIGHT
from posformer.image.lines import find_lines
from posformer.ink.render import render, strokes_in_pixels

COLUMN_GAP = 3 * SYMBOL_HEIGHT  # between two columns of a page
BLOCK_GAP = 3 * SYMBOL_HEIGHT  # between two lines that belong to no common formula

Strokes = Sequence[np.ndarray]


def split_strokes(strokes: Strokes) -> list[tuple[np.ndarray, ...]]:
    """Split strokes where `posformer.image.lines.split_lines` would cut their image.

    Formulas are written one after the other, their parts often in any order: there is no cut
    where a stroke above it was written after one below.

    Args:
        strokes: float (points, 2) each, in pixels as returned by `strokes_in_pixels`, in the
            order of writing.

    Returns:
        The strokes of each formula, from top to bottom.
    """
    lines = _line_numbers(strokes)
    highest_before = np.maximum.accumulate(lines)[:-1]
    lowest_after = np.minimum.accumulate(lines[::-1])[::-1][1:]
    starts = np.flatnonzero(highest_before < lowest_after) + 1
    return [tuple(strokes[start:end]) for start, end in pairwise([0, *starts, len(strokes)])]


def split_page(strokes: Strokes, lines: bool = True) -> list[tuple[np.ndarray, ...]]:
    """Split the ink of a page into its formulas by their place alone.

    A page is cut at wide gaps into columns and blocks, these into lines, and lines again, until
    nothing can be cut. Text is written and corrected in any order, so the order of the strokes
    does not matter.

    Args:
        strokes: float (points, 2) each, in any unit.
        lines: Cut lines, too. Otherwise a block may hold several lines.

    Returns:
        The strokes of each formula in reading order: columns from left to right, each from top
        to bottom.
    """
    in_pixels = strokes_in_pixels(strokes)
    formulas: list[tuple[np.ndarray, ...]] = []
    stack = [np.arange(len(strokes))]
    while stack:
        block = stack.pop()
        parts = _cut([in_pixels[index] for index in block], lines)
        groups = [block[parts == part] for part in range(parts.max() + 1)]
        if len(groups) == 1:
            formulas.append(tuple(strokes[index] for index in block.tolist()))
        else:
            stack += reversed(groups)
    return formulas


def _cut(strokes: Strokes, lines: bool) -> np.ndarray:
    """Return for each stroke of a block the number of the part it falls into, int (strokes,)."""
    spans = np.array([[stroke.min(axis=0), stroke.max(axis=0)] for stroke in strokes])
    for axis, gap in ((0, COLUMN_GAP), (1, BLOCK_GAP)):
        parts = _separate(spans[:, :, axis], gap)
        if parts.any():
            return parts
    return _line_numbers(strokes) if lines else parts


def _separate(spans: np.ndarray, gap: float) -> np.ndarray:
    """Number intervals (strokes, 2) by the gaps between them that are wider than `gap`."""
    order = np.argsort(spans[:, 0])
    reach = np.maximum.accumulate(spans[order, 1])
    is_start = np.concatenate([[False], spans[order[1:], 0] - reach[:-1] > gap])
    numbers = np.empty(len(spans), int)
    numbers[order] = np.cumsum(is_start)
    return numbers


def _line_numbers(strokes: Strokes) -> np.ndarray:
    """Return for each stroke the number of its line, from top to bottom, int (strokes,)."""
    lines = find_lines(render(strokes))
    top = min(np.floor(stroke[:, 1].min()) for stroke in strokes)
    centers = np.array([(stroke[:, 1].min() + stroke[:, 1].max()) / 2 for stroke in strokes])
    centers += MARGINS[0] - top + PEN_WIDTH / 2
    cuts = [(upper[1] + lower[0]) / 2 for upper, lower in pairwise(lines)]
    return np.searchsorted(cuts, centers)
