"""Scores of photographs by kind."""

import pytest

from posformer.evaluation import Prediction, markdown_table, read_predictions, write_predictions
from posformer.evaluation.kind_scores import score


def prediction(name: str, found: str, kind: str = "scan", source: str = "a") -> Prediction:
    return Prediction(name, ("x", "+", "y"), tuple(found.split()), 0.5, kind, source)


FOUND = [
    prediction("1", "x + y"),
    prediction("2", "X + y"),
    prediction("3", "x + y"),
    prediction("4", "x - y", source="b"),
    prediction("5", "x + y", kind="tablet", source="b"),
]


def test_images_and_sources_are_averaged_strictly_and_without_case():
    scan, tablet, everything = score(FOUND).by_kind
    assert (scan.kind, scan.count, scan.sources) == ("scan", 4, 2)
    assert (scan.exprate, scan.exprate_no_case) == (50, 75)
    assert scan.source_exprate == pytest.approx((200 / 3 + 0) / 2)
    assert scan.source_exprate_no_case == 50
    assert tablet.exprate == 100
    assert (everything.kind, everything.count, everything.exprate) == ("all", 5, 60)


def test_table_and_json_have_kinds_only_for_photographs():
    scores = score(FOUND)
    assert "| scan | 4 | 2 | 50.0 | 75.0 | 33.3 | 50.0 |" in markdown_table(scores)
    assert scores.to_json()["by_kind"][0]["exprate_no_case"] == 75
    plain = score([prediction("1", "x + y", kind="", source="")])
    assert "by_kind" not in plain.to_json() and "kind |" not in markdown_table(plain)


def test_kinds_are_stored_with_predictions(tmp_path):
    write_predictions(tmp_path / "p.jsonl", FOUND)
    assert read_predictions(tmp_path / "p.jsonl") == FOUND
