"""Evaluation of a model on a dataset: the command, image datasets and ink datasets."""

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import cv2
import numpy as np
import pytest
from typer.testing import CliRunner

from posformer import Recognizer
from posformer.cli import app
from posformer.errors import DataError
from posformer.evaluation import Prediction, read_predictions, write_predictions
from posformer.evaluation.predict import open_set, predict
from posformer.models.checkpoint import save_model
from posformer.runtime import load_runtime
from posformer.search import DecodingOptions
from posformer.synthesis.synthesizer import open_synthesizer, write_set
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


def test_metrics_and_predictions_are_written(data: Path, model: Path, tmp_path: Path) -> None:
    metrics, predictions = tmp_path / "m.json", tmp_path / "p.jsonl"
    printed = evaluate(
        "--data", data, "--split", "test", "--model", model, "--greedy",
        "--output", metrics, "--predictions", predictions,
    )  # fmt: skip
    assert "ExpRate" in printed
    content = json.loads(metrics.read_text())
    assert content["count"] == 6
    assert {"exprate", "le1", "le2", "le3", "cer", "by_level", "by_length"} <= set(content)
    assert set(content["by_level"][0]) == {"from", "to", "count", "exprate"}
    found = read_predictions(predictions)
    assert len(found) == 6
    assert all(one.truth for one in found)


def test_report_has_images_and_can_be_repeated_without_a_model(
    data: Path, model: Path, tmp_path: Path
) -> None:
    here = ("--data", data, "--split", "test")
    evaluate(*here, "--model", model, "--greedy", "--report", tmp_path / "first")
    page = (tmp_path / "first" / "index.html").read_text("utf-8")
    assert page.count("data:image/png;base64,") == 6  # the untrained model gets all 6 wrong
    first = tmp_path / "first" / "predictions.jsonl"
    printed = evaluate(
        "--from", first, *here, "--report", tmp_path / "again", "--errors", 2, "--against", first,
        "--label-graphs", tmp_path / "graphs",
    )  # fmt: skip
    again = (tmp_path / "again" / "index.html").read_text("utf-8")
    assert again.count("data:image/png;base64,") == 2
    assert "+0.00 points" in printed and "+0.00 points" in again
    assert len(list((tmp_path / "graphs" / "truth").glob("*.lg"))) == 6
    assert len(list((tmp_path / "graphs" / "prediction").glob("*.lg"))) == 6


def test_report_of_predictions_alone_has_no_images(tmp_path: Path) -> None:
    write_predictions(tmp_path / "p.jsonl", [Prediction("a", ("x",), ("y",), 0.5)])
    printed = evaluate(
        "--from", tmp_path / "p.jsonl", "--split", "2014", "--report", tmp_path / "report"
    )
    assert "1 expressions" in printed and "62.68" in printed  # result of the paper
    assert "<img" not in (tmp_path / "report" / "index.html").read_text("utf-8")


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ((), "--data with --split"),
        (("--data", "x.zip"), "--data with --split"),
        (("--split", "2014"), "--data with --split"),
        (("--from", "p.jsonl", "--data", "x.zip"), "--data with --split"),
        (("--from", "p.jsonl", "--model", "m"), "runs no model"),
    ],
)
def test_conflicting_options_are_wrong_usage(options: tuple[str, ...], complaint: str) -> None:
    result = CliRunner().invoke(app, ["evaluate", *options], env={"COLUMNS": "200"})
    assert result.exit_code == 2
    assert complaint in result.output


def test_confidence_is_that_of_the_recognizer(data: Path, tiny_folder: Path) -> None:
    examples = open_set(data, "test", limit=2)
    runtime = load_runtime(tiny_folder)
    found = list(predict(runtime, examples, DecodingOptions(beam=2, scales=1)))
    recognizer = Recognizer(runtime)
    for number, one in enumerate(found):
        expected = recognizer.recognize(examples.image(number), beam=2, scales=1)
        assert one.prediction == expected.tokens
        assert one.confidence == pytest.approx(expected.confidence, abs=1e-6)


