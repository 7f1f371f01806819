"""Random fields for the camera simulation: noise tiles, smooth fields, ruled lines.

Noise is expensive to generate, so a few tiles are made once per process and cut at random offsets.
"""

from __future__ import annotations

from functools import cache
from typing import Literal

import cv2
import numpy as np

__all__ = ["Ruling", "draw_ruling", "moire", "smooth_field", "tile"]

Grain = Literal["white", "fine", "medium", "coarse"]
Ruling = Literal["none", "ruled", "squared", "box", "table", "form"]

_SIDE = 1024
_BLUR: dict[str, float] = {"white": 0.0, "fine": 0.8, "medium": 3.0, "coarse": 14.0}


@cache
def _tile(grain: Grain) -> np.ndarray:
    """Periodic noise of mean 0 and standard deviation 1, float32 (1024, 1024)."""
    seed = list(_BLUR).index(grain)
    noise: np.ndarray = np.random.default_rng(seed).standard_normal(
        (_SIDE, _SIDE), dtype=np.float32
    )
    sigma = _BLUR[grain]
    if sigma:
        reach = int(4 * sigma) + 1
        padded = cv2.copyMakeBorder(noise, reach, reach, reach, reach, cv2.BORDER_WRAP)
        noise = np.asarray(cv2.GaussianBlur(padded, (0, 0), sigma))[reach:-reach, reach:-reach]
    return np.ascontiguousarray((noise - noise.mean()) / noise.std(), np.float32)


def tile(rng: np.random.Generator, shape: tuple[int, int], grain: Grain) -> np.ndarray:
    """Return a random part of a noise tile, float32 `shape`, mean 0 and standard deviation 1."""
    noise = _tile(grain)
    height, width = shape
    top, left = (int(start) for start in rng.integers(_SIDE, size=2))
    if height > _SIDE or width > _SIDE:
        repeats = (-(-height // _SIDE) + 1, -(-width // _SIDE) + 1)
        noise = np.tile(noise, repeats)
        return noise[top : top + height, left : left + width]
    top, left = min(top, _SIDE - height), min(left, _SIDE - width)
    part = noise[top : top + height, left : left + width]
    return part[:: 1 if rng.random() < 0.5 else -1, :: 1 if rng.random() < 0.5 else -1]


def smooth_field(
    rng: np.random.Generator, shape: tuple[int, int], cells: tuple[int, int]
) -> np.ndarray:
    """Return a smooth random field, float32 `shape`, about -1 to 1.

    Args:
        rng: Source of randomness.
        shape: Height and width.
        cells: Independent values from top to bottom and from left to right.
    """
    values = rng.uniform(-1, 1, cells).astype(np.float32)
    return np.asarray(cv2.resize(values, (shape[1], shape[0]), interpolation=cv2.INTER_CUBIC))


def moire(rng: np.random.Generator, shape: tuple[int, int], period: float) -> np.ndarray:
    """Return the stripes of a photographed screen, float32 `shape`, -1 to 1."""
    angle = rng.uniform(0, np.pi)
    rows = np.arange(shape[0], dtype=np.float32) * np.float32(2 * np.pi * np.sin(angle) / period)
    columns = np.arange(shape[1], dtype=np.float32) * np.float32(2 * np.pi * np.cos(angle) / period)
    # cos(a + b) as two outer products.
    stripes = np.outer(np.cos(rows), np.cos(columns)) - np.outer(np.sin(rows), np.sin(columns))
    return np.asarray(stripes, np.float32)


def draw_ruling(
    shape: tuple[int, int],
    ruling: Ruling,
    *,
    rng: np.random.Generator,
    period: float,
    thickness: float,
    tilt: float,
    bend: float,
) -> np.ndarray:
    """Draw the printed lines of a sheet.

    Args:
        shape: Height and width.
        ruling: `ruled`, `squared`, `box` (one frame near the edges), `table` (a few lines near the
            edges), `form` (one or two level lines near the top or bottom edge).
        rng: Source of the phases.
        period: Distance between lines in pixels.
        thickness: Of a line in pixels; thinner than one pixel means fainter.
        tilt: Slope of the level lines.
        bend: Height in pixels of the arc that a level line describes.

    Returns:
        float32 `shape`, 0 for paper, 1 for a line.
    """
    canvas = np.zeros(shape, np.uint8)
    rows, columns = _line_positions(shape, ruling, rng, period)
    width = max(1, round(thickness))
    across = np.linspace(0, shape[1], 9)
    arc = bend * (1 - (2 * across / shape[1] - 1) ** 2) + tilt * (across - shape[1] / 2)
    for row in rows:
        _polyline(canvas, across, row + arc, width)
    down = np.array([0.0, float(shape[0])])
    for column in columns:
        _polyline(canvas, column - tilt * (down - shape[0] / 2), down, width)
    strength = min(1.0, thickness)
    return np.multiply(canvas, np.float32(strength / 255), dtype=np.float32)


def _line_positions(
    shape: tuple[int, int], ruling: Ruling, rng: np.random.Generator, period: float
) -> tuple[np.ndarray, np.ndarray]:
    """Rows of the level lines and columns of the upright ones."""
    height, width = shape
    rows, columns = np.zeros(0), np.zeros(0)
    edge = rng.uniform(1, 7, 4)
    if ruling in ("ruled", "squared"):
        rows = np.arange(rng.uniform(-period, 0), height + period, period)
        if ruling == "squared":
            columns = np.arange(rng.uniform(-period, 0), width + period, period)
        elif rng.random() < 0.1:
            columns = np.array([rng.uniform(0, width)])  # the margin line
    elif ruling == "box":
        rows, columns = np.array([edge[0], height - edge[1]]), np.array([edge[2], width - edge[3]])
    elif ruling == "table":
        all_rows, all_columns = (edge[0], height - edge[1]), (edge[2], width - edge[3])
        rows = np.array([row for row in all_rows if rng.random() < 0.6])
        columns = np.array([column for column in all_columns if rng.random() < 0.6])
    elif ruling == "form":
        rows = np.array([edge[0] if rng.random() < 0.3 else height - edge[1]])
        if rng.random() < 0.3:
            rows = np.append(rows, rows[0] + rng.uniform(-6, 6))
    return rows, columns


def _polyline(canvas: np.ndarray, x: np.ndarray, y: np.ndarray, thickness: int) -> None:
    """Draw an anti-aliased line; coordinates have four fractional bits."""
    points = np.round(np.stack([x, y], axis=1) * 16).astype(np.int32)
    cv2.polylines(canvas, [points], False, 255, thickness, cv2.LINE_AA, 4)
