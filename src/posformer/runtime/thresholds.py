"""Thresholds of a model, chosen on validation data: what is not readable, what is certain."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from posformer.errors import ConfigError
from posformer.models.model_config import from_dict
from posformer.runtime.calibration import confidences
from posformer.search import FirstPass, Hypothesis

_USABLE_ERROR_RATE = 0.5  # a result with more wrong tokens than right ones is of no use
_MAX_REJECTED_SHARE = 1 / 400  # of the usable results


@dataclass(frozen=True)
class Thresholds:
    """The thresholds in the info of a model; None: not chosen."""

    # Results with a lower mean token probability are not readable. The probability that all tokens
    # are correct would not do: it is small for any long expression, even if nearly all are.
    readable: float | None = None
    # Adaptive search ends after the first pass if both directions agree and the log-probability of
    # their result is at least this. None: every image is searched with all options.
    certain: float | None = None
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
        return from_dict(cls, stored)


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


def choose_certain(
    first: Sequence[FirstPass],
    first_correct: Sequence[bool] | NDArray[np.bool_],
    second_correct: Sequence[bool] | NDArray[np.bool_],
    full_correct: Sequence[bool] | NDArray[np.bool_],
) -> float | None:
    """Return the threshold of adaptive search.

    From the surest result down, the first pass may end the search as long as this costs no correct
    results on balance, compared with the second pass for all images.

    Args:
        first: The first pass of each image.
        first_correct: Whether its result is correct.
        second_correct: Whether the result of the second pass is correct, whatever the first found.
        full_correct: Whether the result of full search is correct.

    Returns:
        The threshold; None if the second pass gets fewer images right than full search.
    """
    before, after = np.asarray(first_correct, int), np.asarray(second_correct, int)
    if after.sum() < np.sum(full_correct):
        return None
    totals = np.array([one.total if one.agreed else -np.inf for one in first])
    order = np.argsort(-totals, kind="stable")
    order = order[np.isfinite(totals[order])]
    # By how many the number of correct results grows if the first images of this order end early.
    gained = np.cumsum(before[order] - after[order])
    harmless = int(np.argmax([*(gained < 0), True]))
    # If even the surest result must not end the search, none does: log-probabilities are below 0.
    return float(totals[order[harmless - 1]]) if harmless else 0.0
