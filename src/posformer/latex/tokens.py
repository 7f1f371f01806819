"""Tokens: LaTeX text cut into its smallest parts, and put together again."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

ENVIRONMENT = re.compile(r"\\(begin|end)\{([A-Za-z]+\*?)\}")

_TOKEN = re.compile(
    r"""
      \\(?P<side>begin|end)\s*\{(?P<name>[A-Za-z]+\*?)\}
    | \\[A-Za-z]+
    | \\[^\sA-Za-z]
    | \S
    """,
    re.VERBOSE,
)
_COMMAND_WORD = re.compile(r"\\[A-Za-z]+")

STRUCTURE_TOKENS: frozenset[str] = frozenset({"^", "_", "{", "}", r"\limits", r"\\", "&"})
"""Tokens without ink, beside the environments, which `is_structure` knows by their form."""

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


def is_structure(token: str) -> bool:
    r"""Whether a token has no ink of its own: `^ _ { } \limits \\ &` and environments."""
    return token in STRUCTURE_TOKENS or ENVIRONMENT.fullmatch(token) is not None


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
