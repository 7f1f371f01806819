"""Bootstrap intervals and McNemar's test, checked against exact values."""

import numpy as np
import pytest

from posformer.evaluation import bootstrap_difference, bootstrap_intervals, mcnemar
from posformer.evaluation.significance import (
    bootstrap_group_mean,
    bootstrap_groups,
    bootstrap_sums,
)


@pytest.mark.parametrize(
    ("first", "second", "p_value"),
    [
        (0, 0, 1),
        (1, 0, 1),
        (3, 3, 1),
        (5, 2, 2 * (1 + 7 + 21) / 2**7),
        (2, 5, 2 * (1 + 7 + 21) / 2**7),
        (10, 0, 2 / 2**10),
        (8, 1, 2 * (1 + 9) / 2**9),
    ],
)
def test_mcnemar_sums_the_tails_of_the_binomial_distribution(first, second, p_value):
    assert mcnemar(first, second) == pytest.approx(p_value)


def test_mcnemar_is_exact_for_many_expressions():
    # 600 heads of 1,000: 6.29 standard deviations off with the correction for continuity
    assert mcnemar(600, 400) == pytest.approx(2.7e-10, rel=0.1)
    assert 0 < mcnemar(20_000, 15_000) < 1e-100


def test_interval_has_the_width_of_the_binomial_distribution():
    intervals = bootstrap_intervals([0, 5] * 200, [10] * 400)
    # standard deviation of a share of one half among 400: 2.5 points
    assert intervals.exprate == pytest.approx((50 - 1.96 * 2.5, 50 + 1.96 * 2.5), abs=0.7)
    assert intervals.le3 == intervals.exprate
    assert intervals.cer == pytest.approx(
        tuple(0.5 * (1 - bound / 100) for bound in reversed(intervals.exprate))
    )


def test_constant_values_have_an_interval_without_width():
    intervals = bootstrap_intervals([1, 1, 1], [4, 4, 4])
    assert intervals.exprate == (0, 0) and intervals.le1 == (100, 100)
    assert intervals.cer == (0.25, 0.25)


def test_intervals_are_deterministic():
    distances, lengths = np.arange(50) % 4, np.arange(1, 51)
    assert bootstrap_intervals(distances, lengths) == bootstrap_intervals(distances, lengths)
    assert bootstrap_intervals(distances, lengths) != bootstrap_intervals(
        distances, lengths, seed=1
    )


def test_difference_is_paired():
    right = [True, False] * 200
    assert bootstrap_difference(right, right) == (0, 0)
    assert bootstrap_difference([True] * 9, [False] * 9) == (100, 100)
    low, high = bootstrap_difference(right, [False] * 400)
    assert (low, high) == pytest.approx((45.1, 54.9), abs=0.7)


def test_columns_are_resampled_together():
    values = np.random.default_rng(0).integers(0, 3, (40, 2)).astype(float)
    sums = bootstrap_sums(np.column_stack([values, values.sum(axis=1)]), samples=50)
    assert sums.shape == (50, 3)
    np.testing.assert_allclose(sums[:, 0] + sums[:, 1], sums[:, 2])
    assert len(np.unique(sums[:, 2])) > 10


def test_groups_are_resampled_as_a_whole():
    # Ten texts by twenty writers each; a text is read by all writers or by none.
    correct, texts = np.repeat([True, False] * 5, 20), np.repeat(np.arange(10), 20).astype(str)
    low, high = bootstrap_groups(correct, texts)
    assert 15 <= low <= 25 and 75 <= high <= 85  # like ten independent results, not two hundred
    every = bootstrap_groups(correct, np.arange(200).astype(str))
    assert every[0] > 40 and every[1] < 60


def test_the_mean_of_groups_counts_each_group_once():
    correct, sources = [True] * 90 + [False] * 10, ["large"] * 90 + ["small"] * 10
    assert bootstrap_group_mean(correct, sources) == (0, 100)
    low, high = bootstrap_group_mean([True, False] * 50, ["a"] * 50 + ["b"] * 50)
    assert (low, high) == (50, 50)
