r"""The project's own ink: symbols drawn by the project, in as many hands as wanted.

`glyphs.txt` beside this module says through which points a pen goes for every symbol. A writer is
a slant, a width, a way to round corners and a lasting deviation from the drawn shape; a sample
deviates a little more. Names of functions are written with the writer's own letters.
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
"""Names written with letters, as tokens `\\cos`, `\\exp`, …"""

_X_HEIGHT = 100.0
_SPACING = 6.0
"""Distance of pen points: about that of a tablet at writing speed."""


@dataclass(frozen=True)
class Trace:
    """One stroke as drawn: a smooth curve through points, broken at corners."""

    points: np.ndarray  # float64 (points, 2), y up
    corners: tuple[bool, ...]


@dataclass(frozen=True)
class Hand:
    """What makes a writer's symbols alike."""

    name: str
    slant: float  # tangent of the angle to the upright
    aspect: float  # width of symbols
    rounding: float  # how far corners are cut, in points along the stroke
    deviation: float  # lasting difference from the drawn shape
    tremor: float  # difference from one sample to the next


@lru_cache(maxsize=1)
def glyphs() -> Mapping[str, tuple[tuple[Trace, ...], ...]]:
    """For every token the ways to draw it, each a list of strokes."""
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
    """A bank of the project's own ink.

    Args:
        writers: How many hands.
        samples: How often each of them writes each symbol.
        seed: Other seeds are other hands.
    """
    return SymbolBank.from_samples(
        sample
        for number in range(writers)
        for sample in _written_by(number, samples, np.random.default_rng([seed, number]))
    )


def _trace(text: str) -> Trace:
    words = text.split()
    points = [[float(part) for part in word.rstrip("*").split(",")] for word in words]
    return Trace(np.array(points), tuple(word.endswith("*") for word in words))


def _hand(number: int, rng: np.random.Generator) -> Hand:
    return Hand(
        name=f"own{number:02d}",
        slant=float(rng.normal(0.1, 0.17)),
        aspect=float(np.exp(rng.normal(0.02, 0.15))),
        rounding=float(rng.uniform(0.4, 1.8)),
        deviation=float(rng.uniform(2.5, 6.0)),
        tremor=float(rng.uniform(1.0, 3.0)),
    )


def _written_by(number: int, samples: int, rng: np.random.Generator) -> Iterator[SymbolSample]:
    hand = _hand(number, rng)
    for token, variants in glyphs().items():
        liked = _deviate(variants[int(rng.integers(len(variants)))], hand.deviation, rng)
        for _ in range(samples):
            yield _sample(token, hand, _pen(liked, hand, rng))
    for name in FUNCTIONS:
        chosen = {
            letter: glyphs()[letter][int(rng.integers(len(glyphs()[letter])))] for letter in name
        }
        for _ in range(samples):
            strokes = _word([_pen(chosen[letter], hand, rng) for letter in name], hand, rng)
            yield _sample("\\" + name, hand, strokes)


def _deviate(traces: Sequence[Trace], amount: float, rng: np.random.Generator) -> tuple[Trace, ...]:
    return tuple(
        Trace(trace.points + rng.normal(0.0, amount, trace.points.shape), trace.corners)
        for trace in traces
    )


def _pen(traces: Sequence[Trace], hand: Hand, rng: np.random.Generator) -> list[np.ndarray]:
    """The strokes as pen points, y down, baseline at 0."""
    stretch = np.exp(rng.normal(0.0, 0.04, 2)) * (hand.aspect, 1.0)
    slant = hand.slant + float(rng.normal(0.0, 0.02))
    strokes = []
    for trace in _deviate(traces, hand.tremor, rng):
        points = _smooth(_curve(trace), hand.rounding) * stretch
        points[:, 0] += slant * points[:, 1]
        strokes.append(points * (1.0, -1.0))
    return strokes


def _word(
    letters: Sequence[list[np.ndarray]], hand: Hand, rng: np.random.Generator
) -> list[np.ndarray]:
    """Letters side by side."""
    strokes: list[np.ndarray] = []
    pen = 0.0
    for letter in letters:
        left = min(stroke[:, 0].min() for stroke in letter)
        shift = (pen - left, float(rng.normal(0.0, 2.0)))
        strokes.extend(stroke + shift for stroke in letter)
        pen += max(stroke[:, 0].max() for stroke in letter) - left
        pen += hand.aspect * float(rng.uniform(6.0, 18.0))
    return strokes


def _sample(token: str, hand: Hand, strokes: Sequence[np.ndarray]) -> SymbolSample:
    points = np.concatenate(strokes)
    corner = points.min(axis=0)
    width, height = points.max(axis=0) - corner
    return SymbolSample(
        token=token,
        writer=hand.name,
        points=(points - corner).astype(np.float32),
        lengths=tuple(len(stroke) for stroke in strokes),
        width=float(width),
        height=float(height),
        unit=_X_HEIGHT,
        baseline=float(-corner[1]),
    )


def _curve(trace: Trace) -> np.ndarray:
    """Points along a stroke at an even distance, float64 (points, 2)."""
    bends = [0, *(i for i, corner in enumerate(trace.corners) if corner), len(trace.points) - 1]
    pieces = [
        _catmull_rom(trace.points[first : last + 1])
        for first, last in pairwise(bends)
        if last > first
    ]
    dense = np.concatenate(pieces)
    length = np.concatenate([[0.0], np.cumsum(np.hypot(*np.diff(dense, axis=0).T))])
    places = np.linspace(0.0, length[-1], max(2, round(length[-1] / _SPACING) + 1))
    return np.stack([np.interp(places, length, dense[:, axis]) for axis in (0, 1)], axis=1)


def _catmull_rom(points: np.ndarray, steps: int = 8) -> np.ndarray:
    """A smooth curve through points, `steps` of its points for each of the spans."""
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
    """Cut corners by a running mean; the ends stay where they are."""
    reach = min(3, (len(points) - 1) // 2)
    if reach == 0:
        return points
    weights = np.exp(-0.5 * np.square(np.arange(-reach, reach + 1) / width))
    weights /= weights.sum()
    padded = np.concatenate(
        [
            2 * points[0] - points[reach:0:-1],
            points,
            2 * points[-1] - points[-2 : -reach - 2 : -1],
        ]
    )
    return np.stack([np.convolve(padded[:, axis], weights, "valid") for axis in (0, 1)], axis=1)
