r"""The tokens that synthesis can draw and that texts use: the vocabulary, generated.

A token belongs to the vocabulary if at least 50 texts contain it and it can be drawn: from at
least 30 samples, by rule (accents, bars, function names), or from the glyphs of fonts.
Environments occur in no text; they are composed by rule.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from posformer.latex.symbols import SYMBOLS, tokens_of
from posformer.synthesis.bank import SymbolBank
from posformer.synthesis.marks import MARKS
from posformer.synthesis.multiline import environment_tokens
from posformer.synthesis.texts import read_texts, with_limits

__all__ = ["TokenEntry", "count_tokens", "list_tokens", "markdown_table"]

MIN_SAMPLES = 30
MIN_TEXTS = 50
MIN_FONTS = 4
COMPOSED = ("cases", "aligned", "matrix", "pmatrix", "bmatrix", "vmatrix")
"""Environments in the vocabulary."""

_SYNONYMS = frozenset(
    (r"\dfrac", r"\tfrac", r"\cfrac", r"\dbinom", r"\tbinom", r"\root", r"\mathscr", r"\not")
)
"""Tokens that look like others, and a stroke that is part of other symbols."""

_RULES = tokens_of("fraction", "binomial", "stack", "function", "limit", "font") | MARKS.keys()
_STRUCTURE = tokens_of("script", "structure") - {"\\\\", "&"}


@dataclass(frozen=True)
class TokenEntry:
    """A token of the vocabulary, and what it is based on."""

    token: str
    texts: int  # that contain it; 0 for what is composed by rule
    samples: int  # in the symbol bank
    fonts: int  # that have a glyph for it
    rule: bool  # whether it is drawn or composed by rule


def count_tokens(paths: Iterable[Path]) -> Counter[str]:
    """Return the number of texts that contain each token."""
    counts: Counter[str] = Counter()
    for text in read_texts(paths):
        counts.update(set(with_limits(text)))
    return counts


def list_tokens(
    counts: Mapping[str, int], bank: SymbolBank, fonts: SymbolBank | None = None
) -> list[TokenEntry]:
    """Return the vocabulary, sorted by code point.

    Args:
        counts: The number of texts that contain each token.
        bank: Handwritten symbols.
        fonts: Fonts as writers.
    """
    composed = frozenset[str]().union(*map(environment_tokens, COMPOSED))
    found = []
    for token in sorted({*SYMBOLS, *composed} - _SYNONYMS):
        by_rule = token in _RULES or token in _STRUCTURE or token in composed
        samples = bank.counts.get(token, 0)
        glyphs = 0 if fonts is None else len(fonts.samples(token))
        drawable = by_rule or samples >= MIN_SAMPLES or glyphs >= MIN_FONTS
        texts = counts.get(token, 0)
        if drawable and (texts >= MIN_TEXTS or token in composed):
            found.append(TokenEntry(token, texts, samples, glyphs, by_rule))
    return found


def markdown_table(entries: Iterable[TokenEntry]) -> str:
    """Return the vocabulary by class as a Markdown table with counts."""
    by_kind: dict[str, list[TokenEntry]] = {}
    for entry in entries:
        symbol = SYMBOLS.get(entry.token)
        by_kind.setdefault("environment" if symbol is None else symbol.kind, []).append(entry)
    return "\n".join(_table_lines(by_kind)) + "\n"


def _table_lines(by_kind: Mapping[str, list[TokenEntry]]) -> Iterator[str]:
    yield "| class | tokens: texts / samples / fonts |"
    yield "| --- | --- |"
    for kind, entries in by_kind.items():
        cells = [
            f"`{entry.token}` {entry.texts}/{entry.samples}/{entry.fonts}".replace("|", "\\|")
            for entry in entries
        ]
        yield f"| {kind} ({len(entries)}) | {', '.join(cells)} |"
