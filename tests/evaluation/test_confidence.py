"""Calibration of confidence: measured, printed, plotted, and stored in the model folder."""

import shutil

import cv2
import numpy as np
import pytest
from typer.testing import CliRunner

from posformer.cli import app
from posformer.errors import PosformerError
from posformer.evaluation.reliability import (
    CalibrationTrial,
    draw_reliability,
    markdown_reliability,
    try_calibration,
)
from posformer.runtime import decode_images, load_runtime
from posformer.runtime.calibration import Calibration
from posformer.search import DecodingOptions, Hypothesis
from tiny import random_images

COUNT = 40


def predictions(count: int = 400) -> list[tuple[Hypothesis, bool]]:
    """Predictions of a model whose accuracy is its probability to the power of 3."""
    random = np.random.default_rng(0)
    found = []
    for total, length in zip(
        -random.exponential(0.7, count), random.integers(1, 30, count), strict=True
    ):
        mean = total / (length + 1)
        hypothesis = Hypothesis(tuple(range(length)), mean, mean, None)
        found.append((hypothesis, bool(random.random() < np.exp(3 * total))))
    return found


@pytest.fixture(scope="module")
def trial() -> CalibrationTrial:
    return try_calibration(predictions(), "made up")


@pytest.fixture(scope="module")
def half_right(tiny_folder, tmp_path_factory):
    """Images of which the small model gets every second one right."""
    folder = tmp_path_factory.mktemp("set") / "data" / "half"
    (folder / "img").mkdir(parents=True)
    images = random_images(0, [(40 + number, 120) for number in range(COUNT)])
    runtime = load_runtime(tiny_folder, threads=1)
    found = decode_images(runtime, images, DecodingOptions(beam=3, scales=1))
    captions = []
    for number, (image, best) in enumerate(zip(images, found, strict=True)):
        cv2.imwrite(str(folder / "img" / f"{number}.bmp"), image)
        tokens = [*runtime.vocabulary.decode(best[0].tokens), *(["x", "="] if number % 2 else [])]
        captions.append("\t".join([str(number), " ".join(tokens or ["x"])]))
    (folder / "caption.txt").write_text("\n".join(captions) + "\n")
    return folder.parents[1]


def test_calibration_is_cross_validated(trial):
    before, after = trial.reliability
    assert after.error < 0.1 < before.error
    assert len(trial.after) == len(trial.correct) == 400
    fitted = trial.calibration.probabilities([hypothesis for hypothesis, _ in predictions()])
    assert 0 < np.abs(trial.after - fitted).max() < 0.2


def test_table_has_errors_bins_and_thresholds(trial):
    text = markdown_reliability(trial)
    before, after = trial.reliability
    assert f"{before.error:.3f} before, {after.error:.3f} after" in text
    assert text.count("–") == len(after.counts)
    assert "| 0.5 |" in text


def test_plot_is_deterministic(trial, tmp_path):
    for name in ("one.svg", "two.svg", "curve.png"):
        draw_reliability(trial, tmp_path / name)
    one, two = ((tmp_path / name).read_bytes() for name in ("one.svg", "two.svg"))
    assert one == two
    assert cv2.imread(str(tmp_path / "curve.png")) is not None


def test_unknown_plot_format_raises_an_error(trial, tmp_path):
    with pytest.raises(PosformerError, match=r"curve\.xyz"):
        draw_reliability(trial, tmp_path / "curve.xyz")


def test_calibrate_command_stores_the_calibration(tiny_folder, half_right, tmp_path):
    model = tmp_path / "model"
    shutil.copytree(tiny_folder, model)
    command = ["calibrate", str(model), "--data", str(half_right), "--split", "half"]
    result = CliRunner().invoke(app, [*command, "--beam", "3", "--threads", "1"])
    assert result.exit_code == 0, result.output
    assert f"{COUNT} predictions, 50.0 % correct" in result.output
    stored = Calibration.from_info(load_runtime(model).info)
    assert stored is not None
    assert stored.count == COUNT
    assert stored.data.endswith("half, beam 3, scales 2")
