"""Paired comparison of two models on the same expressions."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from posformer.errors import DataError
from posformer.evaluation.predictions import Prediction
from posformer.evaluation.significance import Interval, bootstrap_difference, mcnemar


@dataclass(frozen=True)
class Comparison:
    """Predictions of two models for the expressions that both have seen."""

    own: tuple[Prediction, ...]
    others: tuple[Prediction, ...]
    """The other model's prediction for each of `own`."""
    left_out: int
    """Number of expressions that only one of the two models has seen."""
    difference: float
    """ExpRate of the first model minus that of the other, in points."""
    interval: Interval
    """95 % bootstrap interval of the difference."""
    p_value: float
    """McNemar's exact test."""

    gained: tuple[int, ...]
    """Indices of the expressions that only the first model gets right."""
    lost: tuple[int, ...]
    """Indices of the expressions that only the other model gets right."""
    both_right: int
    both_wrong: int

    def summary(self) -> str:
        """Return the result in one line."""
        low, high = self.interval
        return (
            f"ExpRate {self.difference:+.2f} points (95 % interval {low:+.2f} to {high:+.2f}) on "
            f"{len(self.own)} expressions; {len(self.gained)} gained, {len(self.lost)} lost; "
            f"McNemar's exact test: p = {self.p_value:.2g}"
        )


def compare(predictions: Sequence[Prediction], others: Sequence[Prediction]) -> Comparison:
    """Compare two models; expressions are matched by name.

    Raises:
        DataError: If a name occurs twice, the ground truths of an expression differ, or the two
            sets have no expression in common.
    """
    first, second = _by_name(predictions), _by_name(others)
    common = [name for name in first if name in second]
    if not common:
        raise DataError("the two sets of predictions have no expression in common")
    own, other = [first[name] for name in common], [second[name] for name in common]
    for a, b in zip(own, other, strict=True):
        if a.truth != b.truth:
            raise DataError(f"{a.name}: the two sets of predictions have different truths")
    correct = np.array([one.is_correct for one in own])
    other_correct = np.array([one.is_correct for one in other])
    gained = np.flatnonzero(correct & ~other_correct)
    lost = np.flatnonzero(other_correct & ~correct)
    return Comparison(
        own=tuple(own),
        others=tuple(other),
        left_out=len(first) + len(second) - 2 * len(common),
        difference=100 * (len(gained) - len(lost)) / len(common),
        interval=bootstrap_difference(correct, other_correct),
        p_value=mcnemar(len(gained), len(lost)),
        gained=tuple(gained.tolist()),
        lost=tuple(lost.tolist()),
        both_right=int((correct & other_correct).sum()),
        both_wrong=int((~correct & ~other_correct).sum()),
    )


def _by_name(predictions: Sequence[Prediction]) -> dict[str, Prediction]:
    found: dict[str, Prediction] = {}
    for one in predictions:
        if one.name in found:
            raise DataError(f"{one.name}: occurs twice among the predictions")
        found[one.name] = one
    return found
