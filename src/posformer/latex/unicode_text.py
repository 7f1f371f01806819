"""LaTeX as one line of Unicode text, such as `x² + √(a + b)`."""

import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import ClassVar

from posformer.latex.symbols import SYMBOLS, tokens_of
from posformer.latex.tree import Node, Row
from posformer.latex.tree_text import (
    CLOSERS,
    NAMES,
    OPENERS,
    Nodes,
    Part,
    TreeText,
    fences,
    is_plain,
    is_primes,
    table,
)

_RAISED = "⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻⁼⁽⁾ⁱⁿᵃᵇᶜᵈᵉᶠᵍʰʲᵏˡᵐᵒᵖʳˢᵗᵘᵛʷˣʸᶻᴬᴮᴰᴱᴳᴴᴵᴶᴷᴸᴹᴺᴼᴾᴿᵀᵁⱽᵂᵝᵞᵟᶿᵡ"
_LOWERED = "₀₁₂₃₄₅₆₇₈₉₊₋₌₍₎ₐₑₒₓₕₖₗₘₙₚₛₜᵢⱼᵣᵤᵥᵦᵧᵨᵪ"
_SCRIPTS = {
    operator: {unicodedata.normalize("NFKC", one): one for one in characters}
    for operator, characters in {"^": _RAISED, "_": _LOWERED}.items()
}
_ROOTS = {"3": "∛", "4": "∜"}
_DEGREE = {r"\circ": "°"}
_MARKS = {
    r"\grave": "\u0300",
    r"\acute": "\u0301",
    r"\hat": "\u0302",
    r"\widehat": "\u0302",
    r"\tilde": "\u0303",
    r"\widetilde": "\u0303",
    r"\bar": "\u0304",
    r"\overline": "\u0305",
    r"\breve": "\u0306",
    r"\dot": "\u0307",
    r"\ddot": "\u0308",
    r"\mathring": "\u030a",
    r"\check": "\u030c",
    r"\underline": "\u0332",
    r"\vec": "\u20d7",
    r"\overrightarrow": "\u20d7",
    r"\dddot": "\u20db",
}
_FONTS = {
    r"\mathbb": ("DOUBLE-STRUCK",),
    r"\mathcal": ("SCRIPT",),
    r"\mathscr": ("SCRIPT",),
    r"\mathfrak": ("FRAKTUR", "BLACK-LETTER"),
}
_TEMPLATES = r"""
\frac @1/@2  \dfrac @1/@2  \tfrac @1/@2  \cfrac @1/@2
\binom binom(#1, #2)  \dbinom binom(#1, #2)  \tbinom binom(#1, #2)
\sqrt √@1  \sqrt[ root(#0, #1)  \root root(#0, #1)  \root[ root(#0, #1)
\stackrel @2^@1  \overset @2^@1  \underset @2_@1  \textcircled (#1)
\mathbb #1  \mathcal #1  \mathfrak #1  \mathscr #1
\xrightarrow →^(#1)  \xrightarrow[ →_(#0)^(#1)  \xleftarrow ←^(#1)  \xleftarrow[ ←_(#0)^(#1)
\xleftrightarrow ↔^(#1)  \xleftrightarrow[ ↔_(#0)^(#1)  \xRightarrow ⇒^(#1)
\xRightarrow[ ⇒_(#0)^(#1)  \xLeftarrow ⇐^(#1)  \xLeftarrow[ ⇐_(#0)^(#1)  \xlongequal =^(#1)
\xlongequal[ =_(#0)^(#1)
"""
_BINARY = tokens_of("operator", "relation", "arrow")
_COMPOUND = tokens_of("fraction", "root", "stack", "longarrow")
_FRACTIONS = tokens_of("fraction")
_PREFIX = tokens_of("function", "limit", "big")


