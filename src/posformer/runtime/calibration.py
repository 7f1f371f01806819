"""Confidence: from the scores of the search to the probability that a result is correct."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from posformer.errors import ConfigError
from posformer.models.model_config import from_dict
from posformer.models.model_folder import ModelFolder, open_folder, store_info
from posformer.search import Hypothesis

_Outcomes = Sequence[bool] | NDArray[np.bool_]

DEFAULT_KIND = "ink"

_MIN_PROBABILITY = 1e-6  # no result is impossible or certain


@dataclass(frozen=True)
class Calibration:
    """Logistic regression over the scores of a hypothesis, fitted on validation data.

    The log-odds that a hypothesis is correct are bias + total · (log-probability of the sequence)
    + mean · (log-probability per token) + length · (logarithm of the number of tokens).
    """

    bias: float
    total: float
    mean: float
    length: float
    count: int = 0  # hypotheses it was fitted on
    data: str = ""  # description of the validation data

    def probabilities(self, hypotheses: Sequence[Hypothesis]) -> NDArray[np.float64]:
        """Return the probability that each hypothesis is correct, float64 (hypotheses,)."""
        weights = np.array([self.bias, self.total, self.mean, self.length])
        probabilities = _logistic(_features(hypotheses) @ weights)
        return np.clip(probabilities, _MIN_PROBABILITY, 1 - _MIN_PROBABILITY)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, for the `calibration` entry of a model folder's info."""
        return asdict(self)

    @classmethod
    def from_info(cls, info: Mapping[str, Any]) -> Calibration | None:
        """Return the calibration in the info of a model, or None if there is none.

        Raises:
            ConfigError: If the entry is not a calibration.
        """
        stored = info.get("calibration")
        if not isinstance(stored, dict | None):
            raise ConfigError(f"calibration: {stored!r} is not a set of numbers")
        return None if stored is None else from_dict(cls, stored)


@dataclass(frozen=True)
class Calibrations:
    """The calibrations of a model by kind of input: `ink`, `photo`, `clean`."""

    by_kind: Mapping[str, Calibration]

    def of(self, kind: str) -> Calibration | None:
        """Return the calibration for a kind of input; by default that for ink."""
        return self.by_kind.get(kind, self.by_kind.get(DEFAULT_KIND))

    @classmethod
    def from_info(cls, info: Mapping[str, Any]) -> Calibrations:
        """Return the calibrations in the info of a model.

        Raises:
            ConfigError: If an entry is not a calibration.
        """
        default, others = Calibration.from_info(info), info.get("calibrations", {})
        if not isinstance(others, dict):
            raise ConfigError(f"calibrations: {others!r} has no kinds of input")
        found = {kind: Calibration.from_info({"calibration": one}) for kind, one in others.items()}
        found.setdefault(DEFAULT_KIND, default)
        return cls({kind: one for kind, one in found.items() if one is not None})


def confidences(
    hypotheses: Sequence[Hypothesis], calibration: Calibration | None
) -> tuple[float, ...]:
    """Return the confidence of each hypothesis of one image.

    With a calibration these are probabilities of being correct. At most one hypothesis is correct,
    so they never increase and sum to at most 1. Without, each is the mean token probability.

    Args:
        hypotheses: Hypotheses of one image, best first.
        calibration: The calibration of the model, if any.
    """
    if calibration is None or not hypotheses:
        means = [_mean_log_probability(hypothesis) for hypothesis in hypotheses]
        return tuple(float(np.exp(min(mean, 0.0))) for mean in means)
    found: list[float] = []
    for probability in calibration.probabilities(hypotheses).tolist():
        left = 1.0 - sum(found)
        found.append(max(min(probability, left, *found[-1:]), 0.0))
    return tuple(found)


def fit_calibration(
    hypotheses: Sequence[Hypothesis], correct: _Outcomes, data: str = ""
) -> Calibration:
    """Fit a calibration.

    Args:
        hypotheses: The best hypothesis of each image, found with the options used in production.
        correct: Whether each of them is correct, bool (hypotheses,).
        data: Description of the images.

    Raises:
        ConfigError: If all hypotheses are correct, or none.
    """
    outcomes = np.asarray(correct, np.float64)
    if len(outcomes) != len(hypotheses) or len(set(outcomes.tolist())) < 2:
        raise ConfigError("calibration needs both correct and wrong results")
    features = _features(hypotheses)
    # Newton's method on standardized features. A small ridge keeps the weights finite when the
    # classes are separable.
    mean, deviation = features.mean(0), features.std(0)
    mean[0], deviation[0] = 0.0, 1.0
    deviation[deviation == 0] = 1.0
    scaled = (features - mean) / deviation
    ridge = np.diag([0.0, 1.0, 1.0, 1.0])
    weights = np.zeros(features.shape[1])
    for _ in range(50):
        probabilities = _logistic(scaled @ weights)
        gradient = scaled.T @ (probabilities - outcomes) + ridge @ weights
        variance = np.maximum(probabilities * (1 - probabilities), 1e-9)
        step = np.linalg.solve((scaled.T * variance) @ scaled + ridge, gradient)
        weights -= step
        if np.abs(step).max() < 1e-8:
            break
    weights[1:] /= deviation[1:]
    weights[0] -= weights[1:] @ mean[1:]
    bias, total, per_token, length = weights.tolist()
    return Calibration(bias, total, per_token, length, len(outcomes), data)


