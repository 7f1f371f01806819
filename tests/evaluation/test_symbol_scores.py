"""Recall and precision of symbols, and confusions between them."""

import pytest

from posformer.evaluation import Confusion, Prediction, count_confusions, score_symbols


def predictions(*pairs: tuple[str, str]) -> list[Prediction]:
    return [
        Prediction(str(number), tuple(truth.split()), tuple(guess.split()))
        for number, (truth, guess) in enumerate(pairs)
    ]


PREDICTIONS = predictions(
    ("x + x", "x + x"),
    ("x + y", "x y"),
    ("x ^ { 2 }", "y ^ { 2 }"),
    ("z", "z z"),
)


def test_symbols_are_scored_by_position():
    x = {score.token: score for score in score_symbols(PREDICTIONS)}["x"]
    assert (x.count, x.correct, x.predicted, x.expressions) == (4, 3, 3, 3)
    assert x.recall == 75 and x.precision == 100
    assert x.exprate == pytest.approx(100 / 3)


def test_extra_predictions_lower_precision():
    y = {score.token: score for score in score_symbols(PREDICTIONS)}["y"]
    assert (y.count, y.correct, y.predicted) == (1, 1, 2)
    assert y.recall == 100 and y.precision == 50 and y.exprate == 0


def test_symbols_are_sorted_by_frequency_without_braces():
    tokens = [score.token for score in score_symbols(PREDICTIONS)]
    assert tokens == ["x", "+", "2", "^", "y", "z"]


def test_symbol_that_never_occurs_has_no_recall():
    (a,) = (score for score in score_symbols(predictions(("b", "a"))) if score.token == "a")
    assert (a.count, a.recall, a.precision, a.exprate) == (0, 0, 0, 0)


def test_confusions_are_replaced_missing_and_extra_symbols():
    assert count_confusions(PREDICTIONS) == (
        Confusion(None, "z", 1),
        Confusion("+", None, 1),
        Confusion("x", "y", 1),
    )
    twice = predictions(("a", "b"), ("a", "b"), ("c", "d"))
    assert count_confusions(twice)[0] == Confusion("a", "b", 2)


def test_braces_are_not_confusions():
    found = count_confusions(predictions(("x ^ { 2 }", "x 2")))
    assert found == (Confusion("^", None, 1),)
