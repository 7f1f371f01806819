"""Where a model looked while it read."""

from dataclasses import dataclass

import cv2
import numpy as np

from posformer.ink.sizing import at_working_size
from posformer.recognizer import Recognition, Recognizer, Source, prepare
from posformer.runtime.interface import Attentive

__all__ = ["Line", "explain"]

_CELL = 16  # pixels a cell of the feature map, in both directions


@dataclass(frozen=True)
class Line:
    """One formula as the model saw it, and where it looked for each token."""

    picture: np.ndarray  # uint8 (height, width), white ink on black
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
    pictures = prepare(source, split=len(readings) > 1)
    lines = [
        _look(recognizer, picture, reading.tokens)
        for picture, reading in zip(pictures, readings, strict=True)
    ]
    found = tuple(line for line in lines if line is not None)
    return found if len(found) == len(lines) else None


def _look(recognizer: Recognizer, picture: np.ndarray, tokens: tuple[str, ...]) -> Line | None:
    runtime = recognizer.runtime
    size = runtime.config.picture
    sized = at_working_size(picture, size.scale, size.margin, size.max_pixels)
    encoded = runtime.encode([sized])
    if not isinstance(encoded, Attentive):
        return None
    words = runtime.vocabulary
    if not tokens:
        return Line(sized, (), np.zeros((0, 1, 1), np.float32))
    # The step that takes in a token predicts the next one: the maps begin with the first token.
    fed = np.array([words.sos, *words.encode(tokens[:-1])], np.int64)
    layers = encoded.attention(fed[None, None])
    if not layers:  # a model of somebody's own that does not tell
        return None
    attention = layers[-1].weights[0, 0].mean(axis=1)
    rows, columns = (-(-side // _CELL) for side in sized.shape)
    maps = attention.reshape(len(tokens), rows, columns)
    highest = maps.max(axis=(1, 2), keepdims=True)
    return Line(_padded(sized, rows, columns), tokens, maps / np.maximum(highest, 1e-9))


def _padded(picture: np.ndarray, rows: int, columns: int) -> np.ndarray:
    """Whole cells, so that maps and picture lie on each other."""
    below, behind = rows * _CELL - picture.shape[0], columns * _CELL - picture.shape[1]
    return np.asarray(
        cv2.copyMakeBorder(picture, 0, below, 0, behind, cv2.BORDER_CONSTANT, value=0)
    )
