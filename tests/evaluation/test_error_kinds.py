"""Error analysis: symbols or structure, over- or under-parsing, syntax."""

import pytest

from posformer.evaluation import ErrorCounts, Prediction, analyze_error, count_errors

TRUTH = "x ^ { 2 } + 1"


@pytest.mark.parametrize(
    ("prediction", "kind", "parsing"),
    [
        ("y ^ { 2 } + 1", "symbols", "even"),
        ("x ^ { 2 } 1", "symbols", "under"),
        ("x ^ { 2 } + 1 1", "symbols", "over"),
        ("x 2 + 1", "structure", "even"),
        ("x _ { 2 } + 1", "structure", "even"),
        ("x ^ { 2 + 1 }", "structure", "even"),
        ("y 2 + 1", "both", "even"),
        ("x ^ { 2 } + \\frac { 1 } { }", "both", "over"),
        ("", "both", "under"),
    ],
)
def test_kind_of_error(prediction, kind, parsing):
    error = analyze_error(TRUTH.split(), prediction.split())
    assert error is not None
    assert (error.kind, error.parsing) == (kind, parsing)


def test_misplaced_symbols_are_a_structure_error():
    error = analyze_error(["a", "b", "^", "{", "c", "}"], ["a", "^", "{", "b", "c", "}"])
    assert error is not None and error.kind == "structure"


def test_a_fraction_is_both_symbol_and_structure():
    error = analyze_error(["\\frac", "{", "a", "}", "{", "b", "}"], ["a", "b"])
    assert error is not None
    assert (error.kind, error.surplus) == ("both", -1)


def test_a_correct_prediction_has_no_error():
    assert analyze_error(["x"], ("x",)) is None


def test_kinds_are_counted_over_wrong_predictions():
    guesses = [TRUTH, "y ^ { 2 } + 1", "x 2 + 1", "x ^ { 2 + 1", "", "x ^ { 2 } + 1 1"]
    predictions = [
        Prediction(str(number), tuple(TRUTH.split()), tuple(guess.split()))
        for number, guess in enumerate(guesses)
    ]
    assert count_errors(predictions) == ErrorCounts(
        wrong=5, symbols=2, structure=2, both=1, over=1, under=1, even=3, malformed=2
    )
