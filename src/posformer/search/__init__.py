"""Greedy and beam search over a step interface; knows no framework."""

from posformer.search.bidirectional import search
from posformer.search.decoding_options import DecodingOptions, Hypothesis
from posformer.search.greedy import greedy
from posformer.search.step_model import StepModel

__all__ = ["DecodingOptions", "Hypothesis", "StepModel", "greedy", "search"]
