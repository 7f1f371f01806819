"""Writing an expression tree as text: what the output formats have in common.

A format is a subclass of `TreeText` with two tables, the text of symbols and the templates of
commands with arguments, and a few rules. Nothing recurses, and the length of the text is linear in
the number of tokens, at any depth.
"""

import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import ClassVar

from posformer.latex.macros import SYNONYMS, entries
from posformer.latex.symbols import DELIMITER_PAIRS, fence_of, tokens_of
from posformer.latex.tree import SEPARATORS, Node, Row, parse

Nodes = Sequence[Node]
Part = str | Node | Row | Nodes
"""Text, or a piece of the tree that is still to be written."""

PRIME = r"\prime"
NAMES = tokens_of("function", "limit") | {r"\bmod"}
"""Operators that are written with letters."""

OPENERS = frozenset(opener for opener, closer in DELIMITER_PAIRS.items() if opener != closer)
CLOSERS = frozenset(DELIMITER_PAIRS[opener] for opener in OPENERS)
_CALLABLE = tokens_of("letter", "greek", "function")
_SIGNS = frozenset(("+", "-", r"\pm", r"\mp"))
_BEFORE_SIGN = OPENERS | tokens_of("operator", "relation", "arrow", "punctuation") | {*SEPARATORS}
_NEGATED = tokens_of("relation", "arrow")
_NEGATION = "\N{COMBINING LONG SOLIDUS OVERLAY}"
_SLOT = re.compile(r"([#@]\d)")

# Characters that the normalizer reads as another symbol, or not at all.
_OUTPUT_CHARACTERS = r"""
\epsilon ϵ  \varepsilon ε  \phi ϕ  \varphi φ  \bot ⊥  \surd √  \Vert ‖  \prime ′  \backslash \
\bigtriangleup △  \cdot ⋅  \% %  \# #  \$ $  \_ _  \& &  \{ {  \} }
"""


def table(text: str) -> dict[str, str]:
    """Read a table of tokens, each with its text behind it; two spaces separate entries."""
    return {token: " ".join(words) for token, *words in entries(text)}


def _characters() -> dict[str, str]:
    characters = {token: token.removeprefix("\\") for token in NAMES}
    for spelling, tokens in SYNONYMS.items():
        if len(tokens) == 1 and not spelling.isascii() and tokens[0].startswith("\\"):
            characters.setdefault(tokens[0], spelling)
    return characters | table(_OUTPUT_CHARACTERS) | {r"\not": f" {_NEGATION}"}


CHARACTERS: Mapping[str, str] = _characters()
"""The Unicode text of every symbol that is a command: its first Unicode spelling in `macros`."""


def is_number(token: str) -> bool:
    """Return whether a token is a part of a number."""
    return token.isdecimal() or token == "."


def is_plain(nodes: Nodes) -> bool:
    """Return whether nodes are one symbol, or one number, without scripts."""
    if any(node.arguments or node.scripts or node.token in SEPARATORS for node in nodes):
        return False
    return len(nodes) == 1 or (bool(nodes) and all(is_number(node.token) for node in nodes))


def is_primes(row: Row) -> bool:
    """Return whether a row consists of primes."""
    return bool(row.nodes) and all(node.token == PRIME and not node.scripts for node in row.nodes)


def is_sign(nodes: Nodes, number: int) -> bool:
    """Return whether a node is the sign of what follows, and not an operator between two terms."""
    if nodes[number].token not in _SIGNS or nodes[number].scripts:
        return False
    return number == 0 or nodes[number - 1].token in _BEFORE_SIGN


def unpaired_delimiters(nodes: Nodes) -> set[int]:
    """Return the indices of the tokens that open or close nothing; any closer fits any opener."""
    opened: list[int] = []
    unpaired: set[int] = set()
    for node in nodes:
        if node.token in OPENERS:
            opened.append(node.index)
        elif node.token in CLOSERS:
            if opened:
                opened.pop()
            else:
                unpaired.add(node.index)
    return unpaired.union(opened)


def fences(environment: Node) -> tuple[str, str]:
    """Return the characters before and behind the lines of an environment; "" for none."""
    sides = environment.token, environment.token.replace(r"\begin", r"\end")
    left, right = ("".join(CHARACTERS.get(one, one) for one in fence_of(side)) for side in sides)
    return left, right


def interleave(parts: Iterable[Part], separator: str) -> Iterator[Part]:
    """Yield parts with a separator between them."""
    for number, part in enumerate(parts):
        if number:
            yield separator
        yield part


