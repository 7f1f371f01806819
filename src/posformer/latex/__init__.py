"""Mathematical text: tokens, normalizer, vocabulary, position forest."""

from posformer.latex.forest import (
    POSITION_CODES,
    PositionForest,
    complexity,
    encode_forest,
    identifier_codes,
)
from posformer.latex.forest_drawing import draw_forest
from posformer.latex.normalizer import normalize
from posformer.latex.output_formats import FORMATS, convert
from posformer.latex.symbols import STRUCTURE_TOKENS, fence_of, is_structure
from posformer.latex.syntax import check, is_valid
from posformer.latex.tokens import in_lines, split_caption, to_latex, tokenize
from posformer.latex.vocabulary import Vocabulary

__all__ = [
    "FORMATS",
    "POSITION_CODES",
    "STRUCTURE_TOKENS",
    "PositionForest",
    "Vocabulary",
    "check",
    "complexity",
    "convert",
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
