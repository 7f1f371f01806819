"""Recall and precision of each symbol, and confusions between symbols."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from posformer.evaluation.predictions import Prediction

_BRACES = ("{", "}")  # have no ink of their own


@dataclass(frozen=True)
class SymbolScore:
    """Recognition of one symbol over all expressions."""

    token: str
    count: int
    """Occurrences in the ground truth."""
    correct: int
    """Occurrences that were predicted in the right place."""
    predicted: int
    """Occurrences in the predictions."""
    expressions: int
    """Number of expressions whose ground truth contains the symbol."""
    exprate: float
    """Percent of these expressions that are correct; 0 if there are none."""

    @property
    def recall(self) -> float:
        """Percent of the occurrences in the ground truth that were predicted."""
        return 100 * self.correct / self.count if self.count else 0.0

    @property
    def precision(self) -> float:
        """Percent of the predicted occurrences that are correct."""
        return 100 * self.correct / self.predicted if self.predicted else 0.0


@dataclass(frozen=True)
class Confusion:
    """A symbol that was predicted as another one."""

    truth: str | None
    """None for an extra symbol in the prediction."""
    prediction: str | None
    """None for a symbol missing from the prediction."""
    count: int


def score_symbols(predictions: Sequence[Prediction]) -> tuple[SymbolScore, ...]:
    """Score every symbol of the ground truths and predictions, most frequent first."""
    count, correct, predicted, expressions, in_correct = (Counter[str]() for _ in range(5))
    for one in predictions:
        count.update(one.truth)
        predicted.update(one.prediction)
        correct.update(pair.truth for pair in one.pairs if pair.truth and pair.kind == "same")
        expressions.update(set(one.truth))
        in_correct.update(set(one.truth) if one.is_correct else ())
    scores = [
        SymbolScore(
            token, count[token], correct[token], predicted[token], expressions[token],
            exprate=100 * in_correct[token] / max(expressions[token], 1),
        )
        for token in (count | predicted).keys() - _BRACES
    ]  # fmt: skip
    return tuple(sorted(scores, key=lambda score: (-score.count, score.token)))


def count_confusions(predictions: Sequence[Prediction]) -> tuple[Confusion, ...]:
    """Count replaced, missing and extra symbols, most frequent first."""
    counts = Counter(
        (pair.truth, pair.prediction)
        for one in predictions
        for pair in one.pairs
        if pair.kind != "same" and not {pair.truth, pair.prediction} <= {*_BRACES, None}
    )
    found = [Confusion(truth, guess, count) for (truth, guess), count in counts.items()]
    return tuple(sorted(found, key=lambda one: (-one.count, one.truth or "", one.prediction or "")))
