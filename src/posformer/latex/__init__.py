"""Mathematical text: tokens, normalizer, vocabulary, position forest."""

from posformer.latex.forest import (
    LETTER_CODES,
    PositionForest,
    complexity,
    encode_forest,
    identifier_codes,
)
from posformer.latex.forest_drawing import draw_forest
from posformer.latex.normalizer import normalize
from posformer.latex.syntax import check, is_valid
from posformer.latex.tokens import (
    STRUCTURE_TOKENS,
    fence_of,
    in_lines,
    is_structure,
    split_caption,
    to_latex,
    tokenize,
)
from posformer.latex.vocabulary import Vocabulary

__all__ = [
    "LETTER_CODES",
    "STRUCTURE_TOKENS",
    "PositionForest",
    "Vocabulary",
    "check",
    "complexity",
    "draw_forest",
    "encode_forest",
    "fence_of",
    "identifier_codes",
    "in_lines",
    "is_structure",
    "is_valid",
    "normalize",
    "split_caption",
    "to_latex",
    "tokenize",
]