class _UnicodeText(TreeText):
    symbols: ClassVar[Mapping[str, str]] = {"-": "−", r"\limits": ""}
    templates: ClassVar[Mapping[str, str]] = {
        **{token: f"{token[1:]}(#1)" for token in tokens_of("accent")},
        **table(_TEMPLATES),
    }

    def literal(self, text: str) -> str:
        return text

    def expression(self, root: Row) -> Iterator[Part]:
        return self._lines(root, " ")

    def environment(self, node: Node) -> Iterator[Part]:
        left, right = fences(node)
        yield left
        yield from self._lines(node.arguments[0], ", " if left else " ")
        yield right

    def _lines(self, row: Row, separator: str) -> Iterator[Part]:
        for number, cells in enumerate(row.lines):
            yield "; " if number else ""
            for column, cell in enumerate(cells):
                if column:
                    before = cells[column - 1]
                    yield " " if before and before[-1].token == "," else separator
                yield cell

    def base(self, node: Node) -> Iterable[Part]:
        letters = self._letters(node.arguments[-1].nodes) if node.arguments else ""
        if letters and (text := _combined(node, letters)):
            return (text,)
        parts = super().base(node)
        return ("(", *parts, ")") if node.scripts and _is_compound(node) else parts

    def filled(self, template: str, node: Node) -> Iterator[Part]:
        index = self._letters(node.option.nodes) if node.option else ""
        sign = _ROOTS.get(index) or (raised + "√" if (raised := _script("^", index)) else "")
        if sign and node.token in (r"\sqrt", r"\root"):
            return super().filled(f"{sign}@1", node)
        return super().filled(template, node)

    def _letters(self, nodes: Nodes) -> str:
        """Return the text of symbols without scripts; empty if there is anything else."""
        if any(node.arguments or node.scripts or not node.token for node in nodes):
            return ""
        return "".join(self.symbol(node.token) for node in nodes)

    def scripts(self, node: Node) -> Iterator[Part]:
        for number, script in enumerate(node.scripts, start=1):
            row = script.arguments[0]
            letters = self._letters(row.nodes)
            if text := _script(script.token, letters):
                yield text
            elif script.token == "^" and is_primes(row):
                yield letters
            elif script.token == "^" and is_plain(row.nodes) and row.nodes[0].token in _DEGREE:
                yield "°"
            elif is_plain(row.nodes) and number == len(node.scripts):
                yield from (script.token, row)
            else:
                yield from (f"{script.token}(", row, ")")

    def space(self, left: Node, right: Node) -> str:
        first, second = left.token, right.token
        if (first in OPENERS and not left.scripts) or second in CLOSERS:
            return ""
        if first in _BINARY or second in _BINARY or first in (",", ";", ":"):
            return " "
        if {first, second} & _FRACTIONS:
            return " "
        if first in _PREFIX:
            return "" if second in OPENERS else " "
        if second in NAMES or (SYMBOLS.get(second) and SYMBOLS[second].kind == "big"):
            return "" if first in OPENERS else " "
        return ""


def _is_compound(node: Node) -> bool:
    """Return whether a script behind the text of a node would belong to its last part only."""
    if node.token == "{":
        nodes = node.arguments[0].nodes
        return len(nodes) > 1 or any(inner.scripts or inner.arguments for inner in nodes)
    return node.token in _COMPOUND


def _script(operator: str, text: str) -> str:
    """Return raised or lowered characters; empty if there are none for some of them."""
    characters = _SCRIPTS[operator]
    return "".join(characters[one] for one in text) if characters.keys() >= set(text) else ""


def _combined(node: Node, letters: str) -> str:
    """Return an accented or styled symbol as characters of its own; empty if there are none."""
    if node.token in _MARKS and len(letters) == 1:
        return unicodedata.normalize("NFC", letters + _MARKS[node.token])
    if node.token in _FONTS:
        return "".join(_styled(letter, _FONTS[node.token]) for letter in letters)
    if node.token == r"\textcircled":
        return _lookup(f"CIRCLED {unicodedata.name(letters, '')}") if len(letters) == 1 else ""
    return ""


def _styled(letter: str, styles: tuple[str, ...]) -> str:
    if not (letter.isascii() and letter.isalnum()):
        return letter
    words = unicodedata.name(letter).removeprefix("LATIN ").replace(" LETTER", "")
    names = [f"{prefix}{style} {words}" for style in styles for prefix in ("", "MATHEMATICAL ")]
    return next(filter(None, map(_lookup, names)), letter)


def _lookup(name: str) -> str:
    try:
        return unicodedata.lookup(name)
    except KeyError:
        return ""


def to_unicode(tokens: Sequence[str]) -> str:
    """Return tokens in caption form as one line of Unicode text."""
    return _UnicodeText().write(tokens)
