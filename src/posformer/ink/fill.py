"""Rendering of contours, as in print: filled, with smooth edges."""

from __future__ import annotations

from collections.abc import Sequence

import cv2
import numpy as np
from numpy.typing import NDArray

from posformer.ink.aligned import AlignedInk

__all__ = ["fill_aligned", "filled_size", "print_scale"]

SYMBOL_HEIGHT = 29.5
"""Mean height of symbols in pixels, as in CROHME's images."""

_SUPERSAMPLING = 4
_FLAT = 0.1  # symbols below this share of the tallest say nothing about the size


def print_scale(ink: AlignedInk) -> float:
    """Return the factor that scales contours to pixels, with symbols as tall as in CROHME."""
    heights = np.array(
        [
            max(float(np.ptp(ink.strokes[stroke][:, 1])) for stroke in strokes)
            for strokes in ink.alignment
            if strokes
        ]
    )
    tall = heights[heights > _FLAT * heights.max()]
    return SYMBOL_HEIGHT / max(float(tall.mean()), 1e-6)


def filled_size(ink: AlignedInk, scale: float, margin: int = 12) -> tuple[int, int]:
    """Return height and width of the image that `fill_aligned` returns."""
    points = np.concatenate(ink.strokes)
    width, height = np.ceil(np.ptp(points, axis=0) * scale).astype(int).tolist()
    return height + 2 * margin + 1, width + 2 * margin + 1


def fill_aligned(
    ink: AlignedInk, scale: float, margin: int = 12
) -> tuple[NDArray[np.uint8], NDArray[np.float32]]:
    """Fill the contours of an expression.

    Args:
        ink: Contours.
        scale: Pixels per unit of the ink.
        margin: Empty pixels on each side.

    Returns:
        uint8 (height, width), white ink on black, and the boxes of the tokens, float32
        (tokens, 4): left, top, right, bottom in pixels; NaN for a token without ink.
    """
    low = np.concatenate(ink.strokes).min(axis=0)
    contours = [(stroke - low) * np.float32(scale) + margin for stroke in ink.strokes]
    height, width = filled_size(ink, scale, margin)
    # OpenCV's own smooth edges make thin strokes too thick.
    image = np.zeros((height * _SUPERSAMPLING, width * _SUPERSAMPLING), np.uint8)
    boxes = np.full((len(ink.tokens), 4), np.nan, np.float32)
    for index, strokes in enumerate(ink.alignment):
        if not strokes:
            continue
        own = [contours[stroke] for stroke in strokes]
        points = np.concatenate(own)
        boxes[index] = (*points.min(axis=0), *points.max(axis=0))
        for group in _groups(own):
            # Pixel centers have integral coordinates in OpenCV.
            fixed = [np.rint(part * _SUPERSAMPLING - 0.5).astype(np.int32) for part in group]
            cv2.fillPoly(image, fixed, 255)
    smooth = cv2.resize(image, (width, height), interpolation=cv2.INTER_AREA)
    return np.asarray(smooth, np.uint8), boxes


def _groups(contours: Sequence[np.ndarray]) -> list[list[np.ndarray]]:
    """Join holes with the contours around them; overlapping contours stay separate.

    A hole runs in the opposite direction of the contour around it.
    """
    if len(contours) == 1:
        return [list(contours)]
    areas = [_area(contour) for contour in contours]
    order = sorted(range(len(contours)), key=lambda index: -abs(areas[index]))
    groups: list[tuple[np.ndarray, np.ndarray, bool, list[np.ndarray]]] = []
    for index in order:
        contour, positive = contours[index], areas[index] > 0
        low, high = contour.min(axis=0), contour.max(axis=0)
        for outer_low, outer_high, outer_positive, members in reversed(groups):
            inside = (low >= outer_low).all() and (high <= outer_high).all()
            if inside and positive != outer_positive:
                members.append(contour)
                break
        else:
            groups.append((low, high, positive, [contour]))
    return [members for _, _, _, members in groups]


def _area(contour: np.ndarray) -> float:
    """Return the signed area of a closed contour."""
    x, y = contour.T
    return float(np.dot(x, np.roll(y, -1)) - np.dot(y, np.roll(x, -1))) / 2
