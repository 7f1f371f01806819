"""Alignment of strokes with the tokens of a caption."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import numpy as np

from posformer.errors import InkError
from posformer.ink.aligned import AlignedInk
from posformer.ink.captions import label_token, mathml_pieces
from posformer.ink.inkml import Ink
from posformer.ink.render import strokes_in_pixels
from posformer.latex.symbols import LOOK_ALIKES, fence_of, is_structure, tokens_of
from posformer.latex.tree import parse, walk

_INKLESS = tokens_of("font", "stack")

_SPELLINGS = {
    "\\tan": ("tan", "tg"),
    **dict.fromkeys((".", "\\cdot", "\\ldots", "\\cdots"), ("...",)),
}
"""The labels that may spell a token, where these are not the letters of its name."""


def inked_places(tokens: Sequence[str]) -> list[int]:
    r"""Return the indices of the tokens that have ink.

    These are all tokens except structure, the brackets of `\sqrt [ N ]`, the columns of
    `\begin{array} { l r }`, and commands that only style or place their arguments: the ink of
    `\mathbb { R }` belongs to `R`. `\begin{cases}` has the ink of its brace.
    """
    inkless: set[int] = set()
    for row in parse(tokens, lenient=True).rows:
        owner = row.owner
        if owner is not None and owner.option is row:
            inkless |= {row.start, row.end}
            if owner.is_environment:
                inkless.update(node.index for node in walk(row.nodes))
    return [
        index
        for index, token in enumerate(tokens)
        if index not in inkless
        and token not in _INKLESS
        and (not is_structure(token) or fence_of(token))
    ]


def align(ink: Ink, tokens: Sequence[str]) -> AlignedInk:
    """Align strokes with the tokens of a caption.

    The MathML of the ink names the symbol of each token by id, which distinguishes repeated
    symbols. It is matched with the caption as a sequence. Remaining tokens are matched with the
    remaining symbols by label, by the letters of a function name, and finally by look-alikes, from
    left to right. Strokes without a symbol stay without a token.

    Args:
        ink: Ink with labeled symbols.
        tokens: The caption.

    Returns:
        The ink in the pixels of its CROHME image (see `strokes_in_pixels`).
    """
    matching = _Matching(ink, tokens)
    matching.by_mathml()
    matching.by_label(str.__eq__)
    matching.by_letters()
    matching.by_label(_alike)
    strokes = matching.strokes()
    return in_pixels(AlignedInk(ink.name, tuple(tokens), tuple(ink.strokes), strokes, ink.writer))


def in_pixels(ink: AlignedInk) -> AlignedInk:
    """Scale aligned ink to the pixels of its CROHME image.

    The fences of environments are not measured: their height says nothing about the size of the
    writing.
    """
    fences = {
        stroke
        for token, strokes in zip(ink.tokens, ink.alignment, strict=True)
        if fence_of(token)
        for stroke in strokes
    }
    measured = set(range(len(ink.strokes))) - fences if fences else ()
    return replace(ink, strokes=strokes_in_pixels(ink.strokes, measured))


class _Matching:
    """The symbols found so far for the tokens of a caption."""

    def __init__(self, ink: Ink, tokens: Sequence[str]) -> None:
        self._ink = ink
        self._tokens = tokens
        self._inked = inked_places(tokens)
        self._found: dict[int, tuple[int, ...]] = {}
        self._free = set(range(len(ink.symbols)))

    def strokes(self) -> tuple[tuple[int, ...], ...]:
        """Return the alignment; a stroke of two symbols belongs to the first token only."""
        taken: set[int] = set()
        rows = []
        for index in range(len(self._tokens)):
            members = [
                stroke
                for symbol in self._found.get(index, ())
                for stroke in self._ink.symbols[symbol].strokes
                if stroke not in taken
            ]
            taken.update(members)
            rows.append(tuple(sorted(set(members))))
        return tuple(rows)

    def by_mathml(self) -> None:
        """Match the caption with the tokens of the MathML, both without structure."""
        try:
            pieces = mathml_pieces(self._ink)
        except InkError:
            return
        pieces = [pieces[index] for index in inked_places([piece.token for piece in pieces])]
        tokens = [self._tokens[index] for index in self._inked]
        from rapidfuzz.distance import Levenshtein  # recognition does not need it

        for edit in Levenshtein.opcodes(tokens, [piece.token for piece in pieces]):
            if edit.tag not in ("equal", "replace"):
                continue
            for index in range(edit.src_start, edit.src_end):
                piece = pieces[edit.dest_start + index - edit.src_start]
                if _alike(piece.token, tokens[index]):
                    self._take(self._inked[index], piece.symbols)

    def by_label(self, same: Callable[[str, str], bool]) -> None:
        """Match remaining tokens with remaining symbols of the same label, from left to right."""
        for index in list(self._open()):
            choices = [
                symbol
                for symbol in self._by_left_edge()
                if same(label_token(self._ink.symbols[symbol].label), self._tokens[index])
            ]
            if self._tokens[index] == "\\frac":
                choices.sort(key=self._width, reverse=True)
            self._take(index, choices[:1])

    def by_letters(self) -> None:
        """Match function names and dots with the symbols that spell them."""
        for index in list(self._open()):
            token = self._tokens[index]
            for spelling in _SPELLINGS.get(token, (token.lstrip("\\"),)):
                if index not in self._found:
                    self._take(index, self._spelled(spelling))

    def _spelled(self, spelling: str) -> list[int]:
        """Return adjacent remaining symbols whose labels spell several letters, if any."""
        order = self._by_left_edge()
        labels = [label_token(self._ink.symbols[symbol].label).lower() for symbol in order]
        for start in range(len(labels) - len(spelling) + 1 if len(spelling) > 1 else 0):
            if labels[start : start + len(spelling)] == list(spelling):
                return order[start : start + len(spelling)]
        return []

    def _open(self) -> Iterator[int]:
        return (index for index in self._inked if not self._found.get(index))

    def _take(self, index: int, symbols: Sequence[int]) -> None:
        fresh = tuple(symbol for symbol in symbols if symbol in self._free)
        if fresh:
            self._found[index] = fresh
            self._free.difference_update(fresh)

    def _by_left_edge(self) -> list[int]:
        return sorted(self._free, key=lambda symbol: float(self._points(symbol)[:, 0].min()))

    def _width(self, symbol: int) -> float:
        return float(np.ptp(self._points(symbol)[:, 0]))

    def _points(self, symbol: int) -> np.ndarray:
        strokes = self._ink.symbols[symbol].strokes
        return np.concatenate([self._ink.strokes[stroke] for stroke in strokes])


def _alike(one: str, other: str) -> bool:
    if one == other or one in fence_of(other):
        return True
    return any(one in tokens and other in tokens for tokens in LOOK_ALIKES)