def test_markdown_output_with_a_limit(data: Path, model: Path) -> None:
    printed = evaluate(
        "--data", data, "--split", "test", "--model", model, "--limit", 2, "--beam", 2, "--markdown"
    )
    assert "| **this model** |" in printed
    assert "| ExpRate |" in printed


def test_unknown_split_raises_an_error_listing_the_splits(data: Path) -> None:
    with pytest.raises(DataError, match=r"'2014'.*images of test"):
        open_set(data, "2014")


def test_ink_dataset_is_rendered(
    crohme_ink_zip: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    examples = open_set(crohme_ink_zip, "2013", limit=3)
    assert len(examples) == 3
    image = examples.image(0)
    assert image.max() == 255 and image[:12].max() == 0  # CROHME's margin


WITHOUT_MATPLOTLIB = """
import sys
sys.modules["matplotlib"] = None
sys.argv = ["posformer", *sys.argv[1:]]
from posformer.cli import main
main()
"""


@pytest.mark.parametrize(
    ("options", "code", "message"),
    [
        ((), 0, ""),
        (("--report", "report"), 2, "pip install 'posformer[report]'"),
    ],
)
def test_only_the_report_needs_matplotlib(
    tmp_path: Path, options: tuple[str, ...], code: int, message: str
) -> None:
    write_predictions(tmp_path / "p.jsonl", [Prediction("a", ("x",), ("y",), 0.5)])
    command = [sys.executable, "-c", WITHOUT_MATPLOTLIB, "evaluate", "--from", "p.jsonl", *options]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == code, done.stderr
    assert message in done.stderr and len(done.stderr.splitlines()) == (code != 0)


def test_photographs_are_read_as_by_the_recognizer(tiny_folder: Path, tmp_path: Path) -> None:
    page = np.full((500, 400), 180, np.uint8)
    for top in (60, 300):
        cv2.putText(page, "2+3", (60, top + 80), cv2.FONT_HERSHEY_SIMPLEX, 3, 30, 9)
    (tmp_path / "img").mkdir()
    cv2.imwrite(str(tmp_path / "img/p1.png"), page)
    labels = "name\tkind\ttokens\tsource\np1\tscan\t\\int \\limits _ { 1 } x\ts1\n"
    (tmp_path / "labels.tsv").write_text(labels)
    runtime = load_runtime(tiny_folder)
    for how in ("grey", "binary"):
        image = replace(runtime.config.image, preprocessing=how)
        runtime.config = replace(runtime.config, image=image)
        examples = open_set(tmp_path, tmp_path.name, preprocessing=how)
        options = DecodingOptions(beam=2, scales=1)
        (found,) = predict(runtime, examples, options)
        expected = Recognizer(runtime).recognize(page, options)
        assert len(expected.lines) == 2
        assert found.prediction == tuple(one for one in expected.tokens if one != r"\limits")
        assert found.confidence == pytest.approx(expected.confidence, abs=1e-6)
        assert (found.kind, found.source) == ("scan", "s1")
        assert found.truth == ("\\int", "_", "{", "1", "}", "x")


@pytest.mark.parametrize(
    ("label", "compared"),
    [
        (r"\sum \limits _ { i } x", r"\sum _ { i } x"),
        (r"\begin{aligned} x & = 1 \\ y & = 2 \end{aligned}", r"x = 1 \\ y = 2"),
        (
            r"f = \begin{cases} 1 , & x \\ 2 & y \end{cases}",
            r"f = \begin{cases} 1 , x \\ 2 y \end{cases}",
        ),
        (
            r"\begin{aligned} x & = \begin{pmatrix} 1 & 2 \end{pmatrix} \end{aligned}",
            r"x = \begin{pmatrix} 1 & 2 \end{pmatrix}",
        ),
    ],
)
def test_labels_of_photographs_are_compared_without_alignment(
    tmp_path: Path, label: str, compared: str
) -> None:
    (tmp_path / "img").mkdir()
    cv2.imwrite(str(tmp_path / "img/p1.png"), np.full((40, 40), 255, np.uint8))
    labels = f"name\tkind\ttokens\tsource\np1\tscan\t{label}\ts1\n"
    (tmp_path / "labels.tsv").write_text(labels)
    examples = open_set(tmp_path, tmp_path.name)
    assert examples.captions == [tuple(compared.split())]
