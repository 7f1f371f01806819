"""What a model predicted, one JSON object a line, to be looked at or measured again later."""

import json
import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from posformer.atomic import atomic_write
from posformer.errors import DataError
from posformer.evaluation.metrics import Scores

__all__ = ["Prediction", "read_predictions", "write_predictions", "write_scores"]


@dataclass(frozen=True)
class Prediction:
    """What was predicted for an example."""

    name: str
    truth: tuple[str, ...]
    prediction: tuple[str, ...]
    confidence: float | None = None
    """Between 0 and 1; None where the model gives none."""

    @property
    def is_right(self) -> bool:
        """Whether every token is right."""
        return self.truth == self.prediction


def write_predictions(path: str | os.PathLike[str], predictions: Iterable[Prediction]) -> None:
    """Write predictions as JSON lines; the file is there whole or not at all."""
    lines = [json.dumps(_as_object(one), ensure_ascii=False) + "\n" for one in predictions]
    atomic_write(path, "".join(lines))


def read_predictions(path: str | os.PathLike[str]) -> list[Prediction]:
    """Read what `write_predictions` wrote.

    Raises:
        DataError: When the file is missing or a line is not a prediction; names the line.
    """
    try:
        text = Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"{path}: cannot be read: {error}") from error
    rows = enumerate(text.split("\n"), start=1)
    return [_as_prediction(row, f"{path} line {line}") for line, row in rows if row.strip()]


def write_scores(path: str | os.PathLike[str], scores: Scores) -> None:
    """Write measures as JSON; the file is there whole or not at all."""
    atomic_write(path, json.dumps(scores.to_json(), indent=2) + "\n")


def _as_object(prediction: Prediction) -> dict[str, Any]:
    row: dict[str, Any] = {
        "name": prediction.name,
        "truth": " ".join(prediction.truth),
        "prediction": " ".join(prediction.prediction),
    }
    if prediction.confidence is not None:
        row["confidence"] = prediction.confidence
    return row


def _as_prediction(row: str, place: str) -> Prediction:
    try:
        fields = json.loads(row)
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
