"""The layout tree of an expression: which tokens stand in one row, and what hangs on what.

Nodes point at tokens by their place, so that ink stays tied to the tokens it writes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from posformer.errors import PosformerError

DEEPEST = 100
"""Groups nested deeper than this are refused: no hand writes them."""


class ExpressionError(PosformerError):
    """Tokens that do not form an expression that can be written down."""


@dataclass(frozen=True)
class Symbol:
    """One token with ink of its own."""

    place: int


@dataclass(frozen=True)
class Fraction:
    r"""A numerator over a denominator; the token `\frac` owns the bar."""

    place: int
    upper: Row
    lower: Row


@dataclass(frozen=True)
class Radical:
    r"""A root; the token `\sqrt` owns the radical sign."""

    place: int
    body: Row
    degree: Row | None


@dataclass(frozen=True)
class Scripted:
    """A base (or nothing) with a subscript, a superscript or both.

    A second script of the same kind hangs on nothing.
    """

    base: Item | None
    lower: Row | None
    upper: Row | None
    limits: bool  # written with \limits: the scripts of a big operator


@dataclass(frozen=True)
class Group:
    """A bare `{ … }`: a row that scripts can hang on."""

    row: Row


@dataclass(frozen=True)
class Row:
    """Items that stand side by side on one baseline."""

    items: tuple[Item, ...]


@dataclass(frozen=True)
class Lines:
    """Lines under each other, each a list of cells that `&` keeps apart."""

    lines: tuple[tuple[Row, ...], ...]
    begin: int | None = None  # the tokens of the environment around them, if there is one
    end: int | None = None
    columns: str = ""  # how an array aligns its cells: l, c and r


Item: TypeAlias = Symbol | Fraction | Radical | Scripted | Group | Lines


def parse(tokens: Sequence[str]) -> Lines:
    r"""Read caption tokens as lines of rows.

    Lines are parted by `\\`; an environment (`\begin{…} … \end{…}`) is an item with lines of its
    own.

    Raises:
        ExpressionError: A brace, an operator or a command is without its partner; the text names
            the token and its place.
    """
    return _Reader(tokens).expression()


def rows(tree: Lines) -> Iterator[Row]:
    """All rows of an expression, outer before inner."""
    pending = _inner_rows(tree)
    while pending:
        row = pending.pop(0)
        yield row
        for item in row.items:
            pending.extend(_inner_rows(item))


def row_symbols(row: Row) -> Iterator[int]:
    """Places of the symbols that stand on the baseline of a row itself."""
    for item in row.items:
        base = item.base if isinstance(item, Scripted) else item
        if isinstance(base, Symbol):
            yield base.place
        elif isinstance(base, Group):
            yield from row_symbols(base.row)


def _inner_rows(item: Item) -> list[Row]:
    if isinstance(item, Fraction):
        return [item.upper, item.lower]
    if isinstance(item, Radical):
        return [item.body] if item.degree is None else [item.degree, item.body]
    if isinstance(item, Lines):
        return [row for line in item.lines for row in line]
    if isinstance(item, Group):
        return [row for inner in item.row.items for row in _inner_rows(inner)]
    if isinstance(item, Scripted):
        inner = [] if item.base is None else _inner_rows(item.base)
        return inner + [row for row in (item.lower, item.upper) if row is not None]
    return []


class _Reader:
    """Recursive descent over tokens; `place` is the next token to read."""

    def __init__(self, tokens: Sequence[str]) -> None:
        self.tokens = tokens
        self.place = 0
        self.depth = 0

    def expression(self) -> Lines:
        lines = self.lines()
        if self.peek() is not None:
            raise self.error("nothing it could belong to")
        return lines

    def lines(self) -> Lines:
        lines: list[tuple[Row, ...]] = []
        cells: list[Row] = []
        while True:
            cells.append(self.row(("&", "\\\\")))
            if self.accept("&"):
                continue
            lines.append(tuple(cells))
            cells = []
            if not self.accept("\\\\"):
                return Lines(tuple(lines))

    def row(self, stops: tuple[str, ...]) -> Row:
        items: list[Item] = []
        while (token := self.peek()) is not None:
            if token in stops or token == "}" or token.startswith("\\end{"):
                break
            items.append(self.scripted())
        return Row(tuple(items))

    def environment(self) -> Lines:
        opening = self.place
        self.place += 1
        columns = self.columns() if self.tokens[opening] == "\\begin{array}" else ""
        lines = self.lines()
        if self.peek() != self.tokens[opening].replace("\\begin", "\\end"):
            place = f"token {opening + 1} '{self.tokens[opening]}'"
            raise ExpressionError(f"{place}: an environment that is not closed")
        self.place += 1
        return replace(lines, begin=opening, end=self.place - 1, columns=columns)

    def columns(self) -> str:
        """The letters behind the name of an array, which have no ink."""
        start = self.place
        if self.peek() == "{":
            self.group()
        return "".join(token for token in self.tokens[start : self.place] if token in "lcr")

    def scripted(self) -> Item:
        base = None if self.peek() in ("_", "^") else self.item()
        limits = self.accept("\\limits")
        scripts: dict[str, Row] = {}
        while (token := self.peek()) in ("_", "^") and token not in scripts:
            assert token is not None
            self.place += 1
            scripts[token] = self.argument()
        if not scripts and base is not None:
            return base
        return Scripted(base, scripts.get("_"), scripts.get("^"), limits)

    def item(self) -> Item:
        token, place = self.tokens[self.place], self.place
        if token == "{":
            return Group(self.group())
        if token.startswith("\\begin{"):
            return self.environment()
        if token in ("}", "&", "\\\\", "\\limits"):
            raise self.error("nothing it could belong to")
        self.place += 1
        if token == "\\frac":
            return Fraction(place, self.argument(), self.argument())
        if token == "\\sqrt":
            degree = self.degree()
            return Radical(place, self.argument(), degree)
        return Symbol(place)

    def degree(self) -> Row | None:
        if not self.accept("["):
            return None
        row = self.row(("]",))
        if not self.accept("]"):
            raise self.error("a root's index that is not closed")
        return row

    def argument(self) -> Row:
        token = self.peek()
        if token is None:
            raise self.error("an argument is missing")
        return self.group() if token == "{" else Row((self.item(),))

    def group(self) -> Row:
        self.depth += 1
        if self.depth > DEEPEST:
            raise self.error(f"groups nested deeper than {DEEPEST}")
        opening = self.place
        self.place += 1
        row = self.row(("}",))
        if not self.accept("}"):
            raise ExpressionError(f"token {opening + 1} '{{': a group that is not closed")
        self.depth -= 1
        return row

    def peek(self) -> str | None:
        return self.tokens[self.place] if self.place < len(self.tokens) else None

    def accept(self, token: str) -> bool:
        if self.peek() != token:
            return False
        self.place += 1
        return True

    def error(self, reason: str) -> ExpressionError:
        token = self.peek()
        where = "end of expression" if token is None else f"token {self.place + 1} '{token}'"
        return ExpressionError(f"{where}: {reason}")
