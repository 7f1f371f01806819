"""Alignment of the tokens of a prediction with those of the ground truth."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from rapidfuzz.distance import Postfix, Prefix

from posformer.latex import is_structure

_EDIT = 1000  # more than the cost of all unlikely pairs of an expression
_UNLIKELY = 1


@dataclass(frozen=True)
class Pair:
    """A token of the ground truth and the token predicted for it."""

    truth: str | None
    """None where the prediction has an extra token."""
    prediction: str | None
    """None where the prediction lacks a token."""

    @property
    def kind(self) -> Literal["same", "replaced", "missing", "extra"]:
        """Return how the two differ."""
        if self.truth is None:
            return "extra"
        if self.prediction is None:
            return "missing"
        return "same" if self.truth == self.prediction else "replaced"


def align(truth: Sequence[str], prediction: Sequence[str]) -> tuple[Pair, ...]:
    """Align a prediction with the ground truth, with the fewest differing tokens.

    The number of differing pairs is the edit distance. Ties are broken in favor of the alignment
    that pairs the fewest symbols with braces or scripts, which have no ink.
    """
    first = Prefix.similarity(truth, prediction)
    behind = Postfix.similarity(truth[first:], prediction[first:])
    start, end = truth[:first], truth[len(truth) - behind :]
    there, read = truth[first : len(truth) - behind], prediction[first : len(prediction) - behind]
    return (*map(Pair, start, start), *_walk(there, read), *map(Pair, end, end))


def _costs(truth: Sequence[str], prediction: Sequence[str]) -> list[list[int]]:
    """Return the cost of aligning each prefix of the truth with each prefix of the prediction."""
    costs = [[_EDIT * place for place in range(len(prediction) + 1)]]
    guesses = [(guess, is_structure(guess)) for guess in prediction]
    for token in truth:
        inkless = is_structure(token)
        diagonal, left = costs[-1][0], costs[-1][0] + _EDIT
        row = [left]
        for (guess, inkless_guess), above in zip(guesses, costs[-1][1:], strict=True):
            if token != guess:
                diagonal += _EDIT + (_UNLIKELY if inkless != inkless_guess else 0)
            left = min(diagonal, above + _EDIT, left + _EDIT)
            row.append(left)
            diagonal = above
        costs.append(row)
    return costs


def _walk(truth: Sequence[str], prediction: Sequence[str]) -> list[Pair]:
    """Trace the cheapest alignment back from its end."""
    costs = _costs(truth, prediction)
    pairs: list[Pair] = []
    down, across = len(truth), len(prediction)
    while down or across:
        here = costs[down][across]
        if down and here == costs[down - 1][across] + _EDIT:
            down -= 1
            pairs.append(Pair(truth[down], None))
        elif across and here == costs[down][across - 1] + _EDIT:
            across -= 1
            pairs.append(Pair(None, prediction[across]))
        else:
            down, across = down - 1, across - 1
            pairs.append(Pair(truth[down], prediction[across]))
    return pairs[::-1]
