"""Measuring and reducing the width of strokes."""

import cv2
import numpy as np
from numpy.typing import NDArray

_SQUARE = np.ones((3, 3), np.uint8)


def pen_width(ink: NDArray[np.uint8]) -> float:
    """Return the typical stroke width in pixels: twice the area over the length of the outline.

    Args:
        ink: uint8 (height, width), 1 where there is ink.
    """
    padded = cv2.copyMakeBorder(ink, 1, 1, 1, 1, cv2.BORDER_CONSTANT, value=0)
    area = int(padded.sum())
    if not area:
        return 0.0
    outline = area - int(cv2.erode(padded, _SQUARE).sum())
    if outline < area:
        return 2 * area / outline
    # Strokes of one or two pixels are all outline. Only the wider ones contain 2 x 2 squares.
    squares = int(cv2.erode(padded, np.ones((2, 2), np.uint8)).sum())
    return 2.0 if squares > 0.3 * area else 1.0


def thin(ink: NDArray[np.uint8], layers: int) -> NDArray[np.uint8]:
    """Peel layers off strokes without breaking them or losing a dot (Zhang-Suen thinning).

    Args:
        ink: uint8 (height, width), 1 where there is ink.
        layers: Pixels to remove on each side of a stroke.

    Returns:
        uint8 (height, width), 1 where there is ink.
    """
    padded = np.pad(ink, 1)
    for _ in range(layers):
        for table in _PEEL_TABLES:
            neighborhood = cv2.filter2D(padded, cv2.CV_16S, _BIT_WEIGHTS).astype(np.uint8)
            padded &= ~np.asarray(cv2.LUT(neighborhood, table), np.uint8)
    return padded[1:-1, 1:-1]


# The eight neighbors, clockwise from the top, are encoded as the bits of a byte.
_BIT_WEIGHTS = np.array([[128, 1, 2], [64, 0, 4], [32, 16, 8]], np.float32)


def _peel_tables() -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    """Return, for each of the two sub-iterations, uint8 (256,): 1 where the center is removed."""
    bits = (np.arange(256)[:, None] >> np.arange(8)) & 1
    rises = ((bits == 0) & (np.roll(bits, -1, axis=1) == 1)).sum(axis=1)
    count = bits.sum(axis=1)
    above, right, below, left = bits[:, 0], bits[:, 2], bits[:, 4], bits[:, 6]
    edge = (rises == 1) & (count >= 2) & (count <= 6)
    first = edge & (above * right * below == 0) & (right * below * left == 0)
    second = edge & (above * right * left == 0) & (above * below * left == 0)
    return first.astype(np.uint8), second.astype(np.uint8)


_PEEL_TABLES = _peel_tables()
