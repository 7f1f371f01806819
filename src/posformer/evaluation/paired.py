"""Two models on the same expressions: which changed sides, and whether that is chance."""

from collections.abc import Sequence
from dataclasses import dataclass

from posformer.errors import DataError
from posformer.evaluation.predictions import Prediction
from posformer.evaluation.significance import Interval, bootstrap_difference, mcnemar

__all__ = ["Comparison", "compare"]


@dataclass(frozen=True)
class Comparison:
    """What two models predict for the expressions that both have seen."""

    own: tuple[Prediction, ...]
    others: tuple[Prediction, ...]
    """For each of `own` what the other model predicts."""
    left_out: int
    """Expressions that only one of the two has seen."""
    difference: float
    """ExpRate of the first less that of the other, in points."""
    interval: Interval
    """95 % interval of it, by the bootstrap."""
    p_value: float
    """By McNemar's exact test."""

    @property
    def gained(self) -> tuple[int, ...]:
        """Places of the expressions that only the first reads right."""
        return self._places(own=True, other=False)

    @property
    def lost(self) -> tuple[int, ...]:
        """Places of the expressions that only the other reads right."""
        return self._places(own=False, other=True)

    @property
    def both_right(self) -> int:
        """How many expressions both read right."""
        return len(self._places(own=True, other=True))

    @property
    def both_wrong(self) -> int:
        """How many expressions neither reads right."""
        return len(self._places(own=False, other=False))

    def summary(self) -> str:
        """The outcome in a line."""
        low, high = self.interval
        return (
            f"ExpRate {self.difference:+.2f} points (95 % interval {low:+.2f} to {high:+.2f}) on "
            f"{len(self.own)} expressions; {len(self.gained)} gained, {len(self.lost)} lost; "
            f"McNemar's exact test: p = {self.p_value:.2g}"
        )

    def _places(self, *, own: bool, other: bool) -> tuple[int, ...]:
        pairs = enumerate(zip(self.own, self.others, strict=True))
        return tuple(place for place, (a, b) in pairs if a.is_right is own and b.is_right is other)


def compare(predictions: Sequence[Prediction], others: Sequence[Prediction]) -> Comparison:
    """Compare two models expression by expression; these are matched by their names.

    Raises:
        DataError: When a name stands twice, has another truth in the other set, or no
            expression is in both.
    """
    first, second = _by_name(predictions), _by_name(others)
    common = [name for name in first if name in second]
    if not common:
        raise DataError("the two sets of predictions have no expression in common")
    own, other = [first[name] for name in common], [second[name] for name in common]
    for a, b in zip(own, other, strict=True):
        if a.truth != b.truth:
            raise DataError(f"{a.name}: the two sets of predictions have different truths")
    right, right_there = [a.is_right for a in own], [b.is_right for b in other]
    gained = sum(a and not b for a, b in zip(right, right_there, strict=True))
    lost = sum(b and not a for a, b in zip(right, right_there, strict=True))
    return Comparison(
        own=tuple(own),
        others=tuple(other),
        left_out=len(first) + len(second) - 2 * len(common),
        difference=100 * (gained - lost) / len(common),
        interval=bootstrap_difference(right, right_there),
        p_value=mcnemar(gained, lost),
    )


def _by_name(predictions: Sequence[Prediction]) -> dict[str, Prediction]:
    found: dict[str, Prediction] = {}
    for one in predictions:
        if one.name in found:
            raise DataError(f"{one.name}: stands twice among the predictions")
        found[one.name] = one
    return found
