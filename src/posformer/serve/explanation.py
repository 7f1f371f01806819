"""Where a model looked while it read."""

from dataclasses import dataclass

import numpy as np

from posformer.explain import look
from posformer.recognizer import Recognition, Recognizer, Source, prepare

__all__ = ["Line", "explain"]


@dataclass(frozen=True)
class Line:
    """One formula as the model saw it, and where it looked for each token."""

    image: np.ndarray  # uint8 (height, width), white ink on black
    tokens: tuple[str, ...]
    maps: np.ndarray  # float32 (tokens, rows, columns), the highest of each is 1


def explain(
    recognizer: Recognizer, source: Source, recognition: Recognition
) -> tuple[Line, ...] | None:
    """Where the model looked for each token of what it read.

    Args:
        recognizer: that read it.
        source: what was read.
        recognition: the reading.

    Returns:
        One formula after the other; None if the engine does not tell.
    """
    readings = recognition.lines or (recognition,)
    images = prepare(source, split=len(readings) > 1)
    lines = [
        _look(recognizer, image, reading.tokens)
        for image, reading in zip(images, readings, strict=True)
    ]
    found = tuple(line for line in lines if line is not None)
    return found if len(found) == len(lines) else None


def _look(recognizer: Recognizer, image: np.ndarray, tokens: tuple[str, ...]) -> Line | None:
    if not tokens:
        return Line(image, (), np.zeros((0, 1, 1), np.float32))
    looking = look(recognizer.runtime, image, tokens)
    if not looking.layers:
        return None
    maps = looking.layers[-1].after.mean(axis=1)
    highest = maps.max(axis=(1, 2), keepdims=True)
    return Line(looking.image, tokens, maps / np.maximum(highest, 1e-9))
