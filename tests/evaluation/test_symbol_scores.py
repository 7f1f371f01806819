"""How well each symbol is read, and what it is taken for."""

import pytest

from posformer.evaluation import Confusion, Prediction, count_confusions, score_symbols


def predictions(*pairs: tuple[str, str]) -> list[Prediction]:
    return [
        Prediction(str(number), tuple(truth.split()), tuple(guess.split()))
        for number, (truth, guess) in enumerate(pairs)
    ]


READ = predictions(
    ("x + x", "x + x"),
    ("x + y", "x y"),
    ("x ^ { 2 }", "y ^ { 2 }"),
    ("z", "z z"),
)


def test_a_symbol_is_scored_where_it_stands():
    x = {score.token: score for score in score_symbols(READ)}["x"]
    assert (x.count, x.read, x.predicted, x.expressions) == (4, 3, 3, 3)
    assert x.recall == 75 and x.precision == 100
    assert x.exprate == pytest.approx(100 / 3)


def test_a_symbol_may_be_predicted_more_often_than_it_is_there():
    y = {score.token: score for score in score_symbols(READ)}["y"]
    assert (y.count, y.read, y.predicted) == (1, 1, 2)
    assert y.recall == 100 and y.precision == 50 and y.exprate == 0


def test_the_most_frequent_come_first_and_braces_not_at_all():
    tokens = [score.token for score in score_symbols(READ)]
    assert tokens == ["x", "+", "2", "^", "y", "z"]


def test_a_symbol_that_is_never_there_has_no_recall():
    (a,) = (score for score in score_symbols(predictions(("b", "a"))) if score.token == "a")
    assert (a.count, a.recall, a.precision, a.exprate) == (0, 0, 0, 0)


def test_confusions_are_what_was_replaced_left_out_and_made_up():
    assert count_confusions(READ) == (
        Confusion(None, "z", 1),
        Confusion("+", None, 1),
        Confusion("x", "y", 1),
    )
    twice = predictions(("a", "b"), ("a", "b"), ("c", "d"))
    assert count_confusions(twice)[0] == Confusion("a", "b", 2)


def test_braces_alone_are_no_confusion():
    found = count_confusions(predictions(("x ^ { 2 }", "x 2")))
    assert found == (Confusion("^", None, 1),)
