"""Ink with the strokes of every token."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class AlignedInk:
    """An expression as strokes aligned with the tokens of its caption."""

    name: str
    tokens: tuple[str, ...]  # the caption
    strokes: tuple[np.ndarray, ...]  # float32 (points, 2) each, x to the right, y down
    alignment: tuple[tuple[int, ...], ...]  # indices of the strokes of every token
    writer: str  # empty if unknown
    filled: bool = False  # whether strokes are closed contours, as in print, and not lines of a pen


def bounds(points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the smallest and largest coordinates, each (2,), of points (points, 2)."""
    # NumPy's min and max along the first axis of a narrow array are ten times slower.
    return np.minimum.reduceat(points, [0])[0], np.maximum.reduceat(points, [0])[0]


def split_points(points: np.ndarray, lengths: Sequence[int] | np.ndarray) -> tuple[np.ndarray, ...]:
    """Split points (points, 2) into strokes of the given lengths, as views."""
    ends = np.cumsum(lengths).tolist()
    return tuple(points[first:last] for first, last in zip([0, *ends], ends, strict=False))
