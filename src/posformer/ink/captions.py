"""The caption of ink, from its LaTeX annotation or its MathML."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

from posformer.errors import InkError, LatexError
from posformer.ink.inkml import Ink, MathNode
from posformer.latex import normalize, tokenize
from posformer.latex.macros import SYNONYMS
from posformer.latex.symbols import SYMBOLS, tokens_of

_LABELS: Mapping[str, str] = {
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
"""Tokens that captions write as several."""

_NO_LATEX = re.compile(r"\b(ABOVE|BELOW)\b")
"""Marks in some annotations of CROHME for what their tool could not express."""

_DOTS = ("\\ldots", "\\cdots", "\\cdot", ".")
"""Dots, which the LaTeX annotation distinguishes better than the MathML."""


_SCRIPTS = {
    "msub": "_",
    "munder": "_",
    "msup": "^",
    "mover": "^",
    "msubsup": "_^",
    "munderover": "_^",
}
"""MathML elements with scripts."""


@dataclass(frozen=True)
class Piece:
    """A caption token and the symbols (indices in `Ink.symbols`) that write it."""

    token: str
    symbols: tuple[int, ...] = ()


def label_token(label: str) -> str:
    """Return the caption token of a symbol label."""
    return _LABELS.get(label, label)


def caption_of(ink: Ink) -> tuple[str, ...]:
    """Return the caption, from the LaTeX annotation or, if that is invalid, from the MathML.

    Raises:
        InkError: There is neither, or neither is valid.
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
    """Return the caption of a LaTeX annotation.

    Raises:
        LatexError: It is not valid LaTeX.
    """
    if _NO_LATEX.search(truth):
        raise LatexError("ABOVE and BELOW are not LaTeX")
    tokens = [part for token in normalize(truth) for part in _PARTS.get(token, (token,))]
    for label in {symbol.label for symbol in ink.symbols} & _SPELLED_OUT:
        tokens = _joined(tokens, label)
    return tokens


def _joined(tokens: list[str], function: str) -> list[str]:
    """Replace the letters of a function name by the function."""
    letters = list(function[1:])
    found: list[str] = []
    index = 0
    while index < len(tokens):
        spelled = tokens[index : index + len(letters)] == letters
        found.append(function if spelled else tokens[index])
        index += len(letters) if spelled else 1
    return found


def mathml_pieces(ink: Ink) -> list[Piece]:
    """Return the caption of the MathML, with the symbols that its elements refer to by id.

    Raises:
        InkError: There is no MathML, or an element is unknown.
    """
    if ink.mathml is None:
        raise InkError(f"{ink.name}: no MathML")
    pieces = _Walk(ink).pieces(ink.mathml)
    return _with_dots_of(ink.truth or "", pieces)


class _Walk:
    """Converts MathML to pieces."""

    def __init__(self, ink: Ink) -> None:
        self._ink = ink
        self._symbol = {symbol.id: index for index, symbol in enumerate(ink.symbols)}

    def pieces(self, node: MathNode) -> list[Piece]:
        if node.tag in ("mi", "mo", "mn", "mtext", "ms"):
            return self._leaf(node)
        is_row = node.tag in ("math", "mrow", "mstyle", "mpadded", "semantics", "msqrt")
        count = len(node.children)
        if not is_row and count != max(2, 1 + len(_SCRIPTS.get(node.tag, ""))):
            raise InkError(f"{self._ink.name}: MathML element <{node.tag}> has {count} parts")
        parts = [self.pieces(child) for child in node.children]
        if node.tag == "msqrt":
            return [self._ink_of("\\sqrt", node), *_braced(chain(*parts))]
        return list(chain(*parts)) if is_row else self._with_parts(node, parts)

    def _with_parts(self, node: MathNode, parts: list[list[Piece]]) -> list[Piece]:
        first, second = parts[:2]
        if node.tag == "mfrac":
            return [self._ink_of("\\frac", node), *_braced(first), *_braced(second)]
        if node.tag == "mroot":
            index = [Piece("["), *second, Piece("]")]
            return [self._ink_of("\\sqrt", node), *index, *_braced(first)]
        if node.tag not in _SCRIPTS:
            raise InkError(f"{self._ink.name}: MathML element <{node.tag}> is unknown")
        found = [*first, Piece("\\limits")] if _takes_limits(first) else first
        for operator, script in zip(_SCRIPTS[node.tag], parts[1:], strict=True):
            found = [*found, Piece(operator), *_braced(script)]
        return found

    def _leaf(self, node: MathNode) -> list[Piece]:
        index = self._symbol.get(node.id)
        if index is not None:
            return [Piece(label_token(self._ink.symbols[index].label), (index,))]
        text = label_token(node.text)
        tokens = [text] if text.startswith("\\") or node.tag != "mn" else list(text)
        return [Piece(token) for token in tokens if token]

    def _ink_of(self, token: str, node: MathNode) -> Piece:
        index = self._symbol.get(node.id)
        return Piece(token) if index is None else Piece(token, (index,))


def _takes_limits(base: Sequence[Piece]) -> bool:
    symbol = SYMBOLS.get(base[-1].token) if base else None
    return symbol is not None and symbol.limits


def _braced(pieces: Iterable[Piece]) -> list[Piece]:
    return [Piece("{"), *pieces, Piece("}")]


def _with_dots_of(truth: str, pieces: list[Piece]) -> list[Piece]:
    """Take the dots from the LaTeX annotation, if it has as many as the MathML."""
    try:
        said = [label_token(token) for token in tokenize(truth.strip().strip("$"))]
    except LatexError:
        return pieces
    wanted = [token for token in said if token in _DOTS]
    groups = list(_dot_groups(pieces))
    if len(groups) != len(wanted):
        groups = [(index, index + 1) for index, piece in enumerate(pieces) if piece.token in _DOTS]
    if len(groups) != len(wanted):
        return pieces
    for (first, last), token in reversed(list(zip(groups, wanted, strict=True))):
        symbols = tuple(symbol for piece in pieces[first:last] for symbol in piece.symbols)
        pieces[first:last] = [Piece(token, symbols)]
    return pieces


def _dot_groups(pieces: Sequence[Piece]) -> Iterator[tuple[int, int]]:
    """Yield the ranges of dots; three points in a row are one token."""
    index = 0
    while index < len(pieces):
        if [piece.token for piece in pieces[index : index + 3]] == ["."] * 3:
            yield index, index + 3
            index += 3
        else:
            if pieces[index].token in _DOTS:
                yield index, index + 1
            index += 1
