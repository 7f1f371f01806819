"""Bootstrap confidence intervals and McNemar's test."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

_TOLERANCES = (0, 1, 2, 3)

Interval = tuple[float, float]


@dataclass(frozen=True)
class Intervals:
    """95 % confidence intervals of the metrics: percent, except for `cer` (a fraction)."""

    exprate: Interval
    le1: Interval
    le2: Interval
    le3: Interval
    cer: Interval


def bootstrap_sums(values: np.ndarray, samples: int = 2000, seed: int = 0) -> np.ndarray:
    """Resample expressions with replacement and sum their values.

    Args:
        values: float (expressions, values).
        samples: Number of bootstrap samples.
        seed: Seed of the random generator.

    Returns:
        float (samples, values). All columns use the same resampled expressions.
    """
    # Expressions with equal values are interchangeable: only their number has to be sampled.
    unique, counts = np.unique(values, axis=0, return_counts=True)
    rng = np.random.default_rng(seed)
    return np.asarray(rng.multinomial(len(values), counts / len(values), samples) @ unique)


def percentile_interval(samples: np.ndarray) -> Interval:
    """Return the 95 % interval of bootstrap samples, float (samples,)."""
    low, high = np.percentile(samples, (2.5, 97.5))
    return float(low), float(high)


def bootstrap_intervals(
    distances: Sequence[int] | np.ndarray, lengths: Sequence[int] | np.ndarray, seed: int = 0
) -> Intervals:
    """Return 95 % bootstrap intervals of the metrics.

    Args:
        distances: int (expressions,), edit distance of each prediction.
        lengths: int (expressions,), number of tokens of each ground truth.
        seed: Seed of the random generator.
    """
    edits = np.asarray(distances, np.float64)
    within = [100.0 * (edits <= limit) for limit in _TOLERANCES]
    sums = bootstrap_sums(np.column_stack([*within, edits, lengths]), seed=seed)
    exprate, le1, le2, le3 = (percentile_interval(sums[:, i] / len(edits)) for i in range(4))
    return Intervals(exprate, le1, le2, le3, percentile_interval(sums[:, 4] / sums[:, 5]))


def bootstrap_groups(
    correct: Sequence[bool] | np.ndarray, groups: Sequence[str], seed: int = 0
) -> Interval:
    """Return the 95 % interval of ExpRate, in percent, with whole groups resampled.

    Images of the same text or source resemble each other, so that resampling single images would
    promise too much.

    Args:
        correct: bool (expressions,).
        groups: The group of each expression, such as its text.
        seed: Seed of the random generator.
    """
    sums = bootstrap_sums(_by_group(correct, groups), seed=seed)
    return percentile_interval(100 * sums[:, 0] / sums[:, 1])


def bootstrap_group_mean(
    correct: Sequence[bool] | np.ndarray, groups: Sequence[str], seed: int = 0
) -> Interval:
    """Return the 95 % interval of the mean ExpRate of groups, in percent, with groups resampled.

    Arguments as for `bootstrap_groups`.
    """
    hits, counts = _by_group(correct, groups).T
    sums = bootstrap_sums(100 * (hits / counts)[:, None], seed=seed)
    return percentile_interval(sums[:, 0] / len(hits))


def _by_group(correct: Sequence[bool] | np.ndarray, groups: Sequence[str]) -> np.ndarray:
    """Return the number of correct expressions and of all of each group, float (groups, 2)."""
    _, index = np.unique(np.asarray(groups, dtype=str), return_inverse=True)
    return np.column_stack([np.bincount(index, np.asarray(correct, float)), np.bincount(index)])


def bootstrap_difference(
    correct: Sequence[bool] | np.ndarray, other: Sequence[bool] | np.ndarray
) -> Interval:
    """Return the 95 % interval, in points, of the difference of two ExpRates.

    Args:
        correct: bool (expressions,), whether the first model is correct.
        other: bool (expressions,), whether the second model is correct.
    """
    gains = 100.0 * (np.asarray(correct, np.float64) - np.asarray(other, np.float64))
    return percentile_interval(bootstrap_sums(gains[:, None])[:, 0] / len(gains))


def mcnemar(only_first: int, only_second: int) -> float:
    """Return the two-sided p-value of McNemar's exact test.

    Args:
        only_first: Number of expressions that only the first model gets right.
        only_second: Number of expressions that only the second model gets right.
    """
    trials = only_first + only_second
    ways = tail = 1  # integers: exact for any number of trials
    for successes in range(1, min(only_first, only_second) + 1):
        ways = ways * (trials - successes + 1) // successes
        tail += ways
    return min(1.0, 2 * tail / 2**trials)
