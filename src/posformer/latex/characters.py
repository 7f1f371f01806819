r"""Characters as people type them: Unicode to LaTeX, comments, roots written with `√`.

The output is LaTeX again, cut into lexemes that remember where they were typed.
"""

import re
import unicodedata
from collections.abc import Iterable, Iterator
from functools import reduce

from posformer.errors import LatexError
from posformer.latex.macros import SYNONYMS, entries
from posformer.latex.tokens import Lexeme, scan, tokenize

_SIGNS = r"""′’‘ '  ″“”" ''  ‴ '''  ⁗ ''''  ‖ \|  % \%  ° \degree  ℃ \degree{}C  ℉ \degree{}F"""
NAMED: dict[str, str] = {
    **{sign: " ".join(tokens) for sign, tokens in SYNONYMS.items() if not sign.isascii()},
    **{sign: latex for signs, latex in entries(_SIGNS) for sign in signs},
}
"""Characters and the LaTeX they stand for."""

_MARKS = (
    "\u0300\u0301\u0302\u0303\u0304\u0305\u0306\u0307\u0308\u030a\u030c\u0332\u20d1\u20d7\u20db"
)
_ACCENTS = (
    "grave acute hat tilde bar overline breve dot ddot mathring check underline vec vec dddot"
)
_COMBINING = dict(zip(_MARKS, _ACCENTS.split(), strict=True))
_NEGATION = "\u0338"
_STYLES = {"DOUBLE-STRUCK": "bb", "SCRIPT": "cal", "FRAKTUR": "frak", "BLACK-LETTER": "frak"}
_INVISIBLE = "\u00ad\u200b\u200c\u200d\u2060\u2061\u2062\u2063\u2064\ufe00\ufe0e\ufe0f\ufeff"
_ROOTS = {"√": r"\sqrt", "∛": r"\sqrt[3]", "∜": r"\sqrt[4]"}
_ELLIPSIS = re.compile(r"\.\.\.")
_NUMBER = re.compile(r"[\d.]+")
_PERCENT = re.compile(r"\\.|%", re.DOTALL)


def lexemes(source: str | Iterable[str]) -> list[Lexeme]:
    """Split text, or tokens, as people type them into lexemes of plain LaTeX.

    Raises:
        LatexError: A character has no LaTeX; names it and its place.
    """
    if isinstance(source, str):
        text = _without_comments(source)
        return list(_Expander(list(scan(text)), text).lexemes())
    raw = [
        Lexeme(part.token, number, None)
        for number, token in enumerate(source, start=1)
        for part in scan(token)
    ]
    return list(_Expander(raw).lexemes())


def _without_comments(text: str) -> str:
    """Replace comments by spaces, which keeps the columns."""
    pieces = []
    done = 0
    for match in _PERCENT.finditer(text):
        at = match.start()
        line_break = text.find("\n", at)
        end = len(text) if line_break < 0 else line_break
        if at >= done and match[0] == "%" and not _is_percent_sign(text, at, end):
            pieces += [text[done:at], " " * (end - at)]
            done = end
    return "".join(pieces) + text[done:]


def _is_percent_sign(text: str, at: int, end_of_line: int) -> bool:
    """Return whether `%` is the sign, as in `50%`, and not the start of a comment."""
    rest = text[at + 1 : end_of_line].strip()
    if not text[:at].rstrip()[-1:].isdecimal():
        return False
    return not rest[0].isalpha() if rest else end_of_line == len(text)


