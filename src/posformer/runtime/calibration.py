"""How sure a reading is: from the scores of the search to the chance that it is right."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from posformer.errors import ConfigError
from posformer.models.model_config import from_dict
from posformer.models.model_folder import VOCABULARY, ModelFolder, open_folder, write_folder
from posformer.search import Hypothesis

__all__ = [
    "Calibration",
    "Reliability",
    "confidences",
    "cross_validate",
    "fit_calibration",
    "measure_reliability",
    "save_calibration",
]

_SMALLEST = 1e-6  # so that no reading is called impossible or certain


@dataclass(frozen=True)
class Calibration:
    """A logistic curve over what the search knows of a hypothesis, fitted on validation data.

    The log-odds that a reading is right are bias + total · (log-probability of the whole
    sequence) + mean · (the same for each token) + length · (logarithm of the number of tokens).
    """

    bias: float
    total: float
    mean: float
    length: float
    count: int = 0  # readings it was fitted on
    data: str = ""  # and where they came from

    def chances(self, hypotheses: Sequence[Hypothesis]) -> np.ndarray:
        """The chance of each hypothesis by itself, float64 (hypotheses,)."""
        weights = np.array([self.bias, self.total, self.mean, self.length])
        return np.clip(_logistic(_features(hypotheses) @ weights), _SMALLEST, 1 - _SMALLEST)

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for the `calibration` entry of a model folder's info."""
        return asdict(self)

    @classmethod
    def from_info(cls, info: Mapping[str, Any]) -> Calibration | None:
        """The calibration that a model comes with; None if it comes with none.

        Raises:
            ConfigError: If what is there is no calibration.
        """
        stored = info.get("calibration")
        if stored is None:
            return None
        if not isinstance(stored, dict):
            raise ConfigError(f"calibration: {stored!r} is not a set of numbers")
        found: Calibration = from_dict(cls, stored)
        return found


def confidences(
    hypotheses: Sequence[Hypothesis], calibration: Calibration | None
) -> tuple[float, ...]:
    """How sure the readings of one image are, best first.

    Calibrated, these are chances to be right: at most one reading is, so they never grow down the
    list and sum to at most 1. Uncalibrated, each is the mean probability of its tokens.
    """
    if not hypotheses:
        return ()
    if calibration is None:
        means = [_mean_log_probability(hypothesis) for hypothesis in hypotheses]
        return tuple(float(np.exp(min(mean, 0.0))) for mean in means)
    found: list[float] = []
    for chance in calibration.chances(hypotheses).tolist():
        left = 1.0 - sum(found)
        found.append(max(min(chance, left, *found[-1:]), 0.0))
    return tuple(found)


def fit_calibration(
    hypotheses: Sequence[Hypothesis], correct: Sequence[bool] | np.ndarray, data: str = ""
) -> Calibration:
    """Fit the curve to readings of which it is known whether they are right.

    Args:
        hypotheses: the best hypothesis of each image, found with the settings that will be used.
        correct: whether it is the truth.
        data: what is said of where the images came from.
    """
    outcomes = np.asarray(correct, np.float64)
    if len(outcomes) != len(hypotheses) or len(set(outcomes.tolist())) < 2:
        raise ConfigError("calibration needs readings of both kinds, right and wrong")
    features = _features(hypotheses)
    # Newton's method on standardised features; a little ridge keeps it finite when the readings
    # can be told apart perfectly.
    centre, spread = features.mean(0), features.std(0)
    centre[0], spread[0] = 0.0, 1.0
    spread[spread == 0] = 1.0
    scaled = (features - centre) / spread
    ridge = np.diag([0.0, 1.0, 1.0, 1.0])
    weights = np.zeros(features.shape[1])
    for _ in range(50):
        chances = _logistic(scaled @ weights)
        slope = scaled.T @ (chances - outcomes) + ridge @ weights
        spread_of_outcome = np.maximum(chances * (1 - chances), 1e-9)
        move = np.linalg.solve((scaled.T * spread_of_outcome) @ scaled + ridge, slope)
        weights -= move
        if np.abs(move).max() < 1e-8:
            break
    weights[1:] /= spread[1:]
    weights[0] -= weights[1:] @ centre[1:]
    bias, total, mean, length = weights.tolist()
    return Calibration(bias, total, mean, length, len(outcomes), data)


