"""Splitting an image that holds several formulas, one below the other."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

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
    bands = [(int(top), int(bottom)) for top, bottom in edges.reshape(-1, 2)]
    bars = _find_bars(ink)
    while True:  # join the parts of a formula, the nearest first
        gaps = [
            (lower[0] - upper[1], index)
            for index, (upper, lower) in enumerate(pairwise(bands))
            if _belong_together(ink, upper, lower, bars)
        ]
        if not gaps:
            return bands
        _, index = min(gaps)
        bands[index : index + 2] = [(bands[index][0], bands[index + 1][1])]


def _find_bars(ink: np.ndarray) -> np.ndarray:
    """Return wide flat components, such as fraction bars: int32 (bars, 5), OpenCV statistics."""
    _, _, boxes, _ = cv2.connectedComponentsWithStats(ink, connectivity=8)
    boxes = boxes[1:]
    return boxes[(boxes[:, 2] >= 3 * boxes[:, 3]) & (boxes[:, 2] >= 0.6 * SYMBOL_HEIGHT)]


def _belong_together(ink: np.ndarray, upper: Band, lower: Band, bars: np.ndarray) -> bool:
    """Whether two neighboring bands are parts of one formula."""
    gap = lower[0] - upper[1]
    pairs = (upper, lower), (lower, upper)
    if gap < MIN_LINE_GAP or any(_faces_bar(ink, *pair, bars) for pair in pairs):
        return True
    heights = upper[1] - upper[0], lower[1] - lower[0]
    columns = [np.flatnonzero(ink[top:bottom].any(axis=0)) for top, bottom in (upper, lower)]
    widths = [int(np.ptp(part)) + 1 for part in columns]
    narrow = int(np.argmin(widths))
    is_flat = min(heights) <= 4 * PEN_WIDTH  # a bar, or dots
    is_limit = heights[narrow] <= MAX_LIMIT_HEIGHT and 2 * min(widths) <= max(widths)
    return bool((is_flat or is_limit) and gap < 2 * MIN_LINE_GAP)


def _faces_bar(ink: np.ndarray, part: Band, other: Band, bars: np.ndarray) -> bool:
    """Whether nothing but space lies between a part and a bar of the other band that spans it."""
    columns = np.asarray(ink[part[0] : part[1]].any(axis=0))
    for left, top, width, height, _ in bars:
        if not other[0] <= top < other[1]:
            continue
        span = np.s_[left : left + width]
        rows = np.s_[part[1] : top] if part[0] < top else np.s_[top + height : part[0]]
        if not ink[rows, span].any() and columns[span].sum() > 0.9 * columns.sum():
            return True
    return False


def _crop_rows(cleaned: CleanImage, rows: Band) -> CleanImage:
    """Return some rows of a cleaned image as an image of their own."""
    top, bottom = rows
    left, _, width, _ = cv2.boundingRect(cleaned.image[top:bottom])
    x = cleaned.box[0] + (left - MARGINS[1]) / cleaned.scale
    y = cleaned.box[1] + (top - MARGINS[0]) / cleaned.scale
    box = covering_box(x, y, width / cleaned.scale, (bottom - top) / cleaned.scale)
    return replace(cleaned, image=add_margins(cleaned.image[top:bottom]), box=box)
