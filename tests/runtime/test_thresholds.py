"""Thresholds of a model, chosen on validation data."""

import math

import numpy as np
import pytest

from posformer.errors import ConfigError
from posformer.runtime import Thresholds
from posformer.runtime.thresholds import choose_certain, choose_readable
from posformer.search import FirstPass, Hypothesis
from posformer.search.beam import FinishedHypothesis


def hypothesis(probability: float, length: int = 5) -> Hypothesis:
    """A hypothesis with a mean token probability."""
    mean = math.log(probability)
    return Hypothesis(tuple(range(length)), 2 * mean, mean, mean)


def test_one_in_four_hundred_usable_results_may_be_rejected():
    usable = [hypothesis(0.5 + number / 2000) for number in range(900)]
    threshold = choose_readable(usable, [0.1] * 900)
    rejected = sum(not Thresholds(threshold).is_readable(one) for one in usable)
    assert rejected == 2
    # Results that are mostly wrong do not count, whatever their probability is.
    wrong = [hypothesis(0.1), hypothesis(0.99)]
    assert choose_readable([*usable, *wrong], [0.1] * 900 + [0.9] * 2) == threshold


def test_nothing_is_rejected_without_a_threshold():
    assert choose_readable([hypothesis(0.5)], [1.0]) is None
    assert Thresholds().is_readable(hypothesis(1e-9))


def test_length_does_not_matter():
    limits = Thresholds(readable=0.6)
    for length in (1, 10, 100):
        assert limits.is_readable(hypothesis(0.7, length))
        assert not limits.is_readable(hypothesis(0.5, length))


def test_thresholds_are_stored_in_the_info_of_a_model():
    stored = Thresholds(0.6, -0.5, "some data")
    assert Thresholds.from_info({"thresholds": stored.to_dict()}) == stored
    assert Thresholds.from_info({}) == Thresholds()
    for wrong in (3, {"readable": "high"}, {"unknown": 1.0}):
        with pytest.raises(ConfigError):
            Thresholds.from_info({"thresholds": wrong})


def passes(totals: list[float | None]) -> list[FirstPass]:
    """First passes with these log-probabilities; None: the directions disagree."""
    found = []
    for total in totals:
        one = FinishedHypothesis((3,), (total or 0.0) / 2)
        other = FinishedHypothesis((3,) if total is not None else (4,), one.score)
        found.append(FirstPass([[one], [other]], 1.0))
    return found


def test_certain_results_cost_no_correct_ones():
    first = passes([-0.1, -0.2, None, -0.3, -0.4, -0.5])
    right = np.array([1, 1, 1, 1, 0, 1], bool)
    everywhere = np.ones(6, bool)
    # From the surest down to -0.3 nothing is lost; at -0.4 a result would be.
    assert choose_certain(first, right, everywhere, everywhere) == pytest.approx(-0.3)
    assert choose_certain(first, everywhere, everywhere, everywhere) == pytest.approx(-0.5)
    # A gain outweighs a loss.
    gained = np.array([0, 1, 1, 1, 1, 1], bool)
    assert choose_certain(first, right, gained, gained) == pytest.approx(-0.5)


def test_no_result_is_certain_if_the_surest_is_wrong():
    first = passes([-0.1, -0.2])
    threshold = choose_certain(first, [False, True], [True, True], [True, True])
    assert not any(one.is_certain(threshold) for one in first)
    assert choose_certain(passes([None]), [True], [True], [True]) == 0.0


def test_adaptive_search_is_off_if_it_loses_against_full_search():
    assert choose_certain(passes([-0.1]), [True], [False], [True]) is None
