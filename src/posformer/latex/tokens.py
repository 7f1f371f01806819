"""LaTeX text to tokens and back."""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from posformer.errors import LatexError
from posformer.latex.tree import Row, parse

_ENVIRONMENT = re.compile(r"\\(begin|end)\s*\{\s*([A-Za-z]+\*?)\s*\}")
_TOKEN = re.compile(rf"{_ENVIRONMENT.pattern}|\\[A-Za-z]+|\\[^\sA-Za-z]|\S")
_COMMAND_WORD = re.compile(r"\\[A-Za-z]+")

_ESCAPED = {"%": r"\%", "#": r"\#", "$": r"\$"}


@dataclass(frozen=True)
class Lexeme:
    """A token and its position in the text."""

    token: str
    number: int  # 1-based, among the tokens of its text
    column: int | None  # 1-based, in the text; None if there was no text

    def replaced(self, tokens: Iterable[str]) -> "list[Lexeme]":
        """Return lexemes with other tokens in the place of this one."""
        return [Lexeme(token, self.number, self.column) for token in tokens]

    def error(self, reason: str) -> LatexError:
        """Return an error that names the token and its position."""
        return LatexError(reason, self.token, self.number, self.column)


def scan(text: str) -> Iterator[Lexeme]:
    """Split a text into tokens with their positions."""
    for number, match in enumerate(_TOKEN.finditer(text), start=1):
        token = rf"\{match[1]}{{{match[2]}}}" if match[1] else match[0]
        yield Lexeme(token, number, match.start() + 1)


def tokenize(text: str) -> list[str]:
    r"""Split LaTeX text into raw tokens: commands, single characters, `\begin{…}`, `\end{…}`.

    White space separates and is dropped. Text that is tokenised already, as captions are, comes
    out as its white-space split.
    """
    return [lexeme.token for lexeme in scan(text)]


def split_caption(text: str) -> tuple[str, ...]:
    r"""Split a caption at white space, with `\begin { cases }` as one token."""
    return tuple(_ENVIRONMENT.sub(r"\\\1{\2}", text).split())


def in_lines(tokens: Sequence[str]) -> list[str]:
    r"""Return tokens that any LaTeX engine sets in lines.

    LaTeX ignores a line break outside of environments, which captions may have: an array is put
    around such tokens. An array without column letters gets them.
    """
    tree = parse(tokens, lenient=True)
    named = {  # column letters by the index of their array
        owner.index: _columns(row)
        for row in tree.rows
        if (owner := row.owner) and owner.token == r"\begin{array}" and owner.option is None
    }
    inside = [part for index, token in enumerate(tokens) for part in (token, *named.get(index, ()))]
    if not any(node.token == r"\\" for node in tree.root.nodes):
        return inside
    return [r"\begin{array}", *_columns(tree.root), *inside, r"\end{array}"]


def _columns(row: Row) -> list[str]:
    return ["{", *"l" * max(map(len, row.lines)), "}"]


def to_latex(tokens: Sequence[str]) -> str:
    r"""Join tokens into text that any LaTeX engine renders, with a space only where one is needed.

    A space stands between a command and a letter (`\sin x`); characters that mean something else
    to TeX are escaped.
    """
    pieces: list[str] = []
    previous = ""
    for token in tokens:
        if token[:1].isalpha() and _COMMAND_WORD.fullmatch(previous):
            pieces.append(" ")
        elif previous == r"\\" and token in ("[", "*"):
            pieces.append("{}")  # otherwise TeX reads a length or a starred line break
        elif token == previous == ".":
            pieces.append(" ")  # three full stops typed together are an ellipsis
        pieces.append(_ESCAPED.get(token, token))
        previous = token
    return "".join(pieces)
