"""Mathematical text: tokens, normaliser, vocabulary, position forest."""

from posformer.latex.errors import LatexError, UnknownTokenError
from posformer.latex.forest import PositionForest, complexity, encode_forest, identifier_codes
from posformer.latex.normalizer import normalize
from posformer.latex.tokens import STRUCTURE_TOKENS, is_structure, to_latex, tokenize
from posformer.latex.vocabulary import Vocabulary

__all__ = [
    "STRUCTURE_TOKENS",
    "LatexError",
    "PositionForest",
    "UnknownTokenError",
    "Vocabulary",
    "complexity",
    "encode_forest",
    "identifier_codes",
    "is_structure",
    "normalize",
    "to_latex",
    "tokenize",
]
