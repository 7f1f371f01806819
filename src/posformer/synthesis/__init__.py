"""Synthetic expressions: symbol bank, layout, grammar, symbol substitution, subtree swap."""

from posformer.synthesis.bank import SymbolBank, SymbolSample
from posformer.synthesis.glyphs import own_bank
from posformer.synthesis.grammar import Grammar
from posformer.synthesis.layout import LayoutStyle, lay_out
from posformer.synthesis.substitution import GroupBank, SymbolSubstitution

__all__ = [
    "Grammar",
    "GroupBank",
    "LayoutStyle",
    "SymbolBank",
    "SymbolSample",
    "SymbolSubstitution",
    "lay_out",
    "own_bank",
]
