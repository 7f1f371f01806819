r"""How good predictions are: plain functions over token sequences, without PyTorch.

Tokens are compared as tokens, never as characters: `\alpha` for `a` is one error. What counts as
the same expression (the order of scripts, say) is for the caller to settle by normalising both
sides first.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from rapidfuzz.distance import Levenshtein

from posformer.errors import DataError
from posformer.latex import encode_forest, is_valid

__all__ = [
    "Row",
    "Scores",
    "edit_distances",
    "evaluate_pairs",
    "wilson_interval",
]

_LENGTH_STEP = 10
_NORMAL_95 = 1.959964  # quantile of the normal distribution for a 95 % interval


@dataclass(frozen=True)
class Row:
    """The expressions whose level or length lies in a range."""

    first: int
    """Smallest level or length, inclusive."""
    last: int
    """Greatest, inclusive."""
    count: int
    exprate: float
    """Per cent."""

    def to_json(self) -> dict[str, Any]:
        """Give the row as `evaluate --output` writes it."""
        return {
            "from": self.first,
            "to": self.last,
            "count": self.count,
            "exprate": self.exprate,
        }


@dataclass(frozen=True)
class Scores:
    """The measures of a set of predictions."""

    count: int
    exprate: float
    """Per cent of expressions whose tokens are all right."""
    exprate_interval: tuple[float, float]
    """95 % interval of it, by Wilson's formula: what a set of this size can tell."""
    le1: float
    """Per cent at most one token edit away from the truth."""
    le2: float
    le3: float
    cer: float
    """Sum of edit distances over sum of true lengths, a fraction."""
    syntax_validity: float
    """Per cent of predictions that are well-formed LaTeX, right or wrong; an empty one is not."""
    by_level: tuple[Row, ...]
    """By the nested level of the truth."""
    by_length: tuple[Row, ...]
    """By the number of tokens of the truth."""

    def to_json(self) -> dict[str, Any]:
        """Give the measures as `evaluate --output` writes them."""
        return {
            "count": self.count,
            "exprate": self.exprate,
            "le1": self.le1,
            "le2": self.le2,
            "le3": self.le3,
            "cer": self.cer,
            "by_level": [row.to_json() for row in self.by_level],
            "by_length": [row.to_json() for row in self.by_length],
            "exprate_interval": list(self.exprate_interval),
            "syntax_validity": self.syntax_validity,
        }


def evaluate_pairs(truths: Sequence[Sequence[str]], predictions: Sequence[Sequence[str]]) -> Scores:
    """Measure predictions against the truth.

    Args:
        truths: The true expressions, as tokens.
        predictions: What was predicted for each of them, as tokens; may be empty.

    Raises:
        DataError: When there is nothing to measure or a true expression has no tokens.
    """
    _check(truths, predictions)
    distances = edit_distances(truths, predictions)
    lengths = np.array([len(truth) for truth in truths])
    levels = np.array([encode_forest(truth, lenient=True).complexity for truth in truths])
    right = distances == 0
    return Scores(
        count=len(truths),
        exprate=_percent(right),
        exprate_interval=wilson_interval(int(right.sum()), len(truths)),
        le1=_percent(distances <= 1),
        le2=_percent(distances <= 2),
        le3=_percent(distances <= 3),
        cer=float(distances.sum() / lengths.sum()),
        syntax_validity=_percent(bool(guess) and is_valid(guess) for guess in predictions),
        by_level=_rows(right, levels, step=1),
        by_length=_rows(right, lengths - 1, step=_LENGTH_STEP, offset=1),
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
    """Count for each pair the tokens to insert, delete or replace; int64 (pairs)."""
    pairs = zip(truths, predictions, strict=True)
    return np.array([Levenshtein.distance(truth, guess) for truth, guess in pairs], dtype=np.int64)


def wilson_interval(right: int, count: int) -> tuple[float, float]:
    """Give the 95 % interval, in per cent, of a share of which `right` of `count` were seen."""
    share = right / count
    weight = _NORMAL_95**2 / count
    centre = (share + weight / 2) / (1 + weight)
    half = math.sqrt(weight * share * (1 - share) + weight**2 / 4) / (1 + weight)
    return 100 * max(centre - half, 0.0), 100 * min(centre + half, 1.0)


def _percent(hits: np.ndarray | Iterable[bool]) -> float:
    return 100 * float(np.mean(list(hits)))


def _rows(right: np.ndarray, values: np.ndarray, *, step: int, offset: int = 0) -> tuple[Row, ...]:
    """Group (expressions) by ranges of `step` values; ranges without any are left out."""
    groups = values // step
    return tuple(
        Row(
            first=int(group) * step + offset,
            last=int(group) * step + step - 1 + offset,
            count=int((groups == group).sum()),
            exprate=_percent(right[groups == group]),
        )
        for group in np.unique(groups)
    )
