"""Thresholds of a model, chosen on validation data: what is not readable, what is certain."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from posformer.errors import ConfigError
from posformer.models.model_config import from_dict
from posformer.runtime.calibration import confidences
from posformer.search import Hypothesis, Scores, near

_USABLE_ERROR_RATE = 0.5  # a result with more wrong tokens than right ones is of no use
_MAX_REJECTED_SHARE = 1 / 400  # of the usable results
_MAX_LOST_SHARE = 1 / 100  # of the images, that adaptive search may lose to full search
MARGINS = tuple(number / 10 for number in range(1, 31))  # that are tried


@dataclass(frozen=True)
class Thresholds:
    """The thresholds in the info of a model; None: not chosen."""

    # Results with a lower mean token probability are not readable. The probability that all tokens
    # are correct would not do: it is small for any long expression, even if nearly all are.
    readable: float | None = None
    # Adaptive search looks at further scales only for hypotheses that are behind the best one by a
    # smaller log-probability. None: every image is searched with all options.
    margin: float | None = None
    data: str = ""  # description of the validation data

    def is_readable(self, hypothesis: Hypothesis) -> bool:
        """Return whether a hypothesis is more than a guess."""
        return self.readable is None or confidences([hypothesis], None)[0] >= self.readable

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, for the `thresholds` entry of a model folder's info."""
        return asdict(self)

    @classmethod
    def from_info(cls, info: Mapping[str, Any]) -> Thresholds:
        """Return the thresholds in the info of a model.

        Raises:
            ConfigError: If the entry is not a set of thresholds.
        """
        stored = info.get("thresholds", {})
        if not isinstance(stored, dict):
            raise ConfigError(f"thresholds: {stored!r} is not a set of numbers")
        # `certain` was the threshold of an earlier adaptive search.
        return from_dict(cls, {name: stored[name] for name in stored if name != "certain"})


def choose_readable(
    hypotheses: Sequence[Hypothesis], error_rates: Sequence[float] | NDArray[np.float64]
) -> float | None:
    """Return the threshold below which a result is not readable.

    It is the highest one that rejects at most one in 400 of the results of which at least half of
    the tokens are correct; None if there are no such results.

    Args:
        hypotheses: The best hypothesis of each image.
        error_rates: Edit distance of each to its caption, divided by the length of the caption.
    """
    usable = np.asarray(error_rates) <= _USABLE_ERROR_RATE
    probabilities = np.array([confidences([one], None)[0] for one in hypotheses])[usable]
    if not len(probabilities):
        return None
    return float(np.quantile(probabilities, _MAX_REJECTED_SHARE, method="lower"))


def choose_margin(
    scores: Sequence[Scores],
    is_correct: Callable[[Sequence[tuple[int, ...]]], NDArray[np.bool_]],
    full_correct: Sequence[bool] | NDArray[np.bool_],
    length_power: float = 1.0,
) -> float | None:
    """Return the smallest margin with which adaptive search gets as many right as full search.

    If none does, it is the smallest of those that get the most right, unless full search gets
    more than one in a hundred images more right.

    Args:
        scores: Of each image, the hypotheses of the first pass with their scores at all scales.
        is_correct: Tells which of one sequence per image are correct, bool (images,).
        full_correct: Whether the result of full search is correct.
        length_power: See `DecodingOptions.length_power`.

    Returns:
        The margin; None if full search gets clearly more right, whatever the margin is.
    """
    correct = {}
    for margin in MARGINS:
        results = [_result(one, margin, length_power) for one in scores]
        correct[margin] = int(is_correct(results).sum())
    most, full = max(correct.values()), int(np.sum(full_correct))
    if most < full - _MAX_LOST_SHARE * len(scores):
        return None
    return next(margin for margin in MARGINS if correct[margin] >= min(most, full))


def _result(scores: Scores, margin: float, length_power: float) -> tuple[int, ...]:
    """Return what adaptive search finds with a margin."""
    return max(near(scores, margin, length_power), key=lambda one: scores[one].mean(), default=())
