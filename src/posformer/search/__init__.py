"""Greedy, beam and bidirectional search over a small step interface; NumPy only."""

from posformer.search.bidirectional import search
from posformer.search.decoding_options import DecodingOptions, Hypothesis
from posformer.search.greedy import greedy_search
from posformer.search.step_model import StepModel

__all__ = ["DecodingOptions", "Hypothesis", "StepModel", "greedy_search", "search"]
