"""Other ways in which the same hand could have written the same expression.

Lengths are pixels of CROHME's images, where a stroke is 28 pixels tall on average.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from posformer.errors import ConfigError
from posformer.ink.aligned import AlignedInk, bounds
from posformer.ink.render import RenderStyle

__all__ = ["StrokeAugmentation"]

_WAVES = 4


@dataclass(frozen=True)
class StrokeAugmentation:
    """How much strokes vary; the values here are natural variation, 0 is none.

    Calling it draws one variation. All changes are smooth but for the noise, and token alignment
    stays as it is.
    """

    slant: float = 0.2  # standard deviation of the shear: x moves by this share of y
    rotation: float = 2.5  # degrees, standard deviation
    stretch: float = 0.12  # of width against height, standard deviation of the logarithm
    curvature: float = 4.0  # pixels, standard deviation of how far the row bows
    elastic: float = 1.3  # pixels, standard deviation of a smooth random shift of every point
    wavelength: tuple[float, float] = (50.0, 250.0)  # pixels, of that shift
    symbol_shift: float = 1.2  # pixels, standard deviation for each symbol
    symbol_scale: float = 0.06  # standard deviation of the logarithm, for each symbol
    noise: float = 0.2  # pixels, standard deviation for each point
    drop: float = 0.05  # share of the points, but for ends, that the tablet missed
    join: float = 0.02  # chance that the pen stays down between two strokes of a symbol
    join_gap: float = 15.0  # pixels; strokes further apart are never joined
    pen: float = 0.75  # chance of another pen: a pixel narrower, or up to three wider

    def __post_init__(self) -> None:
        values = {name: value for name, value in vars(self).items() if name != "wavelength"}
        for name, value in values.items():
            if not value >= 0:
                raise ConfigError(f"{name} {value} of the stroke augmentation is below 0")
        if not 0 < self.wavelength[0] <= self.wavelength[1]:
            raise ConfigError(f"wavelength {self.wavelength} is not (shortest, longest) above 0")

    def scaled(self, strength: float) -> StrokeAugmentation:
        """The same with all variation multiplied: 0 for none, 1 for this, more for more."""
        kept = ("wavelength", "join_gap")
        return StrokeAugmentation(
            **{
                name: value if name in kept else value * strength
                for name, value in vars(self).items()
            }
        )

    def __call__(self, ink: AlignedInk, rng: np.random.Generator) -> AlignedInk:
        """Draw a variation of an expression; the tokens stay the same."""
        lengths = np.array([len(stroke) for stroke in ink.strokes])
        points = np.concatenate(ink.strokes).astype(np.float32, copy=False)
        points = self._move_symbols(points, _symbol_of_points(ink, lengths), rng)
        points = self._bend(points, rng)
        points += np.float32(self.noise) * rng.standard_normal(points.shape, np.float32)
        points, lengths = self._sample(points, lengths, rng)
        strokes = _split(points, lengths)
        return self._join(replace(ink, strokes=strokes), rng)

    def draw_pen(self, usual: RenderStyle, rng: np.random.Generator) -> RenderStyle:
        """Draw the width of the pen; what is much too wide was thinned, as clean-up would."""
        if rng.random() >= self.pen:
            return usual
        wider = int(rng.choice((-1, 1, 2, 3)))
        return replace(usual, pen_width=max(1, usual.pen_width + wider), thinned=max(0, wider) // 2)

    def _move_symbols(
        self, points: np.ndarray, symbols: np.ndarray, rng: np.random.Generator
    ) -> np.ndarray:
        """Shift and scale every symbol about its own centre."""
        count = int(symbols.max()) + 1
        weight = np.maximum(np.bincount(symbols, minlength=count), 1)
        centres = np.stack(
            [np.bincount(symbols, column, count) / weight for column in points.T], axis=1
        )
        shift = self.symbol_shift * rng.standard_normal((count, 2))
        scale = np.exp(self.symbol_scale * rng.standard_normal((count, 1)))
        shift = (centres * (1 - scale) + shift).astype(np.float32)
        return points * scale.astype(np.float32)[symbols] + shift[symbols]

    def _bend(self, points: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Slant, rotate and stretch the whole; bow the row; move everything by smooth waves."""
        low, high = bounds(points)
        points = points - (low + high) / 2
        reach = max(1.0, float(high[0] - low[0]) / 2)
        # A short row shows less of the same bow.
        bow = self.curvature * min(1.0, reach / 100) * rng.standard_normal()
        points[:, 1] += np.float32(bow) * np.square(points[:, 0] / np.float32(reach))
        waves = 2 * np.pi / rng.uniform(*self.wavelength, (_WAVES, 1))
        direction = rng.standard_normal((_WAVES, 2))
        direction /= np.linalg.norm(direction, axis=1, keepdims=True) + 1e-9
        phase = points @ (waves * direction).T.astype(np.float32)
        phase += rng.uniform(0, 2 * np.pi, _WAVES).astype(np.float32)
        # Each wave has half the variance of its amplitude.
        heights = self.elastic * np.sqrt(2 / _WAVES) * rng.standard_normal((_WAVES, 2))
        points += np.sin(phase) @ heights.astype(np.float32)
        return points @ self._matrix(rng).T.astype(np.float32)

    def _matrix(self, rng: np.random.Generator) -> np.ndarray:
        slant, turn, stretch = rng.standard_normal(3)
        angle = np.deg2rad(self.rotation * turn)
        cos, sin = np.cos(angle), np.sin(angle)
        stretch = np.exp(self.stretch * stretch / 2)
        shear = np.array([[stretch, -self.slant * slant], [0.0, 1 / stretch]])
        return np.array([[cos, -sin], [sin, cos]]) @ shear

    def _sample(
        self, points: np.ndarray, lengths: np.ndarray, rng: np.random.Generator
    ) -> tuple[np.ndarray, np.ndarray]:
        """Leave out points, but never the ends of a stroke."""
        if not self.drop:
            return points, lengths
        kept = rng.random(len(points)) >= self.drop
        ends = np.cumsum(lengths)
        kept[ends - 1] = True
        kept[ends - lengths] = True
        return points[kept], np.add.reduceat(kept, ends - lengths, dtype=np.int64)

    def _join(self, ink: AlignedInk, rng: np.random.Generator) -> AlignedInk:
        """Leave the pen down between some strokes of a symbol that are close."""
        joined: dict[int, int] = {}  # stroke -> the one that goes on from it
        for members in ink.alignment:
            for one, other in pairwise(members):
                stays_down = rng.random() < self.join
                if stays_down and self._may_join(ink.strokes[one], ink.strokes[other]):
                    joined[one] = other
        return _merge(ink, joined) if joined else ink

    def _may_join(self, one: np.ndarray, other: np.ndarray) -> bool:
        """Whether the gap is small and neither stroke is a dot."""
        dots = min(np.ptp(one, axis=0).max(), np.ptp(other, axis=0).max()) < 5
        return not dots and bool(np.hypot(*(other[0] - one[-1])) < self.join_gap)


