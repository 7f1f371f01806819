"""Which token of a prediction stands for which token of the truth."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from rapidfuzz.distance import Levenshtein

__all__ = ["Pair", "align"]


@dataclass(frozen=True)
class Pair:
    """A token of the truth and the token that was predicted for it."""

    truth: str | None
    """None where the prediction has a token too many."""
    prediction: str | None
    """None where the prediction lacks a token."""

    @property
    def kind(self) -> Literal["same", "replaced", "missing", "extra"]:
        """What became of the token of the truth."""
        if self.truth is None:
            return "extra"
        if self.prediction is None:
            return "missing"
        return "same" if self.truth == self.prediction else "replaced"


def align(truth: Sequence[str], prediction: Sequence[str]) -> tuple[Pair, ...]:
    """Lay a prediction beside the truth with the fewest tokens that differ.

    The number of pairs that are not the same is the edit distance.
    """
    pairs: list[Pair] = []
    for step in Levenshtein.opcodes(truth, prediction):
        there: list[str | None] = list(truth[step.src_start : step.src_end])
        read: list[str | None] = list(prediction[step.dest_start : step.dest_end])
        missing: list[str | None] = [None] * abs(len(there) - len(read))
        if len(there) < len(read):
            there += missing
        else:
            read += missing
        pairs += map(Pair, there, read)
    return tuple(pairs)
