"""Predictions of a model, stored as JSON lines."""

import json
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from posformer.atomic import atomic_write
from posformer.errors import DataError
from posformer.evaluation.metrics import Scores, evaluate_pairs
from posformer.evaluation.token_alignment import Pair, align


@dataclass(frozen=True)
class Prediction:
    """The prediction for one expression."""

    name: str
    truth: tuple[str, ...]
    prediction: tuple[str, ...]
    confidence: float | None = None
    """Between 0 and 1; None if unknown."""

    @property
    def is_correct(self) -> bool:
        """Return whether every token is correct."""
        return self.truth == self.prediction

    @property
    def pairs(self) -> tuple[Pair, ...]:
        """Return the tokens of the prediction, aligned with the ground truth."""
        return align(self.truth, self.prediction)


def score(predictions: Sequence[Prediction]) -> Scores:
    """Score predictions; errors as for `evaluate_pairs`."""
    truths, guesses = [one.truth for one in predictions], [one.prediction for one in predictions]
    return evaluate_pairs(truths, guesses)


def write_predictions(path: str | os.PathLike[str], predictions: Iterable[Prediction]) -> None:
    """Write predictions as JSON lines, atomically."""
    lines = [json.dumps(_to_json(one), ensure_ascii=False) + "\n" for one in predictions]
    atomic_write(path, "".join(lines))


def read_predictions(path: str | os.PathLike[str]) -> list[Prediction]:
    """Read a file of `write_predictions`.

    Raises:
        DataError: If the file is missing or a line is not a prediction; names the line.
    """
    try:
        text = Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"{path}: cannot be read: {error}") from error
    lines = enumerate(text.split("\n"), start=1)
    return [_from_json(line, f"{path} line {number}") for number, line in lines if line.strip()]


def write_scores(path: str | os.PathLike[str], scores: Scores) -> None:
    """Write metrics as JSON, atomically."""
    atomic_write(path, json.dumps(scores.to_json(), indent=2) + "\n")


def _to_json(prediction: Prediction) -> dict[str, Any]:
    fields = dict(vars(prediction))
    if prediction.confidence is None:
        del fields["confidence"]
    return fields | {key: " ".join(fields[key]) for key in ("truth", "prediction")}


def _from_json(line: str, place: str) -> Prediction:
    try:
        fields = json.loads(line)
        confidence = fields.get("confidence")
        return Prediction(
            name=str(fields["name"]),
            truth=tuple(fields["truth"].split()),
            prediction=tuple(fields["prediction"].split()),
            confidence=None if confidence is None else float(confidence),
        )
    except KeyError as error:
        raise DataError(f"{place}: has no {error}") from error
    except (ValueError, TypeError, AttributeError) as error:
        raise DataError(f"{place}: not a prediction: {error}") from error
