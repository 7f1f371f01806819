"""The width of the pen, and drawing again with another."""

import cv2
import numpy as np

__all__ = ["pen_width", "thin"]

SQUARE = np.ones((3, 3), np.uint8)


def pen_width(ink: np.ndarray) -> float:
    """The typical width of strokes: twice their area over the length of their edges.

    Args:
        ink: uint8 (height, width), 1 where there is ink.
    """
    padded = cv2.copyMakeBorder(ink, 1, 1, 1, 1, cv2.BORDER_CONSTANT, value=0)
    area = int(padded.sum())
    if not area:
        return 0.0
    edge = area - int(cv2.erode(padded, SQUARE).sum())
    if edge < area:
        return 2 * area / edge
    # All is edge: one or two pixels. Only the wider of them hold squares of four.
    squares = int(cv2.erode(padded, np.ones((2, 2), np.uint8)).sum())
    return 2.0 if squares > 0.3 * area else 1.0


def thin(ink: np.ndarray, layers: int) -> np.ndarray:
    """Peel layers off strokes without breaking them or losing a dot (Zhang and Suen's rule).

    Args:
        ink: uint8 (height, width), 1 where there is ink.
        layers: how many pixels to take off each side.
    """
    ink = np.pad(ink, 1)
    for _ in range(layers):
        for table in _PEELS:
            around = cv2.filter2D(ink, cv2.CV_16S, _WEIGHTS).astype(np.uint8)
            ink = ink & ~np.asarray(cv2.LUT(around, table), np.uint8) & 1
    return ink[1:-1, 1:-1]


# The eight neighbours, clockwise from above, as bits.
_PLACES = ((0, 1), (0, 2), (1, 2), (2, 2), (2, 1), (2, 0), (1, 0), (0, 0))
_WEIGHTS = np.zeros((3, 3), np.float32)
for _bit, _place in enumerate(_PLACES):
    _WEIGHTS[_place] = 1 << _bit


def _peel_tables() -> tuple[np.ndarray, np.ndarray]:
    """For every neighbourhood whether its middle goes, in each of the two half passes."""
    bits = (np.arange(256)[:, None] >> np.arange(8)) & 1
    rises = ((bits == 0) & (np.roll(bits, -1, axis=1) == 1)).sum(axis=1)
    count = bits.sum(axis=1)
    above, right, below, left = bits[:, 0], bits[:, 2], bits[:, 4], bits[:, 6]
    edge = (rises == 1) & (count >= 2) & (count <= 6)
    first = edge & (above * right * below == 0) & (right * below * left == 0)
    second = edge & (above * right * left == 0) & (above * below * left == 0)
    return first.astype(np.uint8), second.astype(np.uint8)


_PEELS = _peel_tables()
