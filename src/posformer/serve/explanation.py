"""Attention maps of a recognition, for the HTTP API."""

import base64

import cv2
import numpy as np

from posformer.explain.forced_decoding import force_decode
from posformer.recognizer import Recognition, Recognizer, Source
from posformer.serve.schemas import Explanation, TokenAttention


def explain(
    recognizer: Recognizer, source: Source, recognition: Recognition
) -> list[Explanation] | None:
    """Return the attention maps of each formula of a recognition.

    Args:
        recognizer: The recognizer that produced the recognition.
        source: The recognized image or strokes.
        recognition: The result.

    Returns:
        One explanation per formula; None if the model has no attention maps.
    """
    formulas = recognition.lines or (recognition,)
    images = recognizer.prepare(source, split=recognizer.splits_lines)
    found = [
        _explain_formula(recognizer, image, formula.tokens)
        for image, formula in zip(images, formulas, strict=True)
    ]
    explanations = [one for one in found if one is not None]
    return explanations if len(explanations) == len(found) else None


def _explain_formula(
    recognizer: Recognizer, image: np.ndarray, tokens: tuple[str, ...]
) -> Explanation | None:
    if not tokens:
        return Explanation(picture=_png(image), rows=1, columns=1, symbols=[])
    decoding = force_decode(recognizer.runtime, image, tokens)
    if not decoding.attention:
        return None
    maps = decoding.attention[-1].mean_weights()[0, 0]
    peaks = np.maximum(maps.max(axis=(1, 2), keepdims=True), 1e-9)
    levels = np.rint(255 * maps / peaks).astype(int)
    symbols = [
        TokenAttention(token=token, map=cells.ravel().tolist())
        for token, cells in zip(tokens, levels, strict=True)
    ]
    rows, columns = maps.shape[1:]
    return Explanation(picture=_png(decoding.image), rows=rows, columns=columns, symbols=symbols)


def _png(image: np.ndarray) -> str:
    _, png = cv2.imencode(".png", image)
    return base64.b64encode(png.tobytes()).decode()
