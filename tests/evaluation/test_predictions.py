"""Files of predictions: atomic, and read back unchanged."""

import json

import pytest

from posformer.errors import DataError
from posformer.evaluation import (
    Prediction,
    evaluate_pairs,
    read_predictions,
    write_predictions,
    write_scores,
)

PREDICTIONS = [
    Prediction("a", ("x", "^", "{", "2", "}"), ("x", "^", "{", "2", "}"), 0.75),
    Prediction("b", ("\\frac", "{", "1", "}", "{", "≤", "}"), ()),
]


def test_predictions_are_read_back_unchanged(tmp_path):
    file = tmp_path / "new" / "predictions.jsonl"
    write_predictions(file, PREDICTIONS)
    assert read_predictions(file) == PREDICTIONS
    assert [one.is_correct for one in PREDICTIONS] == [True, False]


def test_a_line_is_a_readable_json_object(tmp_path):
    write_predictions(tmp_path / "p.jsonl", PREDICTIONS)
    lines = (tmp_path / "p.jsonl").read_text(encoding="utf-8").splitlines()
    assert json.loads(lines[0]) == {
        "name": "a",
        "truth": "x ^ { 2 }",
        "prediction": "x ^ { 2 }",
        "confidence": 0.75,
    }
    assert "≤" in lines[1] and "confidence" not in lines[1]


def test_interrupted_write_keeps_the_old_file(tmp_path):
    file = tmp_path / "p.jsonl"
    write_predictions(file, PREDICTIONS)

    def interrupted():
        yield PREDICTIONS[0]
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_predictions(file, interrupted())
    assert read_predictions(file) == PREDICTIONS
    assert list(tmp_path.iterdir()) == [file]


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ("{", "line 2: not a prediction"),
        ('{"name": "b", "truth": "x"}', "line 2: has no 'prediction'"),
        ('{"name": "b", "truth": 1, "prediction": "x"}', "line 2: not a prediction"),
        ("[]", "line 2: not a prediction"),
        ("[" * 100_000, "line 2: not a prediction"),
        (
            '{"name": "b", "truth": "x", "prediction": "x", "confidence": 1' + "0" * 400 + "}",
            "line 2: not a prediction",
        ),
    ],
)
def test_invalid_line_is_named(tmp_path, line, complaint):
    file = tmp_path / "p.jsonl"
    write_predictions(file, PREDICTIONS[:1])
    file.write_text(file.read_text(encoding="utf-8") + line + "\n", encoding="utf-8")
    with pytest.raises(DataError, match=complaint):
        read_predictions(file)


def test_missing_file_is_named(tmp_path):
    with pytest.raises(DataError, match=r"gone\.jsonl"):
        read_predictions(tmp_path / "gone.jsonl")


def test_scores_are_written_as_json(tmp_path):
    scores = evaluate_pairs([["x"]], [["x"]])
    write_scores(tmp_path / "scores.json", scores)
    assert json.loads((tmp_path / "scores.json").read_text()) == scores.to_json()
