"""Calibration of confidences."""

import shutil

import numpy as np
import pytest

from posformer.errors import ConfigError
from posformer.models.model_folder import open_folder
from posformer.runtime import load_runtime
from posformer.runtime.calibration import (
    Calibration,
    Calibrations,
    confidences,
    fit_calibration,
    measure_reliability,
    save_calibration,
)
from posformer.search import Hypothesis


def hypothesis(mean: float, length: int = 9, backward: float | None = None) -> Hypothesis:
    score = mean if backward is None else mean + backward
    return Hypothesis(tuple(range(3, 3 + length)), score, mean, backward)


def readings(count: int, seed: int) -> tuple[list[Hypothesis], np.ndarray]:
    """An overconfident model: correct with the cube of its probability."""
    random = np.random.default_rng(seed)
    lengths = random.integers(1, 40, count)
    totals = -random.exponential(0.7, count)
    found = [
        hypothesis(total / (length + 1), int(length))
        for total, length in zip(totals, lengths, strict=True)
    ]
    return found, random.random(count) < np.exp(3 * totals)


def test_fitted_confidence_matches_accuracy():
    calibration = fit_calibration(*readings(4000, 0), data="synthetic")
    fresh, correct = readings(4000, 1)
    sure = [confidences([one], calibration)[0] for one in fresh]
    plain = [confidences([one], None)[0] for one in fresh]
    fitted = measure_reliability(sure, correct)
    assert fitted.error < 0.04
    assert measure_reliability(plain, correct).error > 0.3
    assert sum(fitted.counts) == 4000
    assert (calibration.count, calibration.data) == (4000, "synthetic")


def test_separable_results_give_finite_weights():
    good, bad = [hypothesis(-0.01)] * 20, [hypothesis(-2.0)] * 20
    calibration = fit_calibration(good + bad, [True] * 20 + [False] * 20)
    assert confidences(good[:1], calibration)[0] > 0.8
    assert confidences(bad[:1], calibration)[0] < 0.2


def test_calibration_needs_correct_and_wrong_results():
    with pytest.raises(ConfigError, match="both correct and wrong"):
        fit_calibration([hypothesis(-0.1)] * 3, [True] * 3)


def test_confidences_of_alternatives_sum_to_at_most_one():
    calibration = Calibration(bias=3.0, total=0.5, mean=0.0, length=0.0)
    found = [hypothesis(-0.1), hypothesis(-0.1), hypothesis(-0.2)]
    sure = confidences(found, calibration)
    assert sorted(sure, reverse=True) == list(sure)
    assert sum(sure) <= 1
    assert min(sure) >= 0


def test_uncalibrated_confidence_is_the_mean_token_probability():
    assert confidences([hypothesis(np.log(0.8))], None) == pytest.approx((0.8,))
    both = hypothesis(np.log(0.9), backward=np.log(0.4))
    assert confidences([both], None) == pytest.approx((0.6,))
    assert confidences([], None) == ()


def test_calibration_is_read_from_model_info():
    calibration = Calibration(1.0, 2.0, 3.0, 4.0, 5, "some")
    assert Calibration.from_info({"calibration": calibration.to_dict()}) == calibration
    assert Calibration.from_info({}) is None
    for wrong in ("high", {"bias": "x"}):
        with pytest.raises(ConfigError):
            Calibration.from_info({"calibration": wrong})


def test_calibration_is_stored_in_a_model_folder(tiny_folder, tmp_path):
    copy = tmp_path / "model"
    shutil.copytree(tiny_folder, copy)
    before = open_folder(copy)
    calibration = Calibration(1.0, 2.0, 3.0, 4.0)
    after = save_calibration(copy, calibration)
    assert Calibration.from_info(after.info) == calibration
    assert after.checksums == before.checksums
    assert load_runtime(copy).info == after.info


def test_kinds_without_a_calibration_use_that_for_ink():
    ink, photo = Calibration(1.0, 0.5, 2.0, -0.5), Calibration(2.0, 0.1, 3.0, -0.2)
    info = {"calibration": ink.to_dict(), "calibrations": {"photo": photo.to_dict()}}
    found = Calibrations.from_info(info)
    assert (found.of("ink"), found.of("photo"), found.of("clean")) == (ink, photo, ink)
    assert Calibrations.from_info({}).of("photo") is None
    assert Calibrations.from_info({"calibration": ink.to_dict()}).of("photo") == ink
    for broken in ("x", {"photo": 3}):
        with pytest.raises(ConfigError, match="calibration"):
            Calibrations.from_info({"calibrations": broken})
