"""Syntax check of tokens."""

from collections.abc import Sequence

from posformer.errors import LatexError
from posformer.latex.symbols import tokens_of
from posformer.latex.tree import SEPARATORS, Node, parse

_LIMITS = r"\limits"
_OPERATORS = tokens_of("big", "limit", "function")


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
    for row in parse(tokens).rows:
        previous = None
        in_group = row.start >= 0 and tokens[row.start] in ("{", "[")
        for node in row.nodes:
            if node.arguments or node.scripts or node.limits >= 0 or node.token == _LIMITS:
                _check_node(node, previous)
            elif in_group and node.token in SEPARATORS:
                raise _error(node, "stands in a group, where no line or cell can end")
            previous = node


def _check_node(node: Node, previous: Node | None) -> None:
    limits = node.index if node.token == _LIMITS else node.limits
    if limits >= 0 and not (node.scripts and node.token in _OPERATORS):
        reason = "does not stand between an operator and a script"
        raise LatexError(reason, _LIMITS, limits + 1)
    if node.index < 0 and previous is not None and previous.token not in SEPARATORS:
        raise _error(node.scripts[0], "is the second script of its kind on a base")
    for owner in (node, *node.scripts):
        if any(row.start < 0 for row in owner.arguments):
            raise _error(owner, "has too few groups")


def _error(node: Node, reason: str) -> LatexError:
    return LatexError(reason, node.token, node.index + 1)
