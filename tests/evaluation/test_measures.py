"""The measures: tokens compared as tokens, counted as the paper counts."""

import json
import subprocess
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from posformer.errors import DataError
from posformer.evaluation import edit_distances, evaluate_pairs
from posformer.evaluation.metrics import wilson_interval

EXPRESSIONS = st.lists(
    st.sampled_from(["x", "2", "^", "{", "}", "\\alpha"]), min_size=1, max_size=9
)


def tokens(*captions: str) -> list[list[str]]:
    return [caption.split() for caption in captions]


def test_exprate_counts_exact_expressions_and_le_k_tolerates_k_edits():
    truths = tokens("a b c d", "a b c d", "a b c d", "a b c d", "a b c d")
    guesses = tokens("a b c d", "a b c", "a x c y", "d", "")
    scores = evaluate_pairs(truths, guesses)
    assert (scores.exprate, scores.le1, scores.le2, scores.le3) == (20, 40, 60, 80)
    assert scores.cer == pytest.approx((0 + 1 + 2 + 3 + 4) / 20)
    assert scores.count == 5


def test_a_command_for_a_letter_is_one_error_and_not_six():
    assert edit_distances(tokens("\\alpha + 1"), tokens("a + 1")).tolist() == [1]
    assert edit_distances(tokens("a b"), tokens("ab")).tolist() == [2]


def test_rows_by_level_and_length_know_the_truth_only():
    truths = tokens("x", "x ^ { 2 }", "x ^ { 2 ^ { 2 } }", "+ ".join(["x "] * 8))
    guesses = tokens("x", "x _ { 2 }", "x ^ { 2 ^ { 2 } }", "y")
    scores = evaluate_pairs(truths, guesses)
    assert [(row.first, row.last, row.count, row.exprate) for row in scores.by_level] == [
        (0, 0, 2, 50),
        (1, 1, 1, 0),
        (2, 2, 1, 100),
    ]
    assert [(row.first, row.last, row.count, row.exprate) for row in scores.by_length] == [
        (1, 10, 3, pytest.approx(200 / 3)),
        (11, 20, 1, 0),
    ]


def test_a_length_of_ten_belongs_to_the_first_ten():
    (row,) = evaluate_pairs([["x"] * 10], [["x"]]).by_length
    assert (row.first, row.last) == (1, 10)


def test_syntax_validity_asks_only_whether_predictions_are_well_formed():
    truths = tokens("x", "x", "x", "x")
    guesses = tokens("y ^ { 2 }", "y ^ { 2", "\\frac { a }", "")
    assert evaluate_pairs(truths, guesses).syntax_validity == 25


def test_truth_that_is_not_well_formed_still_counts():
    assert evaluate_pairs(tokens("x ^ { 2"), tokens("x ^ { 2")).exprate == 100


def test_json_has_the_promised_names_and_units():
    scores = evaluate_pairs(tokens("x ^ { 2 }", "y"), tokens("x ^ { 2 }", "z"))
    stored = json.loads(json.dumps(scores.to_json()))
    assert stored["count"] == 2
    assert stored["exprate"] == 50 and stored["le1"] == stored["le2"] == stored["le3"] == 100
    assert stored["cer"] == pytest.approx(1 / 6)
    assert stored["by_level"] == [
        {"from": 0, "to": 0, "count": 1, "exprate": 0},
        {"from": 1, "to": 1, "count": 1, "exprate": 100},
    ]
    assert stored["by_length"] == [{"from": 1, "to": 10, "count": 2, "exprate": 50}]


def test_the_interval_is_wilsons():
    low, high = wilson_interval(618, 986)
    assert (low, high) == (pytest.approx(59.62, abs=0.01), pytest.approx(65.64, abs=0.01))
    assert wilson_interval(0, 10)[0] == 0 and wilson_interval(10, 10)[1] == pytest.approx(100)


@pytest.mark.parametrize(
    ("truths", "guesses", "complaint"),
    [
        ([], [], "no expressions"),
        ([["x"]], [], "1 expressions but 0 predictions"),
        ([["x"], []], [["x"], ["x"]], "expression 2 has no tokens"),
    ],
)
def test_what_cannot_be_measured_is_refused(truths, guesses, complaint):
    with pytest.raises(DataError, match=complaint):
        evaluate_pairs(truths, guesses)


@settings(max_examples=50, deadline=None)
@given(st.lists(st.tuples(EXPRESSIONS, EXPRESSIONS), min_size=1, max_size=6))
def test_measures_are_ordered_and_rows_add_up(pairs):
    truths, guesses = zip(*pairs, strict=True)
    scores = evaluate_pairs(truths, guesses)
    assert 0 <= scores.exprate <= scores.le1 <= scores.le2 <= scores.le3 <= 100
    low, high = scores.exprate_interval
    assert low <= scores.exprate + 1e-9 and scores.exprate <= high + 1e-9
    for rows in (scores.by_level, scores.by_length):
        assert sum(row.count for row in rows) == len(pairs)
        right = sum(row.count * row.exprate for row in rows)
        assert right == pytest.approx(scores.count * scores.exprate)
    assert evaluate_pairs(truths, truths).exprate == 100


def test_measuring_does_not_load_pytorch():
    program = "import sys, posformer.evaluation; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
