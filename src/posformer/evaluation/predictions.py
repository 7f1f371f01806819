"""Predictions of a model, stored as JSON lines."""

import json
import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from posformer.atomic import atomic_write
from posformer.errors import DataError
from posformer.evaluation.metrics import Scores
from posformer.evaluation.token_alignment import Pair, align
from posformer.text_output import json_text


@dataclass(frozen=True)
class Prediction:
    """The prediction for one expression."""

    name: str
    truth: tuple[str, ...]
    prediction: tuple[str, ...]
    confidence: float | None = None
    """Between 0 and 1; None if unknown."""
    kind: str = ""
    """Of a photograph, such as `scan`."""
    source: str = ""
    """Where the photograph comes from."""

    @property
    def is_correct(self) -> bool:
        """Return whether every token is correct."""
        return self.truth == self.prediction

    @property
    def pairs(self) -> tuple[Pair, ...]:
        """Return the tokens of the prediction, aligned with the ground truth."""
        return align(self.truth, self.prediction)


def write_predictions(path: str | os.PathLike[str], predictions: Iterable[Prediction]) -> None:
    """Write predictions as JSON lines, atomically."""
    lines = [json_text(_to_json(one)) + "\n" for one in predictions]
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
    optional = ("confidence", "kind", "source")
    fields = {
        name: value
        for name, value in vars(prediction).items()
        if name not in optional or value not in (None, "")
    }
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
            kind=str(fields.get("kind", "")),
            source=str(fields.get("source", "")),
        )
    except KeyError as error:
        raise DataError(f"{place}: has no {error}") from error
    except (ArithmeticError, AttributeError, RecursionError, TypeError, ValueError) as error:
        raise DataError(f"{place}: not a prediction: {str(error)[:120]}") from error
