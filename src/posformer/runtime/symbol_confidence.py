"""Confidence and alternatives of each symbol of a result."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from posformer.latex import is_structure, is_valid
from posformer.latex.symbols import SIGNATURES
from posformer.runtime.decoding import decodes_tokens, working_image
from posformer.runtime.engine import Runtime

MAX_ALTERNATIVES = 5
_LEAST_PROBABILITY = 0.005  # of an alternative


@dataclass(frozen=True)
class SymbolScore:
    """A symbol of a result: how sure the model is of it, and what else it could be."""

    index: int  # of its token in the expression
    token: str
    confidence: float  # probability of the token where it stands; not calibrated
    # Other tokens that may stand in its place, most likely first, with their probabilities.
    alternatives: tuple[tuple[str, float], ...] = ()


def score_symbols(
    runtime: Runtime, image: NDArray[np.uint8], tokens: Sequence[str]
) -> tuple[SymbolScore, ...]:
    """Return the confidence and the alternatives of each symbol of an expression.

    The probability of a token is that of the decoder after the tokens before it, in both
    directions: their geometric mean, normalized over the vocabulary. The search ranks hypotheses
    by the same mean.

    Args:
        runtime: A loaded model.
        image: uint8 (height, width), white ink on black, in the size of CROHME's images.
        tokens: The expression, in caption form and in tokens of the model.

    Returns:
        One entry for each token that is a symbol and not structure; none if the model does not
        decode token by token.
    """
    if not tokens or not decodes_tokens(runtime.config):
        return ()
    probabilities = _token_probabilities(runtime, image, tokens)
    ids = runtime.vocabulary.encode(tokens)
    return tuple(
        SymbolScore(
            index,
            token,
            float(probabilities[index, ids[index]]),
            _alternatives(runtime, probabilities[index], tokens, index),
        )
        for index, token in enumerate(tokens)
        if not is_structure(token)
    )


def _token_probabilities(
    runtime: Runtime, image: NDArray[np.uint8], tokens: Sequence[str]
) -> NDArray[np.float64]:
    """Return the probability of each token of the vocabulary, float64 (tokens, vocab_size)."""
    vocabulary = runtime.vocabulary
    ids = vocabulary.encode(tokens)
    sequences = [[vocabulary.sos, *ids[:-1]]]
    if runtime.config.decoder.directions == "both":
        sequences.append([vocabulary.eos, *reversed(ids[1:])])
    model = runtime.encode([working_image(image, runtime.config.image)])
    output, _ = model.step(np.array([sequences], np.int64), model.start())
    log_probabilities = output[0].astype(np.float64)
    if len(sequences) == 2:
        log_probabilities[1] = log_probabilities[1, ::-1]
    mean = log_probabilities.mean(axis=0)
    mean -= mean.max(axis=-1, keepdims=True)
    return np.exp(mean) / np.exp(mean).sum(axis=-1, keepdims=True)


def _alternatives(
    runtime: Runtime, probabilities: NDArray[np.float64], tokens: Sequence[str], index: int
) -> tuple[tuple[str, float], ...]:
    """Return the likely tokens that can replace a token and leave the expression well-formed."""
    token = tokens[index]
    found: list[tuple[str, float]] = []
    for candidate in np.argsort(-probabilities, kind="stable").tolist():
        probability = float(probabilities[candidate])
        if probability < _LEAST_PROBABILITY or len(found) == MAX_ALTERNATIVES:
            break
        other = "".join(runtime.vocabulary.decode([candidate], skip_special=True))
        if other and other != token and _can_replace(tokens, index, other):
            found.append((other, probability))
    return tuple(found)


def _can_replace(tokens: Sequence[str], index: int, other: str) -> bool:
    """Whether another symbol takes the same arguments and is accepted by LaTeX in this place."""
    if is_structure(other) or SIGNATURES.get(other) != SIGNATURES.get(tokens[index]):
        return False
    return is_valid([*tokens[:index], other, *tokens[index + 1 :]])
