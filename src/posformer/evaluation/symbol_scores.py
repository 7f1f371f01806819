"""How well each symbol is read, and what it is taken for."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from posformer.evaluation.predictions import Prediction
from posformer.evaluation.token_alignment import Pair, align

__all__ = ["Confusion", "SymbolScore", "count_confusions", "score_symbols"]

_BRACES = ("{", "}")  # follow from what they enclose, and are no reading of their own


@dataclass(frozen=True)
class SymbolScore:
    """What became of a symbol over all expressions."""

    token: str
    count: int
    """How often the truth has it."""
    read: int
    """How often it was predicted where the truth has it."""
    predicted: int
    """How often it was predicted at all."""
    expressions: int
    """In how many expressions the truth has it."""
    exprate: float
    """Per cent of these that are wholly right; 0 if there are none."""

    @property
    def recall(self) -> float:
        """Per cent of the symbols there that were read."""
        return 100 * self.read / self.count if self.count else 0.0

    @property
    def precision(self) -> float:
        """Per cent of the symbols predicted that are there."""
        return 100 * self.read / self.predicted if self.predicted else 0.0


@dataclass(frozen=True)
class Confusion:
    """A symbol that was taken for another."""

    truth: str | None
    """None for a symbol that is not there."""
    prediction: str | None
    """None for a symbol that was left out."""
    count: int


def score_symbols(predictions: Sequence[Prediction]) -> tuple[SymbolScore, ...]:
    """Score every symbol of the truths and predictions, the most frequent first."""
    count: Counter[str] = Counter()
    read: Counter[str] = Counter()
    predicted: Counter[str] = Counter()
    expressions: Counter[str] = Counter()
    right: Counter[str] = Counter()
    for one in predictions:
        count.update(one.truth)
        predicted.update(one.prediction)
        read.update(pair.truth for pair in _pairs(one) if pair.truth and pair.kind == "same")
        expressions.update(set(one.truth))
        right.update(set(one.truth) if one.is_right else ())
    tokens = (count | predicted).keys() - _BRACES
    scores = [
        SymbolScore(
            token=token,
            count=count[token],
            read=read[token],
            predicted=predicted[token],
            expressions=expressions[token],
            exprate=100 * right[token] / max(expressions[token], 1),
        )
        for token in tokens
    ]
    return tuple(sorted(scores, key=lambda score: (-score.count, score.token)))


def count_confusions(predictions: Sequence[Prediction]) -> tuple[Confusion, ...]:
    """Count what symbols were taken for, left out or made up, the most frequent first."""
    counts = Counter(
        (pair.truth, pair.prediction)
        for one in predictions
        for pair in _pairs(one)
        if pair.kind != "same" and not {pair.truth, pair.prediction} <= {*_BRACES, None}
    )
    found = [Confusion(truth, guess, count) for (truth, guess), count in counts.items()]
    return tuple(sorted(found, key=lambda one: (-one.count, one.truth or "", one.prediction or "")))


def _pairs(prediction: Prediction) -> tuple[Pair, ...]:
    return align(prediction.truth, prediction.prediction)
