"""Tokens: LaTeX text cut into its smallest parts, and put together again."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

ENVIRONMENT = re.compile(r"\\(begin|end)\{([A-Za-z]+\*?)\}")

_TOKEN = re.compile(
    r"""
      \\(?P<side>begin|end)\s*\{\s*(?P<name>[A-Za-z]+\*?)\s*\}
    | \\[A-Za-z]+
    | \\[^\sA-Za-z]
    | \S
    """,
    re.VERBOSE,
)
_APART = re.compile(r"\\(begin|end)\s*\{\s*([A-Za-z]+\*?)\s*\}")
_COMMAND_WORD = re.compile(r"\\[A-Za-z]+")

STRUCTURE_TOKENS: frozenset[str] = frozenset({"^", "_", "{", "}", r"\limits", r"\\", "&"})
"""Tokens without ink, beside the environments, which `is_structure` knows by their form."""

_FENCES = {
    "cases": (r"\{", ""),
    "pmatrix": ("(", ")"),
    "bmatrix": ("[", "]"),
    "Bmatrix": (r"\{", r"\}"),
    "vmatrix": ("|", "|"),
    "Vmatrix": ("| |", "| |"),
}

_ESCAPED = {"%": r"\%", "#": r"\#", "$": r"\$"}


@dataclass(frozen=True)
class Lexeme:
    """A token and where it was typed."""

    token: str
    number: int  # 1-based, among the tokens of its text
    column: int | None  # 1-based, in the text; None when there was no text


def scan(text: str) -> Iterator[Lexeme]:
    """Cut a text into tokens that know their place."""
    for number, match in enumerate(_TOKEN.finditer(text), start=1):
        token = match[0]
        if match["side"]:
            token = rf"\{match['side']}{{{match['name']}}}"
        yield Lexeme(token, number, match.start() + 1)


def tokenize(text: str) -> list[str]:
    r"""Cut LaTeX text into raw tokens: commands, single characters, `\begin{…}`, `\end{…}`.

    White space separates and is dropped. Text that is tokenised already, as captions are, comes
    out as its white-space split.
    """
    return [lexeme.token for lexeme in scan(text)]


def split_caption(text: str) -> tuple[str, ...]:
    r"""The tokens of a caption: its white-space split, with `\begin { cases }` as one token."""
    return tuple(_APART.sub(r"\\\1{\2}", text).split())


def is_structure(token: str) -> bool:
    r"""Whether a token is none of the symbols: `^ _ { } \limits \\ &` and environments.

    Nothing is written for it, unless it is an environment with a fence; see `fence_of`.
    """
    return token in STRUCTURE_TOKENS or ENVIRONMENT.fullmatch(token) is not None


def fence_of(token: str) -> tuple[str, ...]:
    r"""The symbols that a token of an environment draws: `\{` for `\begin{cases}`, mostly none."""
    environment = ENVIRONMENT.fullmatch(token)
    if environment is None:
        return ()
    left, right = _FENCES.get(environment[2].rstrip("*"), ("", ""))
    return tuple((left if environment[1] == "begin" else right).split())


def in_lines(tokens: Sequence[str]) -> list[str]:
    r"""Tokens that any LaTeX engine sets in lines.

    A line break outside of all environments, as captions have it, is none in LaTeX's formulas:
    an array around the whole makes it one. An array whose columns nobody named gets them.
    """
    columns, breaks = _widths(tokens)
    named: list[str] = []
    for place, token in enumerate(tokens):
        named.append(token)
        if token == r"\begin{array}" and list(tokens[place + 1 : place + 2]) != ["{"]:
            named += ["{", *"l" * columns.get(place, 1), "}"]
    if not breaks:
        return named
    return [r"\begin{array}", "{", *"l" * columns[_OUTSIDE], "}", *named, r"\end{array}"]


_OUTSIDE = -1


def _widths(tokens: Sequence[str]) -> tuple[dict[int, int], bool]:
    """Most cells in a line of each environment, by its place; whether lines end outside of all."""
    open_places, cells = [_OUTSIDE], [1]
    columns = {_OUTSIDE: 1}
    breaks = False
    for place, token in enumerate(tokens):
        environment = ENVIRONMENT.fullmatch(token)
        if environment and environment[1] == "begin":
            open_places.append(place)
            cells.append(1)
        elif environment and len(cells) > 1:
            del open_places[-1], cells[-1]
        elif token == "&":
            cells[-1] += 1
        elif token == r"\\":
            breaks = breaks or len(cells) == 1
            cells[-1] = 1
        columns[open_places[-1]] = max(columns.get(open_places[-1], 1), cells[-1])
    return columns, breaks


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
            pieces.append("{}")  # else TeX would read a length or a starred line break
        elif token == previous == ".":
            pieces.append(" ")  # three full stops typed together are an ellipsis
        pieces.append(_ESCAPED.get(token, token))
        previous = token
    return "".join(pieces)