def _symbol_of_points(ink: AlignedInk, lengths: np.ndarray) -> np.ndarray:
    """For every point the token it belongs to; a stroke of no token is a symbol of its own."""
    owner = np.arange(len(ink.tokens), len(ink.tokens) + len(ink.strokes))
    for place, strokes in enumerate(ink.alignment):
        for stroke in strokes:
            owner[stroke] = place
    return np.repeat(owner, lengths)


def _split(points: np.ndarray, lengths: np.ndarray) -> tuple[np.ndarray, ...]:
    ends = np.cumsum(lengths).tolist()
    return tuple(points[first:last] for first, last in zip([0, *ends[:-1]], ends, strict=True))


def _merge(ink: AlignedInk, joined: dict[int, int]) -> AlignedInk:
    """Strokes that go on from one another become one stroke."""
    gone = set(joined.values())
    place: dict[int, int] = {}
    strokes: list[np.ndarray] = []
    for number in range(len(ink.strokes)):
        if number in gone:
            continue
        chain = [number]
        while chain[-1] in joined:
            chain.append(joined[chain[-1]])
        place.update(dict.fromkeys(chain, len(strokes)))
        strokes.append(np.concatenate([ink.strokes[part] for part in chain]))
    alignment = tuple(_renumbered(members, place) for members in ink.alignment)
    return replace(ink, strokes=tuple(strokes), alignment=alignment)


def _renumbered(members: Sequence[int], place: dict[int, int]) -> tuple[int, ...]:
    return tuple(sorted({place[stroke] for stroke in members}))
