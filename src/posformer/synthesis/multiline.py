r"""Multi-line texts: systems of equations, derivations, matrices.

A grammar generates sides of equations and cells; environments combine them:

    cases, array, gathered   one equation per line: \begin{cases} x = 1 \\ y = 2 \end{cases}
    aligned                  the same with `&` before `=`; derivations omit further left sides
    matrix, pmatrix, …       cells
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from posformer.synthesis.grammar import RELATIONS, Grammar

__all__ = ["ENVIRONMENTS", "arrange", "environment_tokens"]

_EQUATIONS = ("aligned", "array", "cases", "gathered")
_MATRICES = ("matrix", "pmatrix", "bmatrix", "Bmatrix", "vmatrix", "Vmatrix")

ENVIRONMENTS = frozenset((*_EQUATIONS, *_MATRICES))
"""The supported environments."""

_COLUMNS = ("{", "l", "}")  # column specification of an array
_MAX_COLUMNS = 3
_DERIVED = 0.5  # share of the further lines of `aligned` without a left side


def arrange(
    grammar: Grammar,
    environment: str,
    rng: np.random.Generator,
    lines: int,
    max_tokens: int = 60,
) -> list[str]:
    r"""Sample a multi-line expression.

    Args:
        grammar: Generates the parts.
        environment: One of `ENVIRONMENTS`.
        rng: Random generator.
        lines: Number of lines, or of rows of a matrix.
        max_tokens: Maximum number of tokens per line; half of it per side of an equation.

    Raises:
        DataError: If the grammar cannot generate parts that are short enough.
    """
    if environment in _MATRICES:
        columns = int(rng.integers(2, _MAX_COLUMNS + 1))
        longest = max(1, max_tokens // columns)
        rows = [
            _join_cells([_side(grammar, rng, longest) for _ in range(columns)])
            for _ in range(lines)
        ]
    else:
        rows = _equations(grammar, environment, rng, lines, max(1, max_tokens // 2))
    body = [token for row in rows for token in ("\\\\", *row)][1:]
    columns_spec = _COLUMNS if environment == "array" else ()
    return [f"\\begin{{{environment}}}", *columns_spec, *body, f"\\end{{{environment}}}"]


def environment_tokens(environment: str) -> frozenset[str]:
    """Return the tokens that an environment adds to those of its parts."""
    tokens = {f"\\begin{{{environment}}}", f"\\end{{{environment}}}", "\\\\"}
    if environment in _EQUATIONS:
        tokens.add("=")
    if environment in _MATRICES or environment == "aligned":
        tokens.add("&")
    if environment == "array":
        tokens.update(_COLUMNS)
    return frozenset(tokens)


def _join_cells(cells: Sequence[Sequence[str]]) -> list[str]:
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
    """Return a line of the grammar up to its first relation."""
    while True:
        side = _before_relation(grammar.sample(rng, max_tokens=longest))
        if side:
            return side


def _before_relation(line: list[str]) -> list[str]:
    depth = 0
    for index, token in enumerate(line):
        if token in RELATIONS and not depth:
            return line[:index]
        depth += (token in _OPENING) - (token in _CLOSING)
    return line


_OPENING = frozenset(("{", "(", "[", "\\{"))
_CLOSING = frozenset(("}", ")", "]", "\\}"))
