"""Greedy and beam search over a step interface; knows no framework."""

from posformer.search.bidirectional import search
from posformer.search.greedy import greedy
from posformer.search.interface import StepModel
from posformer.search.options import Hypothesis, SearchOptions

__all__ = ["Hypothesis", "SearchOptions", "StepModel", "greedy", "search"]
