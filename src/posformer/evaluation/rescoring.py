"""Rescoring of n-best lists with a language model."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from posformer.latex import Vocabulary, is_valid
from posformer.search import Hypothesis

if TYPE_CHECKING:
    from posformer.models.language_model import LanguageScorer  # imports PyTorch


@dataclass(frozen=True)
class Rescorer:
    """Ranks hypotheses by `score + weight · score of the language model`.

    Both scores are mean log-probabilities per token. Well-formed hypotheses stay before others.
    """

    scorer: "LanguageScorer"
    weight: float

    @classmethod
    def load(cls, path: Path, weight: float) -> "Rescorer":
        """Load a language model; needs PyTorch."""
        from posformer.models.language_model import LanguageScorer, load_language_model

        return cls(LanguageScorer(*load_language_model(path)), weight)

    def rank(self, hypotheses: Sequence[Hypothesis], vocabulary: Vocabulary) -> list[Hypothesis]:
        """Return the hypotheses of one image, best first; their own scores do not change.

        Args:
            hypotheses: The n-best list.
            vocabulary: The tokens of the recognizer.
        """
        texts = [vocabulary.decode(one.tokens) for one in hypotheses]
        scores = self.scorer.scores(texts)
        totals = [
            one.score + self.weight * score for one, score in zip(hypotheses, scores, strict=True)
        ]
        malformed = [not text or not is_valid(text) for text in texts]
        order = sorted(range(len(texts)), key=lambda number: (malformed[number], -totals[number]))
        return [hypotheses[number] for number in order]
