r"""What kind of mistake a prediction makes: symbols or structure, too many symbols or too few.

Symbols are the tokens with ink, in their order. The structure is what remains when every run of
symbols is taken for one: scripts, groups, fractions, roots, lines. `\frac` and `\sqrt` are both.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from posformer.evaluation.predictions import Prediction
from posformer.latex import is_structure, is_valid
from posformer.latex.grammar import SUBSTRUCTURES

__all__ = ["ErrorCounts", "Mistake", "count_errors", "find_mistake"]

_SYMBOLS = ""  # stands for a run of symbols; no token is empty


@dataclass(frozen=True)
class Mistake:
    """How a prediction differs from the truth."""

    symbols: bool
    """Whether the symbols, read in their order, are wrong."""
    structure: bool
    """Whether the structure is wrong, or a right symbol stands in a wrong place of it."""
    surplus: int
    """How many symbols more than the truth has were predicted; negative for fewer."""
    well_formed: bool
    """Whether the prediction is LaTeX that renders."""

    @property
    def kind(self) -> Literal["symbols", "structure", "both"]:
        """What is wrong."""
        if self.symbols and self.structure:
            return "both"
        return "symbols" if self.symbols else "structure"

    @property
    def parsing(self) -> Literal["over", "under", "even"]:
        """Over-parsing finds symbols that are not there, under-parsing leaves some out."""
        if self.surplus == 0:
            return "even"
        return "over" if self.surplus > 0 else "under"


@dataclass(frozen=True)
class ErrorCounts:
    """How many predictions make which kind of mistake."""

    wrong: int
    symbols: int
    """Only the symbols are wrong."""
    structure: int
    """Only the structure is."""
    both: int
    over: int
    """Too many symbols."""
    under: int
    """Too few."""
    even: int
    """As many as there are, but not the right ones or not in the right place."""
    malformed: int
    """No LaTeX that renders; an empty prediction is none."""


def find_mistake(truth: Sequence[str], prediction: Sequence[str]) -> Mistake | None:
    """Tell how a prediction differs from the truth; None when it does not."""
    if tuple(truth) == tuple(prediction):
        return None
    there, read = _symbols(truth), _symbols(prediction)
    wrong_symbols = there != read
    return Mistake(
        symbols=wrong_symbols,
        # With all symbols right some must stand elsewhere: `a ^ { b c }` for `a b ^ { c }`.
        structure=not wrong_symbols or _structure(truth) != _structure(prediction),
        surplus=len(read) - len(there),
        well_formed=bool(prediction) and is_valid(prediction),
    )


def count_errors(predictions: Iterable[Prediction]) -> ErrorCounts:
    """Count the mistakes of many predictions by their kinds."""
    found = [find_mistake(one.truth, one.prediction) for one in predictions]
    mistakes = [mistake for mistake in found if mistake is not None]
    kinds = [mistake.kind for mistake in mistakes]
    parsings = [mistake.parsing for mistake in mistakes]
    return ErrorCounts(
        wrong=len(mistakes),
        symbols=kinds.count("symbols"),
        structure=kinds.count("structure"),
        both=kinds.count("both"),
        over=parsings.count("over"),
        under=parsings.count("under"),
        even=parsings.count("even"),
        malformed=sum(not mistake.well_formed for mistake in mistakes),
    )


def _symbols(tokens: Sequence[str]) -> list[str]:
    return [token for token in tokens if not is_structure(token)]


def _structure(tokens: Sequence[str]) -> list[str]:
    kept: list[str] = []
    for token in tokens:
        if is_structure(token) or token in SUBSTRUCTURES:
            kept.append(token)
        elif kept[-1:] != [_SYMBOLS]:
            kept.append(_SYMBOLS)
    return kept
