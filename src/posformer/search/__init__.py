"""Greedy, beam and bidirectional search over a small step interface; NumPy only."""

from posformer.search.adaptive import (
    Doubt,
    FirstPass,
    adaptive_result,
    best_of,
    first_pass,
    near,
    second_pass,
)
from posformer.search.bidirectional import Scores, search
from posformer.search.constraint import Constraint
from posformer.search.decoding_options import DecodingOptions, Hypothesis
from posformer.search.greedy import greedy_search
from posformer.search.line_search import LineTokens, line_search
from posformer.search.ngram_model import NgramModel, Prior, no_prior
from posformer.search.step_model import StepModel

__all__ = [
    "Constraint",
    "DecodingOptions",
    "Doubt",
    "FirstPass",
    "Hypothesis",
    "LineTokens",
    "NgramModel",
    "Prior",
    "Scores",
    "StepModel",
    "adaptive_result",
    "best_of",
    "first_pass",
    "greedy_search",
    "line_search",
    "near",
    "no_prior",
    "search",
    "second_pass",
]