class TreeText(ABC):
    """Writes an expression tree as text in one format.

    Attributes:
        symbols: The text of symbols; others are written as their Unicode character.
        templates: The text of commands with arguments. `#1` stands for the first argument, `@1`
            for the same in parentheses unless it is plain, and 0 for the optional argument. The
            template behind the name of a command and `[` is used if there is an optional argument.
    """

    symbols: ClassVar[Mapping[str, str]]
    templates: ClassVar[Mapping[str, str]]

    def write(self, tokens: Sequence[str]) -> str:
        """Return the text of tokens in caption form, which may be malformed."""
        root = parse(tokens, lenient=True).root
        pieces: list[str] = []
        stack: list[Part] = [*reversed([*self.expression(root)])]
        while stack:
            part = stack.pop()
            if isinstance(part, str):
                pieces.append(part)
                continue
            if isinstance(part, Node):
                parts = [*self.base(part), *self.scripts(part)]
            else:
                parts = [*self.line(part.nodes if isinstance(part, Row) else part)]
            stack += reversed(parts)
        return "".join(pieces)

    @abstractmethod
    def expression(self, root: Row) -> Iterable[Part]:
        """Return the parts of the whole expression, which may have lines and cells."""

    @abstractmethod
    def environment(self, node: Node) -> Iterable[Part]:
        """Return the parts of an environment."""

    @abstractmethod
    def scripts(self, node: Node) -> Iterable[Part]:
        """Return the parts of the scripts of a node, behind its base."""

    @abstractmethod
    def literal(self, text: str) -> str:
        """Return text that the format must not interpret."""

    def symbol(self, token: str) -> str:
        """Return the text of a symbol."""
        if token in self.symbols:
            return self.symbols[token]
        if token in CHARACTERS or len(token) < 2:
            return CHARACTERS.get(token, token)
        return self.literal(token)

    def base(self, node: Node) -> Iterable[Part]:
        """Return the parts of a node without its scripts."""
        if node.is_environment:
            return self.environment(node)
        if template := self._template(node):
            return self.filled(template, node)
        return node.arguments or (self.symbol(node.token),)

    def _template(self, node: Node) -> str | None:
        with_option = self.templates.get(f"{node.token}[") if node.option else None
        return with_option or (self.templates.get(node.token) if node.arguments else None)

    def filled(self, template: str, node: Node) -> Iterator[Part]:
        """Yield the parts of a template with the arguments of a node."""
        rows = [node.option, *node.arguments]
        for piece in _SLOT.split(template):
            if not _SLOT.fullmatch(piece):
                yield piece
            elif row := rows[int(piece[1])]:
                yield from self.grouped(row) if piece[0] == "@" else self.argument(row)

    def argument(self, row: Row) -> Iterable[Part]:
        """Return the parts of an argument."""
        return (row,)

    def grouped(self, row: Row) -> Iterable[Part]:
        """Return the parts of an argument, in parentheses unless it is plain."""
        return (row,) if is_plain(row.nodes) else ("(", *self.argument(row), ")")

    def line(self, nodes: Nodes, whole: bool = False) -> Iterator[Part]:
        """Yield the parts of nodes that stand side by side.

        Args:
            nodes: The nodes.
            whole: Whether they are a line of the whole expression, and not inside of anything.
        """
        marked = self.marked(nodes, whole)
        for number, node in enumerate(nodes):
            if number and not is_sign(nodes, number - 1):
                yield self.space(nodes[number - 1], node)
            if node.index in marked:
                yield marked[node.index]
                yield from self.scripts(node)
            else:
                yield node

    def marked(self, nodes: Nodes, whole: bool) -> dict[int, str]:
        """Return the text of symbols that mean something else where they stand, by their index."""
        unpaired = unpaired_delimiters(nodes)
        texts = {
            node.index: self.literal(CHARACTERS.get(node.token, node.token))
            for node in nodes
            if node.index in unpaired
        }
        for negation, node in pairwise(nodes):
            if negation.token == r"\not" and node.token in _NEGATED and not negation.scripts:
                texts[negation.index] = ""
                texts[node.index] = f"{CHARACTERS.get(node.token, node.token)}{_NEGATION}"
        return texts

    def space(self, left: Node, right: Node) -> str:
        """Return what stands between two nodes: a space, except where people write none."""
        token = right.token
        if left.token == r"\not" and not left.scripts:
            return ""
        if token in CLOSERS or token in (",", ";", "!"):
            return ""
        if left.scripts:
            return " "
        if left.token in OPENERS or (is_number(left.token) and is_number(token)):
            return ""
        return "" if token == "(" and left.token in _CALLABLE else " "
