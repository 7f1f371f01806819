"""Forced decoding: token probabilities and attention maps of a model for a given expression."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from posformer.errors import PosformerError, UnknownTokenError
from posformer.image.sizing import at_working_size
from posformer.models.model_config import STRIDE, DecoderConfig, LineDecoderConfig
from posformer.models.target_coding import open_target_coding
from posformer.runtime.attention_map import AttentionMap
from posformer.runtime.engine import Attentive, Runtime

Direction = Literal["forward", "backward"]


@dataclass(frozen=True)
class ForcedDecoding:
    """Token probabilities and attention maps of one model for one formula."""

    model: str  # name of the model
    image: np.ndarray  # uint8 (height, width), white ink on black, padded to full cells
    tokens: tuple[str, ...]  # in decoding order
    direction: Direction
    probability: np.ndarray  # float32 (tokens,), of each token given those before it
    preferred: tuple[str, ...]  # most likely token of each step; "" for the end
    excluded: tuple[bool, ...]  # steps whose attention is excluded from coverage
    attention: tuple[AttentionMap, ...]  # one for each layer; empty if the model has no such output

    @property
    def has_raw_weights(self) -> bool:
        """Return whether the weights before refinement are known for every layer."""
        return all(layer.raw_weights is not None for layer in self.attention)

    def coverage(self, layer: int) -> np.ndarray | None:
        """Return the input of a layer's refinement, float32 (tokens, 2·heads, height, width).

        Args:
            layer: Index of the layer.

        Returns:
            The coverage, or None if the layer has no refinement.
        """
        own = self.attention[layer]
        if own.raw_weights is None or not own.is_refined:
            return None
        below = self.attention[layer - 1].weights[0, 0]
        return coverage(below, own.raw_weights[0, 0], ~np.array(self.excluded))


def force_decode(
    runtime: Runtime,
    image: np.ndarray,
    tokens: Sequence[str],
    direction: Direction = "forward",
    name: str = "model",
) -> ForcedDecoding:
    """Run a model on an image and given tokens.

    Args:
        runtime: A loaded model.
        image: uint8 (height, width), white ink on black, at the scale of CROHME.
        tokens: At least one token, from left to right for either direction.
        direction: Decoding direction.
        name: Name of the model.

    Raises:
        PosformerError: If the model does not decode in this direction, does not decode tokens one
            by one, or does not know a token.
    """
    if not tokens:
        raise PosformerError(f"{name}: there are no tokens to decode")
    if direction == "backward" and runtime.config.decoder.directions == "forward":
        raise PosformerError(f"{name}: this model decodes from left to right only")
    if isinstance(runtime.config.decoder, LineDecoderConfig):
        raise PosformerError(f"{name}: this model decodes all lines at once, not token by token")
    if open_target_coding(runtime.config, runtime.vocabulary) is not None:
        kind = runtime.config.name
        raise PosformerError(f"{name}: {kind} decodes a tree; only sequence models are explained")
    size = runtime.config.image
    sized = at_working_size(image, size.scale, size.margin, size.max_pixels)
    ordered = tuple(tokens if direction == "forward" else reversed(tokens))
    vocabulary = runtime.vocabulary
    start = vocabulary.sos if direction == "forward" else vocabulary.eos
    try:
        sequence = np.array([start, *vocabulary.encode(ordered)], np.int64)
    except UnknownTokenError as error:
        raise PosformerError(f"{name}: {error}") from error
    # The step that reads a token predicts the next one: the first step predicts the first token.
    encoded, input_ids = runtime.encode([sized]), sequence[None, None, :-1]
    attention = encoded.attention(input_ids) if isinstance(encoded, Attentive) else []
    scores = encoded.step(input_ids, encoded.start())[0][0, 0]
    probability = np.exp(scores[np.arange(len(ordered)), sequence[1:]])
    best = scores.argmax(axis=1).tolist()
    preferred = tuple("".join(vocabulary.decode([one], skip_special=True)) for one in best)
    excluded = _excluded(runtime.config.decoder, ordered)
    return ForcedDecoding(
        name, _padded(sized), ordered, direction, probability, preferred, excluded, tuple(attention)
    )


def coverage(below: np.ndarray, own: np.ndarray, counted: np.ndarray) -> np.ndarray:
    """Return the accumulated past attention that a layer's refinement receives.

    Args:
        below: float (tokens, heads, height, width), weights of the layer below.
        own: float (tokens, heads, height, width), raw weights of this layer.
        counted: bool (tokens,), steps whose attention is accumulated.

    Returns:
        float (tokens, 2·heads, height, width): for each step the sum over the previous steps.
    """
    maps = np.concatenate((below, own), axis=1) * counted[:, None, None, None]
    sums = np.cumsum(maps, axis=0, dtype=np.float32)
    return np.concatenate((np.zeros_like(sums[:1]), sums[:-1]))


def _excluded(decoder: object, tokens: Sequence[str]) -> tuple[bool, ...]:
    """Return for each step whether its attention is excluded from coverage."""
    refinement = decoder.refinement if isinstance(decoder, DecoderConfig) else None
    if refinement is None:
        return (False,) * len(tokens)
    excluded = tuple(refinement.leaves_out(token) for token in tokens)
    # A step's input is the token predicted one step before; the first input is the start token.
    return excluded if refinement.masked_by == "decoded" else (False, *excluded[:-1])


def _padded(image: np.ndarray) -> np.ndarray:
    """Pad an image to full cells, so that maps and image align."""
    return np.pad(image, [(0, -side % STRIDE) for side in image.shape])
