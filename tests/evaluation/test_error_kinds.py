"""What is wrong with a prediction: symbols or structure, too much or too little, syntax."""

import pytest

from posformer.evaluation import ErrorCounts, Prediction, count_errors, find_mistake

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
def test_a_mistake_is_told_by_its_kind(prediction, kind, parsing):
    mistake = find_mistake(TRUTH.split(), prediction.split())
    assert mistake is not None
    assert (mistake.kind, mistake.parsing) == (kind, parsing)


def test_right_symbols_in_a_wrong_place_are_a_mistake_of_structure():
    mistake = find_mistake(["a", "b", "^", "{", "c", "}"], ["a", "^", "{", "b", "c", "}"])
    assert mistake is not None and mistake.kind == "structure"


def test_a_fraction_is_a_symbol_and_a_structure():
    mistake = find_mistake(["\\frac", "{", "a", "}", "{", "b", "}"], ["a", "b"])
    assert mistake is not None
    assert (mistake.kind, mistake.surplus) == ("both", -1)


def test_what_is_right_has_no_mistake():
    assert find_mistake(["x"], ("x",)) is None


def test_kinds_are_counted_over_the_wrong_ones_alone():
    guesses = [TRUTH, "y ^ { 2 } + 1", "x 2 + 1", "x ^ { 2 + 1", "", "x ^ { 2 } + 1 1"]
    predictions = [
        Prediction(str(number), tuple(TRUTH.split()), tuple(guess.split()))
        for number, guess in enumerate(guesses)
    ]
    assert count_errors(predictions) == ErrorCounts(
        wrong=5, symbols=2, structure=2, both=1, over=1, under=1, even=3, malformed=2
    )
