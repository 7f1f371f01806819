"""Paired comparison of two models."""

import pytest

from posformer.errors import DataError
from posformer.evaluation import Prediction, compare


def predictions(outcomes: str, first: int = 0) -> list[Prediction]:
    """One expression per letter: `r` for right, `w` for wrong."""
    return [
        Prediction(str(number), ("x",), ("x",) if outcome == "r" else ("y",))
        for number, outcome in enumerate(outcomes, start=first)
    ]


def test_gained_and_lost_expressions_are_found_and_tested():
    found = compare(predictions("rrrrrrrwww"), predictions("rrwwwwwrrw"))
    assert found.gained == (2, 3, 4, 5, 6) and found.lost == (7, 8)
    assert (found.both_right, found.both_wrong) == (2, 1)
    assert found.difference == pytest.approx(30)
    assert found.p_value == pytest.approx(0.453125)
    assert found.interval[0] < 30 < found.interval[1]
    assert "+30.00 points" in found.summary() and "p = 0.45" in found.summary()


def test_only_common_expressions_are_compared():
    found = compare(predictions("rrr", first=0), predictions("www", first=1))
    assert [one.name for one in found.own] == [one.name for one in found.others] == ["1", "2"]
    assert found.left_out == 2
    assert found.difference == 100


@pytest.mark.parametrize(
    ("others", "complaint"),
    [
        (predictions("r", first=7), "no expression in common"),
        ([Prediction("0", ("z",), ("x",))], "0: .* different truths"),
        (predictions("r") * 2, "0: occurs twice"),
    ],
)
def test_incompatible_sets_raise_an_error(others, complaint):
    with pytest.raises(DataError, match=complaint):
        compare(predictions("rw"), others)
