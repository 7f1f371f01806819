"""Marks that are drawn by rule: accents, arrows, braces, circles and boxes.

A mark consists of strokes, lists of control points in a box of a given width and height, x to the
right, y down. Lengths are in x-heights.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np

from posformer.synthesis.glyphs import smooth_curve

__all__ = ["MARKS", "Mark", "Shape", "draw_mark", "outline"]

Point = tuple[float, float]
Stroke = tuple[list[Point], tuple[int, ...]]  # control points, and which of them are corners
Shape = Callable[[float, float], list[Stroke]]  # of width and height

_SPACING = 0.06  # between the points of a stroke


@dataclass(frozen=True)
class Mark:
    """How a mark is drawn, and where."""

    shape: Shape
    width: float = 0.0  # 0: as wide as the argument
    height: float = 0.35
    place: Literal["above", "below", "around", "alone"] = "above"


def _bar(width: float, height: float) -> list[Stroke]:
    return [([(width * part, height / 2) for part in (0.0, 0.33, 0.67, 1.0)], ())]


def _caret(width: float, height: float) -> list[Stroke]:
    return [([(0.0, height), (width / 2, 0.0), (width, height)], (1,))]


def _flipped(shape: Shape) -> Shape:
    """Upside down."""
    return lambda width, height: [
        ([(x, height - y) for x, y in points], corners) for points, corners in shape(width, height)
    ]


def _mirrored(shape: Shape) -> Shape:
    """Left and right swapped."""
    return lambda width, height: [
        ([(width - x, y) for x, y in points], corners) for points, corners in shape(width, height)
    ]


def _together(*shapes: Shape) -> Shape:
    return lambda width, height: [stroke for shape in shapes for stroke in shape(width, height)]


def _wave(width: float, height: float) -> list[Stroke]:
    levels = (0.9, 0.3, 0.0, 0.25, 0.75, 1.0, 0.7, 0.1)
    return [([(width * n / 7, height * level) for n, level in enumerate(levels)], ())]


def _head(width: float, height: float) -> list[Stroke]:
    back = width - 0.8 * height
    return [([(back, 0.0), (width, height / 2), (back, height)], (1,))]


def _double_shaft(width: float, height: float) -> list[Stroke]:
    end = width - 0.25 * height
    return [([(0.0, y), (end / 2, y), (end, y)], ()) for y in (0.33 * height, 0.67 * height)]


def _equality(width: float, height: float) -> list[Stroke]:
    return [([(0.0, y), (width / 2, y), (width, y)], ()) for y in (0.3 * height, 0.7 * height)]


def _dots(count: int) -> Shape:
    def draw(width: float, height: float) -> list[Stroke]:
        y, across = height / 2, [width * (n + 0.5) / count for n in range(count)]
        return [([(x - 0.03, y - 0.02), (x + 0.03, y + 0.02)], ()) for x in across]

    return draw


def _slope(width: float, height: float) -> list[Stroke]:
    return [([(0.0, height), (width, 0.0)], ())]


def _bow(width: float, height: float) -> list[Stroke]:
    angles = np.linspace(math.pi, 0.0, 7)
    points = [(width / 2 * (1 + math.cos(a)), height * (1 - math.sin(a))) for a in angles]
    return [(points, ())]


def _ellipse(width: float, height: float) -> list[Stroke]:
    angles = np.linspace(-math.pi / 2, 1.5 * math.pi, 13)
    points = [(width / 2 * (1 + math.cos(a)), height / 2 * (1 + math.sin(a))) for a in angles]
    return [(points, ())]


def _rectangle(width: float, height: float) -> list[Stroke]:
    corners = [(0.0, 0.0), (0.0, height), (width, height), (width, 0.0), (0.0, 0.0)]
    return [(corners, (1, 2, 3))]


def _brace(width: float, height: float) -> list[Stroke]:
    bend, middle = min(0.4 * height, width / 6), 0.5 * height
    points = [
        (0.0, height),
        (bend, middle),
        (width / 2 - bend, middle),
        (width / 2, 0.0),
        (width / 2 + bend, middle),
        (width - bend, middle),
        (width, height),
    ]
    return [(points, (3,))]


_RIGHT = _together(_bar, _head)
_LEFT = _mirrored(_RIGHT)
_BOTH = _together(_bar, _head, _mirrored(_head))
_IMPLIES = _together(_double_shaft, _head)

MARKS: Mapping[str, Mark] = {
    r"\hat": Mark(_caret, 0.75),
    r"\check": Mark(_flipped(_caret), 0.75),
    r"\bar": Mark(_bar, 0.9, 0.1),
    r"\tilde": Mark(_wave, 0.9, 0.3),
    r"\vec": Mark(_RIGHT, 1.1, 0.4),
    r"\dot": Mark(_dots(1), 0.1, 0.1),
    r"\ddot": Mark(_dots(2), 0.75, 0.1),
    r"\dddot": Mark(_dots(3), 1.0, 0.1),
    r"\acute": Mark(_slope, 0.4, 0.4),
    r"\grave": Mark(_mirrored(_slope), 0.4, 0.4),
    r"\breve": Mark(_flipped(_bow), 0.7, 0.3),
    r"\mathring": Mark(_ellipse, 0.35, 0.35),
    r"\widehat": Mark(_caret, height=0.45),
    r"\widetilde": Mark(_wave, height=0.4),
    r"\overline": Mark(_bar, height=0.1),
    r"\underline": Mark(_bar, height=0.1, place="below"),
    r"\overrightarrow": Mark(_RIGHT, height=0.45),
    r"\overleftarrow": Mark(_LEFT, height=0.45),
    r"\overleftrightarrow": Mark(_BOTH, height=0.45),
    r"\underrightarrow": Mark(_RIGHT, height=0.45, place="below"),
    r"\underleftarrow": Mark(_LEFT, height=0.45, place="below"),
    r"\overbrace": Mark(_brace, height=0.6),
    r"\underbrace": Mark(_flipped(_brace), height=0.6, place="below"),
    **dict.fromkeys((r"\overparen", r"\wideparen", r"\overarc"), Mark(_bow, height=0.45)),
    r"\boxed": Mark(_rectangle, place="around"),
    r"\textcircled": Mark(_ellipse, place="around"),
    r"\cancel": Mark(_slope, place="around"),
    r"\bcancel": Mark(_mirrored(_slope), place="around"),
    r"\xcancel": Mark(_together(_slope, _mirrored(_slope)), place="around"),
    r"\xrightarrow": Mark(_RIGHT, height=0.6, place="alone"),
    r"\xleftarrow": Mark(_LEFT, height=0.6, place="alone"),
    r"\xleftrightarrow": Mark(_BOTH, height=0.6, place="alone"),
    r"\xRightarrow": Mark(_IMPLIES, height=0.75, place="alone"),
    r"\xLeftarrow": Mark(_mirrored(_IMPLIES), height=0.75, place="alone"),
    r"\xlongequal": Mark(_equality, height=0.6, place="alone"),
}
"""The marks by token."""


def draw_mark(
    shape: Shape, width: float, height: float, noise: Callable[[float], float]
) -> list[np.ndarray]:
    """Draw a mark.

    Args:
        shape: The shape of a mark.
        width: Its width.
        height: Its height.
        noise: Returns a random length of a given spread, which moves control points.

    Returns:
        The strokes, float32 (points, 2) each.
    """
    strokes = []
    for control, corners in shape(width, height):
        points = np.array([(x + noise(0.04), y + noise(0.04)) for x, y in control])
        is_corner = [number in corners for number in range(len(points))]
        strokes.append(smooth_curve(points, is_corner, _SPACING).astype(np.float32))
    return strokes


def outline(stroke: np.ndarray, thickness: float) -> np.ndarray:
    """Return the contour of a stroke of a round pen, float32 (points, 2), to be filled."""
    middle, reach = stroke.mean(axis=0), np.ptp(stroke, axis=0).max()
    if reach < thickness:  # a dot
        angles = np.linspace(0.0, 2 * np.pi, 16, endpoint=False)
        circle = np.stack([np.cos(angles), np.sin(angles)], axis=1)
        return (middle + thickness * circle).astype(np.float32)
    along = np.gradient(stroke, axis=0)
    along /= np.maximum(np.hypot(*along.T), 1e-6)[:, None]
    across = along[:, ::-1] * np.array([-thickness / 2, thickness / 2])
    return np.concatenate([stroke + across, (stroke - across)[::-1]]).astype(np.float32)
