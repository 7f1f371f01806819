"""Thresholds of a model, chosen on validation data."""

import math

import numpy as np
import pytest

from posformer.errors import ConfigError
from posformer.runtime import Thresholds
from posformer.runtime.thresholds import choose_margin, choose_readable
from posformer.search import Hypothesis


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


def test_the_threshold_of_an_earlier_search_is_ignored():
    assert Thresholds.from_info({"thresholds": {"certain": -0.5}}) == Thresholds()


def two_hypotheses(gap: float, is_better_later: bool) -> dict[tuple[int, ...], np.ndarray]:
    """Scores at two scales: (3,) is ahead at the first one by a log-probability."""
    later = -1.0 if is_better_later else -50.0
    return {
        (3,): np.array([[-0.1, -0.1], [-2.0, -2.0]]),
        (4,): np.array([[-0.1 - gap / 2] * 2, [later] * 2]),  # two tokens with the end
    }


def right(sequences):
    return np.array([one == (4,) for one in sequences])


def test_the_smallest_margin_that_loses_nothing_is_chosen():
    scores = [two_hypotheses(gap, True) for gap in (0.25, 0.45, 2.05)]
    assert choose_margin(scores, right, [False, False, False]) == pytest.approx(0.1)
    assert choose_margin(scores, right, [True, False, False]) == pytest.approx(0.3)
    # Which results are right does not matter, only how many.
    assert choose_margin(scores, right, [False, True, True]) == pytest.approx(0.5)


def test_adaptive_search_is_off_if_it_loses_against_full_search():
    scores = [two_hypotheses(0.25, False), two_hypotheses(9.0, True)]
    assert choose_margin(scores, right, [True, False]) is None


def test_adaptive_search_may_lose_one_image_in_a_hundred():
    lost, won = two_hypotheses(0.25, False), two_hypotheses(0.25, True)
    assert choose_margin([lost, *[won] * 99], right, [True] * 100) == pytest.approx(0.3)
    assert choose_margin([lost, *[won] * 98], right, [True] * 99) is None