class _Expander:
    """Replaces lexemes that are not LaTeX by LaTeX."""

    def __init__(self, raw: list[Lexeme], text: str = "") -> None:
        self.raw = raw
        self.text = text  # if the lexemes have columns
        self.at = 0
        self.closers: list[str] = []  # of the open parentheses; `}` for that of `√(`

    def lexemes(self) -> Iterator[Lexeme]:
        while self.at < len(self.raw):
            lexeme = self.raw[self.at]
            try:
                latex = self._latex()
            except LatexError as fault:
                place = self.raw[self.at]
                raise LatexError(fault.reason, fault.token, place.number, place.column) from None
            yield from lexeme.replaced(tokenize(latex))

    def _next(self) -> str:
        return self.raw[self.at].token if self.at < len(self.raw) else ""

    def _latex(self) -> str:
        """Consume the next characters and return their LaTeX; an error belongs to the next one."""
        token = self._next()
        if token in _ROOTS:
            return self._root()
        if script := _script_of(token):
            return self._script_run(script)
        if token == "." and self._typed(_ELLIPSIS):
            return r"\ldots"
        latex = _latex_of(token)
        self.at += 1
        if token == "(":
            self.closers.append(")")
            return token
        if token == ")":
            return self.closers.pop() if self.closers else token
        return self._accented(latex)

    def _root(self) -> str:
        """Read a root: a whole number or parenthesis is the radicand of `√12` and `√(a + b)`."""
        command = _ROOTS[self._next()]
        self.at += 1
        if self._next() == "(":
            self.at += 1
            self.closers.append("}")
            return command + "{"
        radicand = self._typed(_NUMBER)
        return f"{command}{{{radicand}}}" if radicand else command

    def _typed(self, pattern: re.Pattern[str]) -> str:
        """Consume and return the characters that match a pattern and were typed without a space."""
        column = self.raw[self.at].column if self.at < len(self.raw) else None
        match = pattern.match(self.text, column - 1) if column is not None else None
        found = match[0] if match else ""
        self.at += len(found)
        return found

    def _script_run(self, script: str) -> str:
        content: list[str] = []
        while _script_of(self._next()) == script:
            content += map(_latex_of, unicodedata.normalize("NFKC", self._next()))
            self.at += 1
        return f"{script}{{{' '.join(content)}}}"

    def _accented(self, latex: str) -> str:
        while unicodedata.combining(self._next()[:1] or " "):
            latex = _with_mark(latex, self._next())
            self.at += 1
        return latex


def _is_latex(token: str) -> bool:
    return token.isascii() or token.startswith("\\")


def _script_of(token: str) -> str:
    kind = "" if _is_latex(token) else unicodedata.decomposition(token).partition(" ")[0]
    return {"<super>": "^", "<sub>": "_"}.get(kind, "")


def _with_mark(latex: str, mark: str) -> str:
    if mark == _NEGATION:
        return rf"\not {latex}"
    if mark not in _COMBINING:
        raise _no_latex(mark)
    return rf"\{_COMBINING[mark]}{{{latex}}}"


def _latex_of(token: str) -> str:
    """Return the LaTeX of a single token."""
    if token in NAMED:
        return NAMED[token]
    if _is_latex(token):
        return token
    return "" if token in _INVISIBLE else _from_unicode_data(token)


def _from_unicode_data(character: str) -> str:
    kind = unicodedata.decomposition(character).partition(" ")[0]
    plain = unicodedata.normalize("NFKC", character)
    if kind == "<fraction>":
        numerator, _, denominator = plain.partition("⁄")
        return rf"\frac{{{numerator}}}{{{denominator}}}" if denominator else f"{numerator}/"
    if kind == "<circle>":
        return rf"\textcircled{{{plain}}}"
    if kind == "<font>":
        return _styled(character, plain)
    if kind.startswith("<"):
        return " ".join(_latex_of(part) for part in plain if part.strip())
    base, *marks = list(unicodedata.normalize("NFD", character))
    if marks and base.isascii() and all(mark in _COMBINING for mark in marks):
        return reduce(_with_mark, marks, base)
    if base != character and not marks:  # the signs for kelvin and ohm
        return _latex_of(base)
    if character.isalpha():
        return character
    raise _no_latex(character)


def _styled(character: str, plain: str) -> str:
    name = unicodedata.name(character)
    latex = NAMED.get(plain, plain)
    for style, font in _STYLES.items():
        if style in name and "DOUBLE-STRUCK ITALIC" not in name:  # the d of integrals
            return rf"\math{font}{{{latex}}}"
    return latex


def _no_latex(character: str) -> LatexError:
    name = unicodedata.name(character, f"U+{ord(character):04X}")
    return LatexError(f"is not a mathematical character ({name})", character)