def cross_validate(
    hypotheses: Sequence[Hypothesis],
    correct: Sequence[bool] | np.ndarray,
    folds: int = 10,
    seed: int = 0,
) -> np.ndarray:
    """How sure a curve is of readings that it was not fitted on, float64 (readings,).

    Args:
        hypotheses: see `fit_calibration`.
        correct: likewise.
        folds: parts; the curve for each is fitted on all others.
        seed: of how readings are sharded out to them.
    """
    outcomes = np.asarray(correct, bool)
    fold = np.random.default_rng(seed).permutation(len(outcomes)) % folds
    found = np.empty(len(outcomes))
    for number in range(min(folds, len(outcomes))):
        held = fold == number
        rest = [hypotheses[place] for place in np.flatnonzero(~held).tolist()]
        curve = fit_calibration(rest, outcomes[~held])
        found[held] = curve.chances([hypotheses[place] for place in np.flatnonzero(held).tolist()])
    return found


def save_calibration(path: str | os.PathLike[str], calibration: Calibration) -> ModelFolder:
    """Store a calibration in a model folder; all else in it stays as it is."""
    folder = open_folder(path)
    files = {name: folder.file(name) for name in folder.checksums if name != VOCABULARY}
    info = {**folder.info, "calibration": calibration.to_dict()}
    return write_folder(folder.path, folder.config, folder.vocabulary, files, info)


@dataclass(frozen=True)
class Reliability:
    """How often readings of like confidence are right."""

    bounds: tuple[float, ...]  # of the bins; one more than there are bins
    counts: tuple[int, ...]
    confidence: tuple[float, ...]  # mean in each bin; NaN where it is empty
    accuracy: tuple[float, ...]
    error: float  # mean gap between the two over all readings


def measure_reliability(
    confidence: Sequence[float] | np.ndarray, correct: Sequence[bool] | np.ndarray, bins: int = 10
) -> Reliability:
    """The reliability curve, and the expected calibration error."""
    sure, right = np.asarray(confidence, np.float64), np.asarray(correct, np.float64)
    bounds = np.linspace(0, 1, bins + 1)
    place = np.clip(np.digitize(sure, bounds) - 1, 0, bins - 1)
    counts = np.bincount(place, minlength=bins)
    with np.errstate(invalid="ignore"):
        mean = np.bincount(place, sure, bins) / counts
        rate = np.bincount(place, right, bins) / counts
    gap = np.nansum(np.abs(mean - rate) * counts) / max(len(sure), 1)
    return Reliability(
        tuple(bounds.tolist()),
        tuple(counts.tolist()),
        tuple(mean.tolist()),
        tuple(rate.tolist()),
        float(gap),
    )


def _logistic(odds: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-np.clip(odds, -50, 50)))


def _mean_log_probability(hypothesis: Hypothesis) -> float:
    """Of a token, over the directions that scored the hypothesis."""
    known = [score for score in (hypothesis.forward, hypothesis.backward) if score is not None]
    return float(np.mean(known)) if known else hypothesis.score


def _features(hypotheses: Sequence[Hypothesis]) -> np.ndarray:
    """float64 (hypotheses, 4): 1, log-probability, mean log-probability, log of the length."""
    lengths = np.array([len(hypothesis.tokens) + 1 for hypothesis in hypotheses], np.float64)
    means = np.array([_mean_log_probability(hypothesis) for hypothesis in hypotheses])
    return np.stack([np.ones_like(means), means * lengths, means, np.log(lengths)], axis=1)
