r"""The project's own ink: symbols by any number of simulated writers.

`glyphs.txt` defines control points of the strokes of every symbol. A writer has a slant, an aspect
ratio, a rounding of corners and a constant deviation from these shapes; every sample deviates a
little more. Function names are composed of the writer's letters.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files
from itertools import pairwise

import numpy as np

from posformer.synthesis.bank import SymbolBank, SymbolSample

FUNCTIONS = ("cos", "exp", "lim", "ln", "log", "max", "min", "sin", "tan")
"""Function names, with the tokens `\\cos`, `\\exp`, …"""

_X_HEIGHT = 100.0
_SPACING = 6.0  # distance of points, about that of a tablet at writing speed


@dataclass(frozen=True)
class Trace:
    """A stroke: a smooth curve through control points, with corners."""

    points: np.ndarray  # float64 (points, 2), y up
    corners: tuple[bool, ...]


@dataclass(frozen=True)
class Writer:
    """A simulated writer."""

    name: str
    slant: float  # tangent of the angle to the vertical
    aspect: float  # factor on the width of symbols
    rounding: float  # width of the smoothing of corners, in points along the stroke
    deviation: float  # constant difference from the defined shapes
    tremor: float  # variation between samples


@lru_cache(maxsize=1)
def glyphs() -> Mapping[str, tuple[tuple[Trace, ...], ...]]:
    """Return, for every token, its variants, each a tuple of strokes."""
    table: dict[str, list[tuple[Trace, ...]]] = defaultdict(list)
    text = files("posformer.synthesis").joinpath("glyphs.txt").read_text(encoding="utf-8")
    for line in text.splitlines():
        token, colon, strokes = line.partition(" : ")
        if colon and not line.startswith("#"):
            separated = strokes.split(" | ")
            table[token].append(tuple(_trace(stroke) for stroke in separated))
    return {token: tuple(variants) for token, variants in table.items()}


@lru_cache(maxsize=4)
def own_bank(writers: int = 12, samples: int = 3, seed: int = 0) -> SymbolBank:
    """Return a bank of the project's own ink.

    Args:
        writers: Number of writers.
        samples: Samples of each symbol by each writer.
        seed: Seed of the writers.
    """
    return SymbolBank.from_samples(
        sample
        for number in range(writers)
        for sample in _written_by(number, samples, np.random.default_rng([seed, number]))
    )


def _trace(text: str) -> Trace:
    entries = text.split()
    points = [[float(part) for part in entry.rstrip("*").split(",")] for entry in entries]
    return Trace(np.array(points), tuple(entry.endswith("*") for entry in entries))


def _random_writer(number: int, rng: np.random.Generator) -> Writer:
    return Writer(
        name=f"own{number:02d}",
        slant=float(rng.normal(0.1, 0.17)),
        aspect=float(np.exp(rng.normal(0.02, 0.15))),
        rounding=float(rng.uniform(0.4, 1.8)),
        deviation=float(rng.uniform(2.5, 6.0)),
        tremor=float(rng.uniform(1.0, 3.0)),
    )


def _written_by(number: int, samples: int, rng: np.random.Generator) -> Iterator[SymbolSample]:
    writer = _random_writer(number, rng)
    for token, variants in glyphs().items():
        own = _deviate(variants[int(rng.integers(len(variants)))], writer.deviation, rng)
        for _ in range(samples):
            yield _sample(token, writer, _write(own, writer, rng))
    for name in FUNCTIONS:
        chosen = {
            letter: glyphs()[letter][int(rng.integers(len(glyphs()[letter])))] for letter in name
        }
        for _ in range(samples):
            letters = [_write(chosen[letter], writer, rng) for letter in name]
            yield _sample("\\" + name, writer, _join_letters(letters, writer, rng))


def _deviate(traces: Sequence[Trace], amount: float, rng: np.random.Generator) -> tuple[Trace, ...]:
    return tuple(
        Trace(trace.points + rng.normal(0.0, amount, trace.points.shape), trace.corners)
        for trace in traces
    )


def _write(traces: Sequence[Trace], writer: Writer, rng: np.random.Generator) -> list[np.ndarray]:
    """Return strokes as points, y down, baseline at 0."""
    stretch = np.exp(rng.normal(0.0, 0.04, 2)) * (writer.aspect, 1.0)
    slant = writer.slant + float(rng.normal(0.0, 0.02))
    strokes = []
    for trace in _deviate(traces, writer.tremor, rng):
        curve = smooth_curve(trace.points, trace.corners, _SPACING)
        points = _smooth(curve, writer.rounding) * stretch
        points[:, 0] += slant * points[:, 1]
        strokes.append(points * (1.0, -1.0))
    return strokes


def _join_letters(
    letters: Sequence[list[np.ndarray]], writer: Writer, rng: np.random.Generator
) -> list[np.ndarray]:
    """Return the strokes of letters side by side."""
    strokes: list[np.ndarray] = []
    pen = 0.0
    for letter in letters:
        left = min(stroke[:, 0].min() for stroke in letter)
        shift = (pen - left, float(rng.normal(0.0, 2.0)))
        strokes.extend(stroke + shift for stroke in letter)
        pen += max(stroke[:, 0].max() for stroke in letter) - left
        pen += writer.aspect * float(rng.uniform(6.0, 18.0))
    return strokes


def _sample(token: str, writer: Writer, strokes: Sequence[np.ndarray]) -> SymbolSample:
    points = np.concatenate(strokes)
    corner = points.min(axis=0)
    width, height = points.max(axis=0) - corner
    return SymbolSample(
        token=token,
        writer=writer.name,
        points=(points - corner).astype(np.float32),
        lengths=tuple(len(stroke) for stroke in strokes),
        width=float(width),
        height=float(height),
        unit=_X_HEIGHT,
        baseline=float(-corner[1]),
    )


def smooth_curve(points: np.ndarray, corners: Sequence[bool], spacing: float) -> np.ndarray:
    """Return equidistant points on a smooth curve through control points.

    Args:
        points: float (points, 2), at least two.
        corners: For each point, whether the curve has a corner there.
        spacing: Distance of the resulting points along the curve.

    Returns:
        float64 (new points, 2).
    """
    ends = [0, *(i for i, corner in enumerate(corners) if corner), len(points) - 1]
    pieces = [
        _catmull_rom(points[first : last + 1]) for first, last in pairwise(ends) if last > first
    ]
    dense = np.concatenate(pieces)
    length = np.concatenate([[0.0], np.cumsum(np.hypot(*np.diff(dense, axis=0).T))])
    positions = np.linspace(0.0, length[-1], max(2, round(length[-1] / spacing) + 1))
    return np.stack([np.interp(positions, length, dense[:, axis]) for axis in (0, 1)], axis=1)


def _catmull_rom(points: np.ndarray, steps: int = 8) -> np.ndarray:
    """Return a smooth curve through points, with `steps` points between each two."""
    padded = np.concatenate([[2 * points[0] - points[1]], points, [2 * points[-1] - points[-2]]])
    before, start, end, after = (padded[i : len(padded) - 3 + i, None] for i in range(4))
    t = np.linspace(0.0, 1.0, steps)[None, :, None]
    curve = start + 0.5 * t * (
        (end - before)
        + t * (2 * before - 5 * start + 4 * end - after)
        + t * t * (3 * (start - end) + after - before)
    )
    return curve.reshape(-1, 2)


def _smooth(points: np.ndarray, width: float) -> np.ndarray:
    """Round corners by a moving average; the ends stay fixed."""
    radius = min(3, (len(points) - 1) // 2)
    if radius == 0:
        return points
    weights = np.exp(-0.5 * np.square(np.arange(-radius, radius + 1) / width))
    weights /= weights.sum()
    padded = np.concatenate(
        [
            2 * points[0] - points[radius:0:-1],
            points,
            2 * points[-1] - points[-2 : -radius - 2 : -1],
        ]
    )
    return np.stack([np.convolve(padded[:, axis], weights, "valid") for axis in (0, 1)], axis=1)
