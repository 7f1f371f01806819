"""How far a model's confidence can be trusted is measured, told, drawn, and stored with it."""

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
from posformer.runtime import decode_images, load_runtime, search_options
from posformer.runtime.calibration import Calibration
from posformer.search import Hypothesis
from tiny import random_images

COUNT = 40


def readings(count: int = 400) -> list[tuple[Hypothesis, bool]]:
    """Of a model that is right as often as its probability, to the power 3."""
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
    return try_calibration(readings(), "made up")


@pytest.fixture(scope="module")
def half_right(tiny_folder, tmp_path_factory):
    """Images of which the small model reads every second one right."""
    folder = tmp_path_factory.mktemp("set") / "data" / "half"
    (folder / "img").mkdir(parents=True)
    images = random_images(0, [(40 + number, 120) for number in range(COUNT)])
    runtime = load_runtime(tiny_folder, threads=1)
    found = decode_images(runtime, images, search_options(runtime.config, 3))
    captions = []
    for number, (image, best) in enumerate(zip(images, found, strict=True)):
        cv2.imwrite(str(folder / "img" / f"{number}.bmp"), image)
        words = [*runtime.vocabulary.decode(best[0].tokens), *(["x", "="] if number % 2 else [])]
        captions.append("\t".join([str(number), " ".join(words or ["x"])]))
    (folder / "caption.txt").write_text("\n".join(captions) + "\n")
    return folder.parents[1]


def test_each_reading_is_judged_by_a_curve_that_did_not_see_it(trial):
    before, after = trial.reliability
    assert after.error < 0.1 < before.error
    assert len(trial.after) == len(trial.correct) == 400
    fitted = trial.calibration.chances([hypothesis for hypothesis, _ in readings()])
    assert 0 < np.abs(trial.after - fitted).max() < 0.2


def test_the_table_tells_errors_bins_and_what_thresholds_do(trial):
    text = markdown_reliability(trial)
    before, after = trial.reliability
    assert f"{before.error:.3f} before, {after.error:.3f} after" in text
    assert text.count("–") == len(after.counts)
    assert "| 0.5 |" in text


def test_the_curve_is_drawn_the_same_every_time(trial, tmp_path):
    for name in ("one.svg", "two.svg", "curve.png"):
        draw_reliability(trial, tmp_path / name)
    one, two = ((tmp_path / name).read_bytes() for name in ("one.svg", "two.svg"))
    assert one == two
    assert cv2.imread(str(tmp_path / "curve.png")) is not None


def test_a_curve_that_cannot_be_drawn_is_refused_in_words(trial, tmp_path):
    with pytest.raises(PosformerError, match=r"curve\.xyz"):
        draw_reliability(trial, tmp_path / "curve.xyz")


def test_the_command_stores_the_calibration_in_the_folder(tiny_folder, half_right, tmp_path):
    model = tmp_path / "model"
    shutil.copytree(tiny_folder, model)
    command = ["calibrate", str(model), "--data", str(half_right), "--split", "half"]
    result = CliRunner().invoke(app, [*command, "--beam", "3", "--threads", "1"])
    assert result.exit_code == 0, result.output
    assert f"{COUNT} readings, 50.0 % right" in result.output
    stored = Calibration.from_info(load_runtime(model).info)
    assert stored is not None
    assert stored.count == COUNT
    assert stored.data.endswith("half, beam 3, views 2")
