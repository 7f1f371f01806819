"""Paired comparison of two models on the same expressions."""

from collections.abc import Sequence
from dataclasses import dataclass

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

    @property
    def gained(self) -> tuple[int, ...]:
        """Return the indices of the expressions that only the first model gets right."""
        return self._indices(own=True, other=False)

    @property
    def lost(self) -> tuple[int, ...]:
        """Return the indices of the expressions that only the other model gets right."""
        return self._indices(own=False, other=True)

    @property
    def both_right(self) -> int:
        """Return the number of expressions that both models get right."""
        return len(self._indices(own=True, other=True))

    @property
    def both_wrong(self) -> int:
        """Return the number of expressions that neither model gets right."""
        return len(self._indices(own=False, other=False))

    def summary(self) -> str:
        """Return the result in one line."""
        low, high = self.interval
        return (
            f"ExpRate {self.difference:+.2f} points (95 % interval {low:+.2f} to {high:+.2f}) on "
            f"{len(self.own)} expressions; {len(self.gained)} gained, {len(self.lost)} lost; "
            f"McNemar's exact test: p = {self.p_value:.2g}"
        )

    def _indices(self, *, own: bool, other: bool) -> tuple[int, ...]:
        pairs = enumerate(zip(self.own, self.others, strict=True))
        return tuple(i for i, (a, b) in pairs if a.is_correct is own and b.is_correct is other)


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
    correct, other_correct = [a.is_correct for a in own], [b.is_correct for b in other]
    gained = sum(a and not b for a, b in zip(correct, other_correct, strict=True))
    lost = sum(b and not a for a, b in zip(correct, other_correct, strict=True))
    return Comparison(
        own=tuple(own),
        others=tuple(other),
        left_out=len(first) + len(second) - 2 * len(common),
        difference=100 * (gained - lost) / len(common),
        interval=bootstrap_difference(correct, other_correct),
        p_value=mcnemar(gained, lost),
    )


def _by_name(predictions: Sequence[Prediction]) -> dict[str, Prediction]:
    found: dict[str, Prediction] = {}
    for one in predictions:
        if one.name in found:
            raise DataError(f"{one.name}: occurs twice among the predictions")
        found[one.name] = one
    return found
