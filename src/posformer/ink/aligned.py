"""Ink whose strokes are tied to the tokens they write."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class AlignedInk:
    """An expression as strokes, with the strokes of every token."""

    name: str
    tokens: tuple[str, ...]  # caption form
    strokes: tuple[np.ndarray, ...]  # float32 (points, 2), x to the right, y down
    alignment: tuple[tuple[int, ...], ...]  # for every token the strokes that write it
    writer: str  # who wrote it, as far as known


def bounds(points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Smallest and largest coordinates of points (points, 2), each (2,)."""
    # NumPy's own min and max along the long side of a narrow array take ten times as long.
    return np.minimum.reduceat(points, [0])[0], np.maximum.reduceat(points, [0])[0]
