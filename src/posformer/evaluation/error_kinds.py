r"""Error analysis: wrong symbols or wrong structure, over-parsing or under-parsing.

Symbols are the tokens with ink, in order. The structure is what remains when every run of symbols
is replaced by one placeholder: scripts, groups, fractions, roots, lines. `\frac` and `\sqrt` count
as both.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from typing import Literal

from posformer.evaluation.predictions import Prediction
from posformer.latex import is_structure, is_valid
from posformer.latex.symbols import SIGNATURES

_STRUCTURES = frozenset(token for token, (positions, _) in SIGNATURES.items() if positions != ".")
_SYMBOLS = ""  # placeholder for a run of symbols; no token is empty


@dataclass(frozen=True)
class ErrorAnalysis:
    """How a wrong prediction differs from the ground truth."""

    symbols: bool
    """Whether the sequence of symbols is wrong."""
    structure: bool
    """Whether the structure is wrong, or a correct symbol is in the wrong part of it."""
    surplus: int
    """Number of predicted symbols minus the number in the ground truth."""
    well_formed: bool
    """Whether the prediction is well-formed LaTeX."""

    @property
    def kind(self) -> Literal["symbols", "structure", "both"]:
        """Return which of symbols and structure are wrong."""
        if self.symbols and self.structure:
            return "both"
        return "symbols" if self.symbols else "structure"

    @property
    def parsing(self) -> Literal["over", "under", "even"]:
        """Return whether there are too many symbols (over-parsing) or too few (under-parsing)."""
        if self.surplus == 0:
            return "even"
        return "over" if self.surplus > 0 else "under"

    @property
    def kinds(self) -> tuple[str, ...]:
        """Return the fields of `ErrorCounts` that count the error, apart from `wrong`."""
        return (self.kind, self.parsing, *([] if self.well_formed else ["malformed"]))


@dataclass(frozen=True)
class ErrorCounts:
    """Number of wrong predictions by kind of error."""

    wrong: int
    symbols: int
    """Only the symbols are wrong."""
    structure: int
    """Only the structure is wrong."""
    both: int
    over: int
    """Too many symbols."""
    under: int
    """Too few symbols."""
    even: int
    """The right number of symbols."""
    malformed: int
    """Not well-formed LaTeX; includes empty predictions."""


def analyze_error(truth: Sequence[str], prediction: Sequence[str]) -> ErrorAnalysis | None:
    """Return how a prediction differs from the ground truth, or None if it is correct."""
    if tuple(truth) == tuple(prediction):
        return None
    expected, predicted = _symbols(truth), _symbols(prediction)
    wrong_symbols = expected != predicted
    return ErrorAnalysis(
        symbols=wrong_symbols,
        # With all symbols correct, some must be misplaced: `a ^ { b c }` for `a b ^ { c }`.
        structure=not wrong_symbols or _structure(truth) != _structure(prediction),
        surplus=len(predicted) - len(expected),
        well_formed=bool(prediction) and is_valid(prediction),
    )


def count_errors(predictions: Iterable[Prediction]) -> ErrorCounts:
    """Count wrong predictions by kind of error."""
    found = [analyze_error(one.truth, one.prediction) for one in predictions]
    counts = Counter(kind for error in found if error for kind in ("wrong", *error.kinds))
    return ErrorCounts(**{field.name: counts[field.name] for field in fields(ErrorCounts)})


def _symbols(tokens: Sequence[str]) -> list[str]:
    return [token for token in tokens if not is_structure(token)]


def _structure(tokens: Sequence[str]) -> list[str]:
    structure: list[str] = []
    for token in tokens:
        if is_structure(token) or token in _STRUCTURES:
            structure.append(token)
        elif structure[-1:] != [_SYMBOLS]:
            structure.append(_SYMBOLS)
    return structure
