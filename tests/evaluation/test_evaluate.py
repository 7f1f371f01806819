"""Measuring a model on a data set, from the command line and on pictures and ink."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from posformer.cli import app
from posformer.data import DataError
from posformer.data.synthesis import open_synthesizer, write_set
from posformer.evaluation.evaluate import open_set
from posformer.evaluation.predictions import read_predictions
from posformer.model.weights import save_model
from tiny import tiny_model


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("data") / "own.zip"
    synthesizer = open_synthesizer(levels="0-1", max_tokens=8)
    assert len(list(write_set(path, synthesizer, 6, seed=3, split="test"))) == 6
    return path


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("model") / "tiny"
    save_model(tiny_model(), folder)
    return folder


def evaluate(*options: object) -> str:
    result = CliRunner().invoke(app, ["evaluate", *map(str, options)], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.output


def test_measures_and_predictions_are_written(data: Path, model: Path, tmp_path: Path) -> None:
    measures, predictions = tmp_path / "m.json", tmp_path / "p.jsonl"
    printed = evaluate(
        "--data", data, "--split", "test", "--model", model, "--greedy",
        "--output", measures, "--predictions", predictions,
    )  # fmt: skip
    assert "ExpRate" in printed
    content = json.loads(measures.read_text())
    assert content["count"] == 6
    assert {"exprate", "le1", "le2", "le3", "cer", "by_level", "by_length"} <= set(content)
    assert set(content["by_level"][0]) == {"from", "to", "count", "exprate"}
    found = read_predictions(predictions)
    assert len(found) == 6
    assert all(one.truth for one in found)


def test_markdown_and_a_limit(data: Path, model: Path) -> None:
    printed = evaluate(
        "--data", data, "--split", "test", "--model", model, "--limit", 2, "--beam", 2, "--markdown"
    )
    assert "| **this model** |" in printed
    assert "| ExpRate |" in printed


def test_a_split_that_is_not_there_is_named(data: Path) -> None:
    with pytest.raises(DataError, match=r"'2014'.*pictures of test"):
        open_set(data, "2014")


def test_a_set_of_ink_is_drawn(
    crohme_ink_zip: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    examples = open_set(crohme_ink_zip, "2013", limit=3)
    assert len(examples) == 3
    picture = examples.picture(0)
    assert picture.max() == 255 and picture[:12].max() == 0  # CROHME's margin
