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

__all__ = ["TokenEntry", "count_tokens", "list_rejected", "list_tokens", "markdown_table"]

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
_COMPOSED_TOKENS = frozenset[str]().union(*map(environment_tokens, COMPOSED))


@dataclass(frozen=True)
class TokenEntry:
    """A token of the vocabulary, and what it is based on."""

    token: str
    texts: int  # that contain it; 0 for what is composed by rule
    samples: int  # in the symbol bank
    fonts: int  # that have a glyph for it
    rule: bool  # whether it is drawn or composed by rule

    @property
    def fault(self) -> str:
        """Why the token is not in the vocabulary; empty if it is."""
        if self.token in _SYNONYMS:
            return "looks like another token"
        if not (self.rule or self.samples >= MIN_SAMPLES or self.fonts >= MIN_FONTS):
            return "cannot be drawn"
        if self.texts < MIN_TEXTS and self.token not in _COMPOSED_TOKENS:
            return f"fewer than {MIN_TEXTS} texts"
        return ""


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
    return [entry for entry in _all_entries(counts, bank, fonts) if not entry.fault]


def list_rejected(
    counts: Mapping[str, int], bank: SymbolBank, fonts: SymbolBank | None = None
) -> list[TokenEntry]:
    """Return the known symbols that are not in the vocabulary; arguments as for `list_tokens`."""
    return [entry for entry in _all_entries(counts, bank, fonts) if entry.fault]


def _all_entries(
    counts: Mapping[str, int], bank: SymbolBank, fonts: SymbolBank | None
) -> Iterator[TokenEntry]:
    for token in sorted({*SYMBOLS, *_COMPOSED_TOKENS}):
        by_rule = token in _RULES or token in _STRUCTURE or token in _COMPOSED_TOKENS
        samples = bank.counts.get(token, 0)
        glyphs = 0 if fonts is None else len(fonts.samples(token))
        yield TokenEntry(token, counts.get(token, 0), samples, glyphs, by_rule)


def markdown_table(entries: Iterable[TokenEntry]) -> str:
    """Return tokens by class, rejected ones by fault, as a Markdown table with counts."""
    by_kind: dict[str, list[TokenEntry]] = {}
    for entry in entries:
        symbol = SYMBOLS.get(entry.token)
        kind = "environment" if symbol is None else symbol.kind
        by_kind.setdefault(entry.fault or kind, []).append(entry)
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
