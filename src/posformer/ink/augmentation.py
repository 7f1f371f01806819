"""Stroke augmentation: natural variation of handwriting.

Lengths are in pixels of CROHME's images, where a stroke is 28 pixels tall on average.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
from numpy.random import Generator

from posformer.errors import ConfigError
from posformer.ink.aligned import AlignedInk, bounds, split_points
from posformer.ink.render import RenderStyle

_WAVES = 4


@dataclass(frozen=True)
class StrokeAugmentation:
    """The strength of each kind of variation; 0 disables it, the defaults look natural.

    Calling the object returns a random variation of an expression. All changes except the noise
    are smooth. Tokens and alignment do not change.
    """

    slant: float = 0.2  # standard deviation of the shear: shift of x per unit of y
    rotation: float = 2.5  # degrees, standard deviation
    stretch: float = 0.12  # of width relative to height, standard deviation of the logarithm
    curvature: float = 4.0  # pixels, standard deviation of how far the baseline bends
    elastic: float = 1.3  # pixels, standard deviation of a smooth random shift of every point
    wavelength: tuple[float, float] = (50.0, 250.0)  # pixels, shortest and longest of that shift
    symbol_shift: float = 1.2  # pixels, standard deviation per symbol
    symbol_scale: float = 0.06  # standard deviation of the logarithm, per symbol
    noise: float = 0.2  # pixels, standard deviation per point
    drop: float = 0.05  # share of points dropped; the ends of strokes are kept
    join: float = 0.02  # probability that the pen stays down between two strokes of a symbol
    join_gap: float = 15.0  # pixels; strokes further apart are never joined
    pen: float = 0.75  # probability of another pen: one pixel narrower, or up to three wider

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if name != "wavelength" and not value >= 0:
                raise ConfigError(f"{name} {value} of the stroke augmentation is negative")
        if not 0 < self.wavelength[0] <= self.wavelength[1]:
            raise ConfigError(f"wavelength {self.wavelength} is not (shortest, longest) above 0")

    def scaled(self, strength: float) -> StrokeAugmentation:
        """Return the augmentation with all strengths multiplied by a factor."""
        strengths = vars(self).keys() - {"wavelength", "join_gap"}
        return replace(self, **{name: getattr(self, name) * strength for name in strengths})

    def __call__(self, ink: AlignedInk, rng: Generator) -> AlignedInk:
        """Return a random variation of an expression."""
        lengths = np.array([len(stroke) for stroke in ink.strokes])
        points = np.concatenate(ink.strokes).astype(np.float32, copy=False)
        points = self._move_symbols(points, _symbol_of_points(ink, lengths), rng)
        points = self._bend(points, rng)
        points += np.float32(self.noise) * rng.standard_normal(points.shape, np.float32)
        points, lengths = self._drop_points(points, lengths, rng)
        return self._join(replace(ink, strokes=split_points(points, lengths)), rng)

    def sample_pen(self, style: RenderStyle, rng: Generator) -> RenderStyle:
        """Return the style with a random pen; wide pens are thinned, as by page clean-up."""
        if rng.random() >= self.pen:
            return style
        wider = int(rng.choice((-1, 1, 2, 3)))
        return replace(style, pen_width=max(1, style.pen_width + wider), thinned=max(0, wider) // 2)

    def _move_symbols(self, points: np.ndarray, symbols: np.ndarray, rng: Generator) -> np.ndarray:
        """Shift every symbol and scale it about its center."""
        count = int(symbols.max()) + 1
        weight = np.maximum(np.bincount(symbols, minlength=count), 1)
        sums = np.stack([np.bincount(symbols, column, count) for column in points.T], axis=1)
        centers = sums / weight[:, None]
        shift = self.symbol_shift * rng.standard_normal((count, 2))
        scale = np.exp(self.symbol_scale * rng.standard_normal((count, 1)))
        shift = (centers * (1 - scale) + shift).astype(np.float32)
        return points * scale.astype(np.float32)[symbols] + shift[symbols]

    def _bend(self, points: np.ndarray, rng: Generator) -> np.ndarray:
        """Bend the baseline, apply a smooth elastic shift, then slant, rotate and stretch."""
        low, high = bounds(points)
        points = points - (low + high) / 2
        half_width = max(1.0, float(high[0] - low[0]) / 2)
        # A short expression shows less of the same curvature.
        bend = self.curvature * min(1.0, half_width / 100) * rng.standard_normal()
        points[:, 1] += np.float32(bend) * np.square(points[:, 0] / np.float32(half_width))
        waves = 2 * np.pi / rng.uniform(*self.wavelength, (_WAVES, 1))
        direction = rng.standard_normal((_WAVES, 2))
        direction /= np.linalg.norm(direction, axis=1, keepdims=True) + 1e-9
        phase = points @ (waves * direction).T.astype(np.float32)
        phase += rng.uniform(0, 2 * np.pi, _WAVES).astype(np.float32)
        # The variance of a sine wave is half its squared amplitude.
        amplitudes = self.elastic * np.sqrt(2 / _WAVES) * rng.standard_normal((_WAVES, 2))
        points += np.sin(phase) @ amplitudes.astype(np.float32)
        return points @ self._affine_matrix(rng).T.astype(np.float32)

    def _affine_matrix(self, rng: Generator) -> np.ndarray:
        slant, rotation, stretch = rng.standard_normal(3)
        angle = np.deg2rad(self.rotation * rotation)
        cos, sin = np.cos(angle), np.sin(angle)
        stretch = np.exp(self.stretch * stretch / 2)
        shear = np.array([[stretch, -self.slant * slant], [0.0, 1 / stretch]])
        return np.array([[cos, -sin], [sin, cos]]) @ shear

    def _drop_points(
        self, points: np.ndarray, lengths: np.ndarray, rng: Generator
    ) -> tuple[np.ndarray, np.ndarray]:
        """Drop random points, but never the ends of a stroke."""
        if not self.drop:
            return points, lengths
        keep = rng.random(len(points)) >= self.drop
        ends = np.cumsum(lengths)
        keep[ends - 1] = True
        keep[ends - lengths] = True
        return points[keep], np.add.reduceat(keep, ends - lengths, dtype=np.int64)

    def _join(self, ink: AlignedInk, rng: Generator) -> AlignedInk:
        """Join some close strokes of a symbol, as if the pen had stayed down."""
        joined: dict[int, int] = {}  # stroke -> the stroke that continues it
        for members in ink.alignment:
            for one, other in pairwise(members):
                stays_down = rng.random() < self.join
                if stays_down and self._can_join(ink.strokes[one], ink.strokes[other]):
                    joined[one] = other
        return _merge(ink, joined) if joined else ink

    def _can_join(self, one: np.ndarray, other: np.ndarray) -> bool:
        """Whether the gap is small and neither stroke is a dot."""
        dots = min(np.ptp(one, axis=0).max(), np.ptp(other, axis=0).max()) < 5
        return not dots and bool(np.hypot(*(other[0] - one[-1])) < self.join_gap)


def _symbol_of_points(ink: AlignedInk, lengths: np.ndarray) -> np.ndarray:
    """Return the token index of every point; a stroke of no token counts as its own symbol."""
    owner = np.arange(len(ink.tokens), len(ink.tokens) + len(ink.strokes))
    for index, strokes in enumerate(ink.alignment):
        owner[list(strokes)] = index
    return np.repeat(owner, lengths)


def _merge(ink: AlignedInk, joined: dict[int, int]) -> AlignedInk:
    """Concatenate strokes that continue one another."""
    continued = set(joined.values())
    new_index: dict[int, int] = {}
    strokes: list[np.ndarray] = []
    for number in range(len(ink.strokes)):
        if number in continued:
            continue
        chain = [number]
        while chain[-1] in joined:
            chain.append(joined[chain[-1]])
        new_index.update(dict.fromkeys(chain, len(strokes)))
        strokes.append(np.concatenate([ink.strokes[part] for part in chain]))
    alignment = [{new_index[stroke] for stroke in members} for members in ink.alignment]
    return replace(ink, strokes=tuple(strokes), alignment=tuple(map(tuple, map(sorted, alignment))))
