"""Alignment of ground truth and prediction."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from posformer.evaluation import align, edit_distances

TOKENS = st.lists(st.sampled_from(["x", "2", "^", "{", "}", "\\alpha"]), max_size=9)


def shown(truth: str, prediction: str) -> list[tuple[str | None, str | None, str]]:
    pairs = align(truth.split(), prediction.split())
    return [(pair.truth, pair.prediction, pair.kind) for pair in pairs]


@pytest.mark.parametrize(
    ("truth", "prediction", "differing"),
    [
        ("a + b", "a + b", []),
        ("a + b", "a - b", [("+", "-", "replaced")]),
        ("a + b", "a b", [("+", None, "missing")]),
        ("a b", "a + b", [(None, "+", "extra")]),
        ("x ^ { 2 } y", "x 2 y", [(t, None, "missing") for t in "^{}"]),
        ("\\alpha", "", [("\\alpha", None, "missing")]),
        ("x ^ { b }", "x ^ { 8", [("b", "8", "replaced"), ("}", None, "missing")]),
        ("_ i }", "1 }", [("_", None, "missing"), ("i", "1", "replaced")]),
    ],
)
def test_differing_pairs(truth, prediction, differing):
    assert [pair for pair in shown(truth, prediction) if pair[2] != "same"] == differing


@given(TOKENS, TOKENS)
def test_alignment_keeps_both_sides_and_has_the_edit_distance(truth, prediction):
    pairs = align(truth, prediction)
    assert [pair.truth for pair in pairs if pair.truth] == truth
    assert [pair.prediction for pair in pairs if pair.prediction] == prediction
    differing = sum(pair.kind != "same" for pair in pairs)
    assert differing == edit_distances([truth], [prediction])[0]
