"""Boxes of positioned symbols, and stretching of radical signs and bars.

Coordinates are x to the right and y down; the baseline of a box is at y = 0.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from posformer.synthesis.bank import SymbolSample


@dataclass
class Piece:
    """The positioned strokes of one token."""

    index: int  # of the token in its expression
    points: np.ndarray  # float32 (points, 2), relative to the top left corner of the box
    lengths: tuple[int, ...]  # number of points of each stroke
    x: float
    y: float


@dataclass
class Box:
    """Positioned symbols and the extent of their ink; the left edge is at x = 0."""

    width: float = 0.0
    top: float = 0.0  # y of the top edge: negative above the baseline
    bottom: float = 0.0
    pieces: list[Piece] = field(default_factory=list)

    @classmethod
    def of(cls, index: int, points: np.ndarray, lengths: tuple[int, ...], top: float) -> Box:
        """Return the box of one token with the top edge of its ink at `top`."""
        points = points - points.min(axis=0)
        width, height = points.max(axis=0).tolist()
        return cls(width, top, top + height, [Piece(index, points, lengths, 0.0, top)])

    def put(self, other: Box, x: float, y: float) -> None:
        """Add another box, left edge at `x` and baseline at `y`; it must not be reused."""
        for piece in other.pieces:
            piece.x += x
            piece.y += y
        if self.pieces:
            self.top = min(self.top, other.top + y)
            self.bottom = max(self.bottom, other.bottom + y)
        else:
            self.top, self.bottom = other.top + y, other.bottom + y
        self.width = max(self.width, x + other.width)
        self.pieces.extend(other.pieces)


def hook_of(radical: SymbolSample) -> float | None:
    """Return the x coordinate where the bar of a radical sign begins, or None without a bar.

    The pen moves down to the vertex and up to the bar. The bar begins at the first point to the
    right of the vertex that is near the top of the sign.
    """
    x, y = radical.points[:, 0], radical.points[:, 1]
    vertex = int(np.argmax(np.where(x < 0.7 * radical.width, y, -1.0)))
    right = x > x[vertex]
    near_top = y < 0.22 * radical.height
    candidates = x[right & near_top]
    if len(candidates) == 0 or y[vertex] < 0.6 * radical.height:
        return None
    hook = float(candidates.min())
    return hook if hook < 0.8 * radical.width else None


def stretch_radical(
    radical: SymbolSample, hook: float, sign: float, bar: float, height: float, clearance: float
) -> np.ndarray:
    """Stretch the hook and the bar of a radical sign independently.

    Args:
        radical: The sign.
        hook: x coordinate where its bar begins.
        sign: New width of the part before the bar.
        bar: New length of the bar.
        height: New height.
        clearance: Maximum distance of the bar, except its ends, below the top.

    Returns:
        float32 (points, 2).
    """
    x, y = radical.points[:, 0], radical.points[:, 1] * (height / max(radical.height, 1e-6))
    left = np.minimum(x, hook) * (sign / max(hook, 1e-6))
    right = np.maximum(x - hook, 0.0) * (bar / (radical.width - hook))
    inner = (x > hook) & (x < hook + 0.9 * (radical.width - hook))
    lowest = float(y[inner].max()) if inner.any() else 0.0
    if lowest > clearance:
        y = np.where(x > hook, y * (clearance / lowest), y)
    return np.stack([left + right, y], axis=1).astype(np.float32)


def stretch_bar(bar: SymbolSample, length: float, thickest: float) -> np.ndarray:
    """Stretch a bar to a length and limit its height, float32 (points, 2)."""
    along = length / max(bar.width, 1e-6)
    across = min(along, thickest / max(bar.height, 1e-6))
    return (bar.points * np.array([along, across])).astype(np.float32)
