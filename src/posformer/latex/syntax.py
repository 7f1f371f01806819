"""Syntax check of tokens."""

from collections.abc import Sequence

from posformer.errors import LatexError
from posformer.latex.symbols import tokens_of
from posformer.latex.tree import SEPARATORS, Node, Row, parse

LIMITS = r"\limits"
OPERATORS = tokens_of("big", "limit", "function")
_SUSPECTS = frozenset((*SEPARATORS, LIMITS, ""))  # the empty token is a missing base


def is_valid(tokens: Sequence[str]) -> bool:
    """Return whether tokens in caption form are an expression that LaTeX accepts."""
    try:
        check(tokens)
    except LatexError:
        return False
    return True


def check(tokens: Sequence[str]) -> None:
    r"""Check the syntax of tokens in caption form.

    Groups and environments pair up, scripts and commands have as many groups as they need, no base
    has two scripts of a kind, `\limits` stands between an operator and a script, and lines and
    cells end in an environment or outside of all groups.

    Raises:
        LatexError: Names the token at fault and its number.
    """
    has_limits = LIMITS in tokens
    for row in parse(tokens).rows:
        if row.start < 0 and row.owner is not None:
            raise row.owner.error("has too few groups")
        for number, node in enumerate(row.nodes):
            if node.token in _SUSPECTS:
                _check_suspect(node, row, number, tokens)
            elif has_limits and node.limits >= 0:
                _check_limits(node.limits, node)


def _check_suspect(node: Node, row: Row, number: int, tokens: Sequence[str]) -> None:
    if node.token == LIMITS:
        _check_limits(node.index, node)
    elif node.token in SEPARATORS:
        if row.start >= 0 and tokens[row.start] in ("{", "["):
            raise node.error("stands in a group, where no line or cell can end")
    elif number and row.nodes[number - 1].token not in SEPARATORS:
        raise node.scripts[0].error("is the second script of its kind on a base")


def _check_limits(index: int, node: Node) -> None:
    if not node.scripts or node.token not in OPERATORS:
        reason = "does not stand between an operator and a script"
        raise LatexError(reason, LIMITS, index + 1)
