"""Boxes of placed symbols, and symbols stretched to fit what they span.

Lengths are x to the right and y down; the baseline of a box is at y = 0.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from posformer.synthesis.bank import SymbolSample


@dataclass
class Piece:
    """The strokes of one token; from now on they are only moved."""

    place: int  # of the token in its expression
    points: np.ndarray  # float32 (points, 2), the box's left top corner is the origin
    lengths: tuple[int, ...]  # points of each stroke
    x: float
    y: float


@dataclass
class Box:
    """Placed symbols and the extent of their ink; the left edge is at x = 0."""

    width: float = 0.0
    top: float = 0.0  # y of the upper edge: negative above the baseline
    bottom: float = 0.0
    pieces: list[Piece] = field(default_factory=list)

    @classmethod
    def of(cls, place: int, points: np.ndarray, lengths: tuple[int, ...], top: float) -> Box:
        """A box of one token, the upper edge of its ink at `top`."""
        points = points - points.min(axis=0)
        width, height = points.max(axis=0).tolist()
        return cls(width, top, top + height, [Piece(place, points, lengths, 0.0, top)])

    def put(self, other: Box, x: float, y: float) -> None:
        """Place another box with its left edge and baseline at a point; it is used up."""
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
    """Where the bar of a radical sign begins: its x in the sample, or None if it has no bar.

    The pen goes down to the vertex and up to the bar: the bar begins where the first point right
    of the vertex comes near the top of the sign.
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
    """A radical sign of which hook and bar are stretched apart from each other.

    Args:
        radical: The sign as written.
        hook: Where its bar begins.
        sign: Width wanted up to where the bar begins.
        bar: Length wanted from there.
        height: Height wanted.
        clearance: How far below the top the bar may hang, all but its ends.

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
    """A bar of a length, as uneven as written but not beyond a height, float32 (points, 2)."""
    along = length / max(bar.width, 1e-6)
    across = min(along, thickest / max(bar.height, 1e-6))
    return (bar.points * np.array([along, across])).astype(np.float32)
