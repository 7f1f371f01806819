"""Which strokes write which token of a caption."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import numpy as np
from rapidfuzz.distance import Levenshtein

from posformer.errors import InkError
from posformer.ink.aligned import AlignedInk
from posformer.ink.captions import Piece, label_token, mathml_pieces
from posformer.ink.inkml import Ink
from posformer.ink.render import strokes_in_pixels
from posformer.latex.symbols import LOOK_ALIKES, fence_of, is_structure
from posformer.latex.tree import parse, walk

__all__ = ["align", "in_pixels", "inked_places"]

_SPELLINGS = {
    "\\tan": ("tan", "tg"),
    **dict.fromkeys((".", "\\cdot", "\\ldots", "\\cdots"), ("...",)),
}
"""The labels that may spell a token, where these are not the letters of its name."""


def inked_places(tokens: Sequence[str]) -> list[int]:
    r"""Return the indices of the tokens that have ink.

    These are all tokens except structure, the brackets of `\sqrt [ N ]` and the columns of
    `\begin{array} { l r }`; `\begin{cases}` has the ink of its brace.
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
        if index not in inkless and (not is_structure(token) or fence_of(token))
    ]


def align(ink: Ink, tokens: Sequence[str]) -> AlignedInk:
    """Tie strokes to the tokens of a caption.

    The walk over the MathML names the symbol of each of its tokens by id, which tells repeated
    symbols apart; caption and walk are matched as sequences. What is then left on both sides is
    matched by label, by the letters of a word, and at last by likeness, from left to right.
    Strokes that no symbol holds stay without a token.

    Args:
        ink: Ink with labelled symbols.
        tokens: The caption.

    Returns:
        The ink in the pixels of its CROHME image (see `strokes_in_pixels`).
    """
    matching = _Matching(ink, tokens)
    matching.by_walk()
    matching.by_label(str.__eq__)
    matching.by_letters()
    matching.by_label(_alike)
    aligned = AlignedInk(
        name=ink.name,
        tokens=tuple(tokens),
        strokes=tuple(ink.strokes),
        alignment=matching.strokes(),
        writer=ink.writer,
    )
    return in_pixels(aligned)


def in_pixels(ink: AlignedInk) -> AlignedInk:
    """Aligned ink in the pixels of its CROHME image.

    The fence of an environment is as high as all its lines together: it says nothing about the
    size of the writing, and is not measured.
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
    """Symbols found so far for the tokens of a caption."""

    def __init__(self, ink: Ink, tokens: Sequence[str]) -> None:
        self._ink = ink
        self._tokens = tokens
        self._inked = inked_places(tokens)
        self._found: dict[int, tuple[int, ...]] = {}
        self._free = set(range(len(ink.symbols)))

    def strokes(self) -> tuple[tuple[int, ...], ...]:
        """The alignment; a stroke that two symbols share goes to the first token only."""
        taken: set[int] = set()
        rows = []
        for place in range(len(self._tokens)):
            members = [
                stroke
                for symbol in self._found.get(place, ())
                for stroke in self._ink.symbols[symbol].strokes
                if stroke not in taken
            ]
            taken.update(members)
            rows.append(tuple(sorted(set(members))))
        return tuple(rows)

    def by_walk(self) -> None:
        """Match the caption with the walk over the MathML, both without structure."""
        pieces = self._walk()
        words = [self._tokens[place] for place in self._inked]
        for edit in Levenshtein.opcodes(words, [piece.token for piece in pieces]):
            if edit.tag not in ("equal", "replace"):
                continue
            for place in range(edit.src_start, edit.src_end):
                piece = pieces[edit.dest_start + place - edit.src_start]
                if _alike(piece.token, words[place]):
                    self._take(self._inked[place], piece.symbols)

    def _walk(self) -> list[Piece]:
        try:
            pieces = mathml_pieces(self._ink)
        except InkError:
            return []
        places = inked_places([piece.token for piece in pieces])
        return [pieces[place] for place in places]

    def by_label(self, same: Callable[[str, str], bool]) -> None:
        """Match what is left with labels that are the same, from left to right."""
        for place in list(self._open()):
            choices = [
                symbol
                for symbol in self._by_left_edge()
                if same(label_token(self._ink.symbols[symbol].label), self._tokens[place])
            ]
            if choices and self._tokens[place] == "\\frac":
                choices.sort(key=self._width, reverse=True)
            if choices:
                self._take(place, choices[:1])

    def by_letters(self) -> None:
        r"""Give function names, dots and the like the several symbols that spell them."""
        for place in list(self._open()):
            token = self._tokens[place]
            for spelling in _SPELLINGS.get(token, (token.lstrip("\\"),)):
                if place not in self._found:
                    self._take(place, self._spelled(spelling))

    def _spelled(self, spelling: str) -> list[int]:
        """Free symbols next to each other whose labels spell a word of several letters."""
        order = self._by_left_edge()
        labels = [label_token(self._ink.symbols[symbol].label).lower() for symbol in order]
        for start in range(len(labels) - len(spelling) + 1 if len(spelling) > 1 else 0):
            if labels[start : start + len(spelling)] == list(spelling):
                return order[start : start + len(spelling)]
        return []

    def _open(self) -> Iterator[int]:
        return (place for place in self._inked if not self._found.get(place))

    def _take(self, place: int, symbols: Sequence[int]) -> None:
        fresh = tuple(symbol for symbol in symbols if symbol in self._free)
        if fresh:
            self._found[place] = fresh
            self._free.difference_update(fresh)

    def _by_left_edge(self) -> list[int]:
        return sorted(self._free, key=lambda symbol: float(self._points(symbol)[:, 0].min()))

    def _width(self, symbol: int) -> float:
        return float(np.ptp(self._points(symbol)[:, 0]))

    def _points(self, symbol: int) -> np.ndarray:
        return np.concatenate(
            [self._ink.strokes[stroke] for stroke in self._ink.symbols[symbol].strokes]
        )


def _alike(one: str, other: str) -> bool:
    if one == other or one in fence_of(other):
        return True
    return any(one in tokens and other in tokens for tokens in LOOK_ALIKES)
