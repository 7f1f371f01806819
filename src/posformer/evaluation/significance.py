"""What a set of expressions can tell: bootstrap intervals, and a paired test of two models."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

__all__ = ["Intervals", "bootstrap_difference", "bootstrap_intervals", "mcnemar"]

_SAMPLES = 2000
_SEED = 0
_BOUNDS = (2.5, 97.5)
_TOLERANCES = (0, 1, 2, 3)

Interval = tuple[float, float]


@dataclass(frozen=True)
class Intervals:
    """95 % intervals of the measures."""

    exprate: Interval
    """Per cent, as the next three."""
    le1: Interval
    le2: Interval
    le3: Interval
    cer: Interval
    """A fraction."""


def bootstrap_intervals(
    distances: Sequence[int] | np.ndarray,
    lengths: Sequence[int] | np.ndarray,
    samples: int = _SAMPLES,
    seed: int = _SEED,
) -> Intervals:
    """Measure again on sets drawn from the expressions with replacement.

    Args:
        distances: Edit distance of every prediction, (expressions).
        lengths: Number of tokens of every truth, (expressions).
        samples: How many sets to draw.
        seed: The same seed gives the same intervals.
    """
    far = np.asarray(distances, np.float64)
    within = [100.0 * (far <= limit) for limit in _TOLERANCES]
    sums = _resampled(np.stack([*within, far, np.asarray(lengths)], axis=1), samples, seed)
    exprate, le1, le2, le3 = (_bounds(sums[:, place] / len(far)) for place in range(4))
    return Intervals(exprate, le1, le2, le3, _bounds(sums[:, 4] / sums[:, 5]))


def bootstrap_difference(
    right: Sequence[bool] | np.ndarray,
    other: Sequence[bool] | np.ndarray,
    samples: int = _SAMPLES,
    seed: int = _SEED,
) -> Interval:
    """The 95 % interval, in points, of the difference of two ExpRates on the same expressions.

    Args:
        right: Whether the first model is right, (expressions).
        other: Whether the second is, (expressions).
        samples: How many sets to draw.
        seed: The same seed gives the same interval.
    """
    gains = 100.0 * (np.asarray(right, np.float64) - np.asarray(other, np.float64))
    return _bounds(_resampled(gains[:, None], samples, seed)[:, 0] / len(gains))


def mcnemar(only_first: int, only_second: int) -> float:
    """McNemar's exact test: how likely two equally good models are to differ at least so much.

    Expressions that both or neither of them read right say nothing about which is better; were
    they equal, each of the others would fall to one of them like a coin.

    Args:
        only_first: Expressions that only the first model reads right.
        only_second: Expressions that only the second does.

    Returns:
        The two-sided probability, at most 1.
    """
    tosses = only_first + only_second
    ways = tail = 1  # in which no coin shows heads; exact, however many coins there are
    for heads in range(1, min(only_first, only_second) + 1):
        ways = ways * (tosses - heads + 1) // heads
        tail += ways
    return min(1.0, 2 * tail / 2**tosses)


def _resampled(values: np.ndarray, samples: int, seed: int) -> np.ndarray:
    """Sums over drawn expressions: (expressions, values) to (samples, values)."""
    # Expressions with the same values are drawn together: how often is all that matters.
    kinds, counts = np.unique(values, axis=0, return_counts=True)
    drawn = np.random.default_rng(seed).multinomial(len(values), counts / len(values), samples)
    return np.asarray(drawn @ kinds)


def _bounds(drawn: np.ndarray) -> Interval:
    low, high = np.percentile(drawn, _BOUNDS)
    return float(low), float(high)
