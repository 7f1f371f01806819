"""Calibration of confidence: measured, printed, plotted, and stored in the model folder."""

import shutil

import cv2
import numpy as np
import pytest
from typer.testing import CliRunner

from posformer import Recognizer
from posformer.cli import app
from posformer.errors import PosformerError
from posformer.evaluation.predict import open_set, predict
from posformer.evaluation.reliability import (
    CalibrationTrial,
    Graded,
    draw_reliability,
    markdown_reliability,
    try_calibration,
)
from posformer.runtime import decode_images, load_runtime
from posformer.runtime.calibration import (
    Calibration,
    Calibrations,
    fit_calibration,
    save_calibration,
)
from posformer.search import DecodingOptions, Hypothesis
from tiny import random_images

COUNT = 40


def predictions(count: int = 400, sources: int = 1) -> list[Graded]:
    """Predictions of a model whose accuracy is its probability to the power of 3."""
    random = np.random.default_rng(0)
    found = []
    for total, length in zip(
        -random.exponential(0.7, count), random.integers(1, 30, count), strict=True
    ):
        mean = total / (length + 1)
        hypothesis = Hypothesis(tuple(range(length)), mean, mean, None)
        correct = bool(random.random() < np.exp(3 * total))
        found.append(Graded(hypothesis, correct, 0.0 if correct else 0.2, f"s{length % sources}"))
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
    fitted = trial.calibration.probabilities([one.hypothesis for one in predictions()])
    assert 0 < np.abs(trial.after - fitted).max() < 0.2


def test_sources_are_left_out_as_a_whole():
    found = predictions(400, sources=5)
    odd = [one._replace(correct=not one.correct) if one.source == "s0" else one for one in found]
    after = try_calibration(odd, "").after
    source = np.array([one.source == "s0" for one in odd])
    kept = [one for one in found if one.source != "s0"]
    without = fit_calibration([one.hypothesis for one in kept], [one.correct for one in kept])
    expected = without.probabilities([one.hypothesis for one in odd if one.source == "s0"])
    assert after[source] == pytest.approx(expected)


def test_table_has_errors_bins_and_thresholds(trial):
    text = markdown_reliability(trial)
    before, after = trial.reliability
    assert f"{before.error:.3f} before, {after.error:.3f} after" in text
    assert text.count("–") == len(after.counts)
    assert "| 0.5 |" in text


def test_plot_is_deterministic(trial, tmp_path):
    for name in ("one.svg", "two.svg", "curve.png"):
        draw_reliability({"ink": trial, "photo": trial}, tmp_path / name)
    one, two = ((tmp_path / name).read_bytes() for name in ("one.svg", "two.svg"))
    assert one == two
    assert cv2.imread(str(tmp_path / "curve.png")) is not None


def test_unknown_plot_format_raises_an_error(trial, tmp_path):
    with pytest.raises(PosformerError, match=r"curve\.xyz"):
        draw_reliability({"ink": trial}, tmp_path / "curve.xyz")


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


@pytest.fixture(scope="module")
def labeled_photographs(tiny_folder, tmp_path_factory):
    """Photographs and clean images of which the small model gets every second one right."""
    folder = tmp_path_factory.mktemp("labeled") / "dev"
    (folder / "img").mkdir(parents=True)
    recognizer = Recognizer.load(tiny_folder, threads=1)
    noise, lines = np.random.default_rng(0), ["name\tkind\ttokens\tsource"]
    for number in range(2 * COUNT):
        page = np.full((90, 160), 235, np.uint8)
        x = 20 + number % 7
        cv2.polylines(page, [np.array([[x, 20], [x + 25, 65], [x + 50, 25]])], False, 40, 3)
        cv2.circle(page, (110, 40 + number // 10), 18, 40, 3)
        if number % 4 < 2:
            page = np.clip(page + noise.normal(0, 4, page.shape), 0, 255).astype(np.uint8)
        path = folder / "img" / f"p{number}.png"
        cv2.imwrite(str(path), page)
        tokens = [*recognizer.recognize(path).tokens, *(["x", "="] if number % 2 else [])]
        lines.append(f"p{number}\tscan\t{' '.join(tokens)}\ts{number % 9}")
    (folder / "labels.tsv").write_text("\n".join(lines) + "\n")
    return folder.parent


def test_each_kind_of_input_has_its_own_calibration(
    tiny_folder, half_right, labeled_photographs, tmp_path
):
    model = tmp_path / "model"
    shutil.copytree(tiny_folder, model)
    command = ["calibrate", str(model), "--data", str(half_right), "--split", "half"]
    command += ["--images", f"{labeled_photographs}:dev", "--threads", "1"]
    result = CliRunner().invoke(app, command)
    assert result.exit_code == 0, result.output
    info = load_runtime(model).info
    assert set(info["calibrations"]) == {"photo", "clean"}
    assert {info["calibrations"][kind]["count"] for kind in ("photo", "clean")} == {COUNT}
    calibrations = Calibrations.from_info(info)
    assert calibrations.of("ink") == Calibration.from_info(info) != calibrations.of("photo")
    again = CliRunner().invoke(app, command[:6])  # without images: theirs are dropped
    assert again.exit_code == 0, again.output
    assert "calibrations" not in load_runtime(model).info


def test_recognition_and_evaluation_choose_the_calibration_by_the_input(
    tiny_folder, labeled_photographs, tmp_path
):
    model = tmp_path / "model"
    shutil.copytree(tiny_folder, model)
    constant = {"ink": 0.2, "photo": 0.4, "clean": 0.6}
    ink, *others = (
        Calibration(float(np.log(value / (1 - value))), 0, 0, 0) for value in constant.values()
    )
    save_calibration(model, ink, dict(zip(("photo", "clean"), others, strict=True)))
    recognizer = Recognizer.load(model, threads=1)
    images = labeled_photographs / "dev" / "img"
    for source, kind in (
        (images / "p0.png", "photo"),
        (images / "p2.png", "clean"),
        ([[(0, 0), (30, 40)], [(30, 0), (0, 40)]], "ink"),
    ):
        found = recognizer.recognize(source)
        assert found.confidence == pytest.approx(constant[kind])
        assert found.calibrated
    examples = open_set(labeled_photographs, "dev", limit=4)
    found = [one.confidence for one in predict(recognizer.runtime, examples, DecodingOptions())]
    assert found == pytest.approx([0.4, 0.4, 0.6, 0.6])
