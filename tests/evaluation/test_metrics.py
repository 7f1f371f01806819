"""Metrics over token sequences, as defined in the paper."""

import json
import subprocess
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import posformer.evaluation
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


def test_a_command_is_one_token():
    assert edit_distances(tokens("\\alpha + 1"), tokens("a + 1")).tolist() == [1]
    assert edit_distances(tokens("a b"), tokens("ab")).tolist() == [2]


def test_bins_by_level_and_length_depend_on_the_truth_only():
    truths = tokens("x", "x ^ { 2 }", "x ^ { 2 ^ { 2 } }", "+ ".join(["x "] * 8))
    guesses = tokens("x", "x _ { 2 }", "x ^ { 2 ^ { 2 } }", "y")
    scores = evaluate_pairs(truths, guesses)
    assert [(one.first, one.last, one.count, one.exprate) for one in scores.by_level] == [
        (0, 0, 2, 50),
        (1, 1, 1, 0),
        (2, 2, 1, 100),
    ]
    assert [(one.first, one.last, one.count, one.exprate) for one in scores.by_length] == [
        (1, 10, 3, pytest.approx(200 / 3)),
        (11, 20, 1, 0),
    ]


def test_length_ten_is_in_the_first_bin():
    (one,) = evaluate_pairs([["x"] * 10], [["x"]]).by_length
    assert (one.first, one.last) == (1, 10)


def test_syntax_validity_is_the_share_of_well_formed_predictions():
    truths = tokens("x", "x", "x", "x")
    guesses = tokens("y ^ { 2 }", "y ^ { 2", "\\frac { a }", "")
    assert evaluate_pairs(truths, guesses).syntax_validity == 25


def test_malformed_truth_is_evaluated():
    assert evaluate_pairs(tokens("x ^ { 2"), tokens("x ^ { 2")).exprate == 100


def test_json_fields_and_units():
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


def test_wilson_interval():
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
def test_invalid_input_raises_an_error(truths, guesses, complaint):
    with pytest.raises(DataError, match=complaint):
        evaluate_pairs(truths, guesses)


@settings(max_examples=50, deadline=None)
@given(st.lists(st.tuples(EXPRESSIONS, EXPRESSIONS), min_size=1, max_size=6))
def test_metrics_are_ordered_and_bins_add_up(pairs):
    truths, guesses = zip(*pairs, strict=True)
    scores = evaluate_pairs(truths, guesses)
    assert 0 <= scores.exprate <= scores.le1 <= scores.le2 <= scores.le3 <= 100
    low, high = scores.exprate_interval
    assert low <= scores.exprate + 1e-9 and scores.exprate <= high + 1e-9
    for bins in (scores.by_level, scores.by_length):
        assert sum(one.count for one in bins) == len(pairs)
        correct = sum(one.count * one.exprate for one in bins)
        assert correct == pytest.approx(scores.count * scores.exprate)
    assert evaluate_pairs(truths, truths).exprate == 100


@pytest.mark.parametrize(
    ("statement", "heavy"),
    [
        ("import posformer.evaluation.metrics", ["torch", "onnxruntime", "cv2", "matplotlib"]),
        (
            "from posformer.evaluation import evaluate_pairs, markdown_table, read_predictions",
            ["torch", "onnxruntime", "cv2", "matplotlib"],
        ),
        ("import posformer.evaluation.predict", ["torch", "matplotlib"]),
        ("from posformer.explain import force_decode", ["torch", "matplotlib"]),
    ],
)
def test_imports_stay_light(statement, heavy):
    program = f"import sys\n{statement}\nprint(*({set(heavy)!r} & sys.modules.keys()))"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == []


def test_every_public_name_can_be_imported():
    for name in posformer.evaluation.__all__:
        assert getattr(posformer.evaluation, name).__name__ == name
