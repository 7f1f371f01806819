r"""Recognition metrics over token sequences.

Tokens are compared as tokens, never as characters: `\alpha` for `a` is one error. The functions do
not normalize; normalize both sides first if, say, the order of scripts must not matter.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from rapidfuzz.distance import Levenshtein

from posformer.errors import DataError
from posformer.latex import encode_forest, is_valid

if TYPE_CHECKING:
    from posformer.evaluation.kind_scores import KindScore

_LENGTH_STEP = 10
_NORMAL_95 = 1.959964  # quantile of the normal distribution for a 95 % interval


@dataclass(frozen=True)
class ScoreBin:
    """ExpRate of the expressions whose level or length lies in a range."""

    first: int
    """Smallest level or length, inclusive."""
    last: int
    """Largest level or length, inclusive."""
    count: int
    exprate: float
    """Percent."""

    def to_json(self) -> dict[str, Any]:
        """Return the fields that `evaluate --output` writes."""
        return {"from": self.first, "to": self.last, "count": self.count, "exprate": self.exprate}


@dataclass(frozen=True)
class Scores:
    """Metrics of a set of predictions."""

    count: int
    exprate: float
    """Percent of the expressions whose tokens are all correct."""
    le1: float
    """Percent at most one token edit away from the ground truth."""
    le2: float
    le3: float
    cer: float
    """Sum of edit distances over the sum of ground-truth lengths, a fraction."""
    by_level: tuple[ScoreBin, ...]
    """By the nested level of the ground truth."""
    by_length: tuple[ScoreBin, ...]
    """By the number of tokens of the ground truth."""
    exprate_interval: tuple[float, float]
    """95 % Wilson score interval of ExpRate, in percent."""
    syntax_validity: float
    """Percent of the predictions that are well-formed LaTeX; an empty prediction is not."""
    by_kind: tuple["KindScore", ...] = ()
    """By the kind of photograph; empty for other images."""

    def to_json(self) -> dict[str, Any]:
        """Return the fields that `evaluate --output` writes."""
        names = ("by_level", "by_length", *(["by_kind"] if self.by_kind else []))
        bins = {name: [one.to_json() for one in getattr(self, name)] for name in names}
        fields = {name: value for name, value in vars(self).items() if name != "by_kind"}
        return {**fields, **bins, "exprate_interval": list(self.exprate_interval)}


def evaluate_pairs(truths: Sequence[Sequence[str]], predictions: Sequence[Sequence[str]]) -> Scores:
    """Score predictions against the ground truth.

    Args:
        truths: The ground truth of each expression, as tokens.
        predictions: The prediction for each expression, as tokens; may be empty.

    Raises:
        DataError: If there are no expressions, or a ground truth has no tokens.
    """
    _check(truths, predictions)
    distances = edit_distances(truths, predictions)
    lengths = np.array([len(truth) for truth in truths])
    levels = np.array([encode_forest(truth, lenient=True).complexity for truth in truths])
    correct = distances == 0
    return Scores(
        count=len(truths),
        exprate=_percent(correct),
        exprate_interval=wilson_interval(int(correct.sum()), len(truths)),
        le1=_percent(distances <= 1),
        le2=_percent(distances <= 2),
        le3=_percent(distances <= 3),
        cer=float(distances.sum() / lengths.sum()),
        syntax_validity=_percent(bool(guess) and is_valid(guess) for guess in predictions),
        by_level=_bins(correct, levels, step=1),
        by_length=_bins(correct, lengths - 1, step=_LENGTH_STEP, offset=1),
    )


def _check(truths: Sequence[Sequence[str]], predictions: Sequence[Sequence[str]]) -> None:
    if len(truths) != len(predictions):
        raise DataError(f"{len(truths)} expressions but {len(predictions)} predictions")
    if not truths:
        raise DataError("there are no expressions to evaluate")
    for number, truth in enumerate(truths, start=1):
        if not truth:
            raise DataError(f"expression {number} has no tokens")


def edit_distances(
    truths: Iterable[Sequence[str]], predictions: Iterable[Sequence[str]]
) -> np.ndarray:
    """Return the number of token insertions, deletions and replacements, int64 (pairs,)."""
    pairs = zip(truths, predictions, strict=True)
    return np.array([Levenshtein.distance(truth, guess) for truth, guess in pairs], dtype=np.int64)


def wilson_interval(correct: int, count: int) -> tuple[float, float]:
    """Return the 95 % Wilson score interval, in percent, of `correct` out of `count`."""
    share = correct / count
    weight = _NORMAL_95**2 / count
    center = (share + weight / 2) / (1 + weight)
    half = math.sqrt(weight * share * (1 - share) + weight**2 / 4) / (1 + weight)
    return 100 * max(center - half, 0.0), 100 * min(center + half, 1.0)


def _percent(hits: np.ndarray | Iterable[bool]) -> float:
    return 100 * float(np.mean(list(hits)))


def _bins(
    correct: np.ndarray, values: np.ndarray, *, step: int, offset: int = 0
) -> tuple[ScoreBin, ...]:
    """Group expressions by ranges of `step` values; empty ranges are omitted."""
    groups = values // step
    bins = []
    for group in np.unique(groups).tolist():
        first, members = group * step + offset, correct[groups == group]
        bins.append(ScoreBin(first, first + step - 1, len(members), _percent(members)))
    return tuple(bins)