def cross_validate(
    hypotheses: Sequence[Hypothesis],
    correct: _Outcomes,
    folds: int = 10,
    seed: int = 0,
    groups: Sequence[str] | None = None,
) -> NDArray[np.float64]:
    """Return cross-validated confidences, float64 (hypotheses,).

    Args:
        hypotheses: See `fit_calibration`.
        correct: See `fit_calibration`.
        folds: Number of folds; each is predicted by a calibration fitted on the others.
        seed: Random seed of the assignment to folds.
        groups: What each is like, such as the source of a photograph; a group is in one fold.
    """
    outcomes = np.asarray(correct, bool)
    group = np.arange(len(outcomes))
    if groups is not None:
        group = np.unique(np.asarray(groups, str), return_inverse=True)[1]
    fold = (np.random.default_rng(seed).permutation(group.max() + 1) % folds)[group]
    found = np.empty(len(outcomes))
    for number in np.unique(fold).tolist():
        test = fold == number
        train_set = [hypotheses[index] for index in np.flatnonzero(~test).tolist()]
        test_set = [hypotheses[index] for index in np.flatnonzero(test).tolist()]
        found[test] = fit_calibration(train_set, outcomes[~test]).probabilities(test_set)
    return found


def save_calibration(
    path: str | os.PathLike[str],
    calibration: Calibration,
    others: Mapping[str, Calibration] | None = None,
    **entries: Mapping[str, Any],
) -> ModelFolder:
    """Store a calibration in a model folder and leave everything else unchanged.

    Args:
        path: The model folder.
        calibration: The calibration for ink.
        others: The calibrations for other kinds of input; those of earlier weights are dropped.
        **entries: Further entries of the folder's info to replace.
    """
    folder = open_folder(path)
    info = {**folder.info, "calibration": calibration.to_dict(), **entries}
    info.pop("calibrations", None)
    if others:
        info["calibrations"] = {kind: one.to_dict() for kind, one in others.items()}
    return store_info(folder, info)


@dataclass(frozen=True)
class Reliability:
    """A reliability curve: accuracy by confidence."""

    bounds: tuple[float, ...]  # edges of the bins, one more than there are bins
    counts: tuple[int, ...]  # results per bin
    confidence: tuple[float, ...]  # mean per bin; NaN if it is empty
    accuracy: tuple[float, ...]  # mean per bin; NaN if it is empty
    error: float  # expected calibration error


def measure_reliability(
    confidence: Sequence[float] | NDArray[np.float64], correct: _Outcomes, bins: int = 10
) -> Reliability:
    """Return the reliability curve and the expected calibration error.

    Args:
        confidence: Confidence of each result, float (results,).
        correct: Whether each result is correct, bool (results,).
        bins: Number of bins of equal width.
    """
    sure, right = np.asarray(confidence, np.float64), np.asarray(correct, np.float64)
    bounds = np.linspace(0, 1, bins + 1)
    index = np.clip(np.digitize(sure, bounds) - 1, 0, bins - 1)
    counts = np.bincount(index, minlength=bins)
    with np.errstate(invalid="ignore"):
        mean = np.bincount(index, sure, bins) / counts
        rate = np.bincount(index, right, bins) / counts
    gap = np.nansum(np.abs(mean - rate) * counts) / max(len(sure), 1)
    edges, sizes, sureness, accuracy = (
        tuple(values.tolist()) for values in (bounds, counts, mean, rate)
    )
    return Reliability(edges, sizes, sureness, accuracy, float(gap))


def _logistic(log_odds: NDArray[np.float64]) -> NDArray[np.float64]:
    return 1.0 / (1.0 + np.exp(-np.clip(log_odds, -50, 50)))


def _mean_log_probability(hypothesis: Hypothesis) -> float:
    """Return the log-probability per token, averaged over the directions."""
    known = [score for score in (hypothesis.forward, hypothesis.backward) if score is not None]
    return float(np.mean(known)) if known else hypothesis.score


def _features(hypotheses: Sequence[Hypothesis]) -> NDArray[np.float64]:
    """Return float64 (hypotheses, 4): 1, total and mean log-probability, log of the length."""
    lengths = np.array([len(hypothesis.tokens) + 1 for hypothesis in hypotheses], np.float64)
    means = np.array([_mean_log_probability(hypothesis) for hypothesis in hypotheses])
    return np.stack([np.ones_like(means), means * lengths, means, np.log(lengths)], axis=1)
