r"""Texts of several lines: systems of equations, derivations, matrices.

A grammar makes the parts, which are sides of equations and cells; environments put them together:

    cases, array, gathered   an equation a line: \begin{cases} x + y = 1 \\ x - y = 2 \end{cases}
    aligned                  the same with `&` before `=`; a derivation has no further left sides
    matrix, pmatrix, …       cells
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from posformer.synthesis.grammar import RELATIONS, Grammar

__all__ = ["ENVIRONMENTS", "arrange", "environment_words"]

_EQUATIONS = ("aligned", "array", "cases", "gathered")
_MATRICES = ("matrix", "pmatrix", "bmatrix", "Bmatrix", "vmatrix", "Vmatrix")

ENVIRONMENTS = frozenset((*_EQUATIONS, *_MATRICES))
"""Environments that texts can be made up for."""

_COLUMNS = ("{", "l", "}")  # an array says how its only column is aligned
_MOST_COLUMNS = 3
_DERIVED = 0.5  # share of the further lines of `aligned` that go on from the line before


def arrange(
    grammar: Grammar,
    environment: str,
    rng: np.random.Generator,
    lines: int,
    max_tokens: int = 60,
) -> list[str]:
    r"""Draw an expression of several lines.

    Args:
        grammar: What draws the parts.
        environment: One of `ENVIRONMENTS`.
        rng: All chance comes from here.
        lines: How many lines, or rows of a matrix.
        max_tokens: Most tokens of a line; a side of an equation has at most half of them.

    Raises:
        DataError: The grammar has no parts that are short enough.
    """
    if environment in _MATRICES:
        columns = int(rng.integers(2, _MOST_COLUMNS + 1))
        longest = max(1, max_tokens // columns)
        rows = [
            _joined([_side(grammar, rng, longest) for _ in range(columns)]) for _ in range(lines)
        ]
    else:
        rows = _equations(grammar, environment, rng, lines, max(1, max_tokens // 2))
    body = [token for row in rows for token in ("\\\\", *row)][1:]
    letters = _COLUMNS if environment == "array" else ()
    return [f"\\begin{{{environment}}}", *letters, *body, f"\\end{{{environment}}}"]


def environment_words(environment: str) -> frozenset[str]:
    """The words that an environment adds to those of its parts."""
    words = {f"\\begin{{{environment}}}", f"\\end{{{environment}}}", "\\\\"}
    if environment in _EQUATIONS:
        words.add("=")
    if environment in _MATRICES or environment == "aligned":
        words.add("&")
    if environment == "array":
        words.update(_COLUMNS)
    return frozenset(words)


def _joined(cells: Sequence[Sequence[str]]) -> list[str]:
    return [token for cell in cells for token in ("&", *cell)][1:]


def _equations(
    grammar: Grammar, environment: str, rng: np.random.Generator, lines: int, longest: int
) -> list[list[str]]:
    aligned = environment == "aligned"
    rows = []
    for number in range(lines):
        derived = aligned and number > 0 and rng.random() < _DERIVED
        left = [] if derived else _side(grammar, rng, longest)
        right = _side(grammar, rng, longest)
        rows.append([*left, *(("&",) if aligned else ()), "=", *right])
    return rows


def _side(grammar: Grammar, rng: np.random.Generator, longest: int) -> list[str]:
    """A line of the grammar up to its first relation."""
    while True:
        side = _before_relation(grammar.sample(rng, max_tokens=longest))
        if side:
            return side


def _before_relation(line: list[str]) -> list[str]:
    depth = 0
    for place, token in enumerate(line):
        if token in RELATIONS and not depth:
            return line[:place]
        depth += (token in _OPENING) - (token in _CLOSING)
    return line


_OPENING = frozenset(("{", "(", "[", "\\{"))
_CLOSING = frozenset(("}", ")", "]", "\\}"))
