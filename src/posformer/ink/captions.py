"""What ink says, as caption tokens, from its LaTeX truth or its MathML."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from posformer.errors import InkError, LatexError
from posformer.ink.inkml import Ink, MathNode
from posformer.latex import normalize, tokenize
from posformer.latex.characters import NAMED
from posformer.latex.macros import SYNONYMS
from posformer.latex.symbols import SYMBOLS, tokens_of

__all__ = ["Piece", "caption_of", "label_token", "mathml_pieces"]

_LABELS: Mapping[str, str] = {
    **{sign: latex for sign, latex in NAMED.items() if latex in SYMBOLS},
    **{label: tokens[0] for label, tokens in SYNONYMS.items() if len(tokens) == 1},
    "COMMA": ",",
    "\\ldot": ".",
    "\\'": "\\prime",
    "'": "\\prime",
}
"""The tokens of symbol labels that are spelled differently."""

_SPELLED_OUT = tokens_of("function", "limit") | {"\\div"}
"""Tokens that some truths spell in letters, although the ink is labeled with the token."""

_PARTS: Mapping[str, tuple[str, ...]] = {"\\parallel": ("|", "|")}
"""What captions write as several words."""

_NO_LATEX = re.compile(r"\b(ABOVE|BELOW)\b")
"""How some truths of CROHME mark what their tool could not say."""

_DOTS = ("\\ldots", "\\cdots", "\\cdot", ".")
"""What looks like dots: MathML keeps them apart poorly, the LaTeX truth well."""


@dataclass(frozen=True)
class Piece:
    """A caption token and the symbols (places in `Ink.symbols`) that write it."""

    token: str
    symbols: tuple[int, ...] = ()


def label_token(label: str) -> str:
    """The vocabulary's word for a symbol label."""
    return _LABELS.get(label, label)


def caption_of(ink: Ink) -> tuple[str, ...]:
    """Tokens in caption form, from the LaTeX truth or, where that is no LaTeX, from the MathML.

    Raises:
        InkError: When there is neither, or neither makes sense.
    """
    if ink.truth is None and ink.mathml is None:
        raise InkError(f"{ink.name}: neither a LaTeX <annotation> nor MathML says what it is")
    if ink.truth is not None:
        try:
            return tuple(_from_latex(ink.truth, ink))
        except LatexError as error:
            if ink.mathml is None:
                raise InkError(f"{ink.name}: <annotation> truth: {error}") from error
    return tuple(piece.token for piece in mathml_pieces(ink))


def _from_latex(truth: str, ink: Ink) -> list[str]:
    """Caption tokens of a LaTeX truth, as far as it is LaTeX.

    Raises:
        LatexError: When it is not.
    """
    if _NO_LATEX.search(truth):
        raise LatexError("ABOVE and BELOW are no LaTeX")
    tokens = [part for token in normalize(truth) for part in _PARTS.get(token, (token,))]
    for label in {symbol.label for symbol in ink.symbols} & _SPELLED_OUT:
        tokens = _joined(tokens, label)
    return tokens


def _joined(tokens: list[str], function: str) -> list[str]:
    """Letters that spell a word become the word."""
    letters = list(function[1:])
    found: list[str] = []
    place = 0
    while place < len(tokens):
        spelled = tokens[place : place + len(letters)] == letters
        found.append(function if spelled else tokens[place])
        place += len(letters) if spelled else 1
    return found


def mathml_pieces(ink: Ink) -> list[Piece]:
    """The caption by a walk over the MathML, with the symbols whose ids its elements have.

    Raises:
        InkError: When there is no MathML or an element is unknown.
    """
    if ink.mathml is None:
        raise InkError(f"{ink.name}: no MathML")
    pieces = _Walk(ink).pieces(ink.mathml)
    return _with_dots_of(ink.truth or "", pieces)


class _Walk:
    """Spells MathML as pieces."""

    def __init__(self, ink: Ink) -> None:
        self._ink = ink
        self._symbol = {symbol.id: place for place, symbol in enumerate(ink.symbols)}

    def pieces(self, node: MathNode) -> list[Piece]:
        kind, parts = node.tag, node.children
        if kind in ("mi", "mo", "mn", "mtext", "ms"):
            return self._leaf(node)
        if kind in ("math", "mrow", "mstyle", "mpadded", "semantics"):
            return self._row(parts)
        if kind == "msqrt":
            return [self._ink_of("\\sqrt", node), *_braced(self._row(parts))]
        return self._with_parts(node)

    def _with_parts(self, node: MathNode) -> list[Piece]:
        kind, parts = node.tag, node.children
        self._expect(node, {"msubsup": 3, "munderover": 3}.get(kind, 2))
        first, second = self.pieces(parts[0]), self.pieces(parts[1])
        if kind == "mfrac":
            return [self._ink_of("\\frac", node), *_braced(first), *_braced(second)]
        if kind == "mroot":
            index = [Piece("["), *second, Piece("]")]
            return [self._ink_of("\\sqrt", node), *index, *_braced(first)]
        base = [*first, Piece("\\limits")] if _takes_limits(first) else first
        if kind in ("msub", "munder"):
            return [*base, Piece("_"), *_braced(second)]
        if kind in ("msup", "mover"):
            return [*base, Piece("^"), *_braced(second)]
        if kind in ("msubsup", "munderover"):
            above = _braced(self.pieces(parts[2]))
            return [*base, Piece("_"), *_braced(second), Piece("^"), *above]
        raise InkError(f"{self._ink.name}: MathML element <{kind}> is unknown")

    def _expect(self, node: MathNode, count: int) -> None:
        if len(node.children) != count:
            raise InkError(
                f"{self._ink.name}: MathML element <{node.tag}> has {len(node.children)} parts"
            )

    def _row(self, nodes: Sequence[MathNode]) -> list[Piece]:
        found: list[Piece] = []
        for node in nodes:
            found += self.pieces(node)
        return found

    def _leaf(self, node: MathNode) -> list[Piece]:
        place = self._symbol.get(node.id)
        if place is not None:
            return [Piece(label_token(self._ink.symbols[place].label), (place,))]
        text = label_token(node.text)
        words = [text] if text.startswith("\\") or node.tag != "mn" else list(text)
        return [Piece(word) for word in words if word]

    def _ink_of(self, token: str, node: MathNode) -> Piece:
        place = self._symbol.get(node.id)
        return Piece(token) if place is None else Piece(token, (place,))


def _takes_limits(base: Sequence[Piece]) -> bool:
    symbol = SYMBOLS.get(base[-1].token) if base else None
    return symbol is not None and symbol.limits


def _braced(pieces: Sequence[Piece]) -> list[Piece]:
    return [Piece("{"), *pieces, Piece("}")]


def _with_dots_of(truth: str, pieces: list[Piece]) -> list[Piece]:
    """Let the LaTeX truth say which dots are meant, where it has as many as the MathML."""
    try:
        said = [label_token(token) for token in tokenize(truth.strip().strip("$"))]
    except LatexError:
        return pieces
    wanted = [token for token in said if token in _DOTS]
    groups = list(_dot_groups(pieces))
    if len(groups) != len(wanted):
        groups = [(place, place + 1) for place, piece in enumerate(pieces) if piece.token in _DOTS]
    if len(groups) != len(wanted):
        return pieces
    for (first, last), token in reversed(list(zip(groups, wanted, strict=True))):
        symbols = tuple(symbol for piece in pieces[first:last] for symbol in piece.symbols)
        pieces[first:last] = [Piece(token, symbols)]
    return pieces


def _dot_groups(pieces: Sequence[Piece]) -> Iterator[tuple[int, int]]:
    """Where dots stand; three points in a row are one word."""
    place = 0
    while place < len(pieces):
        if [piece.token for piece in pieces[place : place + 3]] == ["."] * 3:
            yield place, place + 3
            place += 3
        else:
            if pieces[place].token in _DOTS:
                yield place, place + 1
            place += 1
