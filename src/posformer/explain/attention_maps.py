"""Where a model looked while it wrote, as numbers."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import cv2
import numpy as np

from posformer.errors import PosformerError, UnknownTokenError
from posformer.image.sizing import at_working_size
from posformer.latex import Vocabulary
from posformer.models.model_config import DecoderConfig
from posformer.runtime.engine import Attentive, LayerAttention, Runtime

__all__ = ["Direction", "LayerLook", "Looking", "coverage", "look"]

Direction = Literal["forward", "backward"]

_CELL = 16  # pixels a cell of the feature map, in both directions


@dataclass(frozen=True)
class LayerLook:
    """Where one layer looked; arrays are float32 (tokens, heads, rows, columns)."""

    after: np.ndarray  # the weights used
    before: np.ndarray | None  # without refinement; None if the model's file does not tell
    correction: np.ndarray | None = None  # what refinement took off the scores
    # (tokens, 2·heads, rows, columns): attention of the past, the layer below first.
    coverage: np.ndarray | None = None

    @property
    def is_refined(self) -> bool:
        """Whether the layer corrects where it looks."""
        return self.correction is not None or self.before is None


@dataclass(frozen=True)
class Looking:
    """A formula as a model saw it, and where it looked for each token."""

    model: str  # what to call it
    image: np.ndarray  # uint8 (height, width), white ink on black, whole cells
    tokens: tuple[str, ...]  # in the order in which they were written
    direction: Direction
    probability: np.ndarray  # float32 (tokens,) that the model gave each of them
    preferred: tuple[str, ...]  # what it would have written there; "" for the end
    left_out: tuple[bool, ...]  # whose attention does not count as coverage
    layers: tuple[LayerLook, ...]  # none if the model cannot tell where it looks

    @property
    def knows_before(self) -> bool:
        """Whether every layer tells where it looked before refinement."""
        return all(layer.before is not None for layer in self.layers)


def look(
    runtime: Runtime,
    image: np.ndarray,
    tokens: Sequence[str],
    direction: Direction = "forward",
    name: str = "model",
) -> Looking:
    """Let a model write tokens, and see where it looks for each.

    Args:
        runtime: a loaded model.
        image: uint8 (height, width), white ink on black, in the size of CROHME's.
        tokens: at least one, from left to right, whatever the direction.
        direction: in which the model writes them.
        name: what to call the model.

    Raises:
        PosformerError: If the model cannot write in this direction, or not all of the tokens.
    """
    if not tokens:
        raise PosformerError(f"{name}: there are no symbols to look for")
    if direction == "backward" and runtime.config.decoder.directions == "forward":
        raise PosformerError(f"{name}: this model writes from left to right only")
    size = runtime.config.image
    sized = at_working_size(image, size.scale, size.margin, size.max_pixels)
    grid = -(-sized.shape[0] // _CELL), -(-sized.shape[1] // _CELL)
    written = tuple(tokens if direction == "forward" else reversed(tokens))
    sequence = _sequence(runtime.vocabulary, written, direction, name)
    left_out = _left_out(runtime.config.decoder, written)
    # The step that takes in a token writes the next one: maps begin with the first token.
    encoded, fed = runtime.encode([sized]), sequence[None, None, :-1]
    found = encoded.attention(fed) if isinstance(encoded, Attentive) else []
    scores = encoded.step(fed, encoded.start())[0][0, 0]
    return Looking(
        name,
        _padded(sized, grid),
        written,
        direction,
        np.exp(scores[np.arange(len(written)), sequence[1:]]),
        tuple(_word(runtime.vocabulary, best) for best in scores.argmax(axis=1).tolist()),
        left_out,
        _layers(found, grid, ~np.array(left_out)),
    )


def _sequence(
    words: Vocabulary, tokens: Sequence[str], direction: Direction, name: str
) -> np.ndarray:
    """Numbers of the start and of the tokens, int64 (tokens + 1,)."""
    start = words.sos if direction == "forward" else words.eos
    try:
        return np.array([start, *words.encode(tokens)], np.int64)
    except UnknownTokenError as error:
        raise PosformerError(f"{name}: {error}") from error


def _word(words: Vocabulary, index: int) -> str:
    return "".join(words.decode([index], skip_special=True))


def _left_out(decoder: object, written: Sequence[str]) -> tuple[bool, ...]:
    """For each step whether its attention is left out of coverage."""
    refinement = decoder.refinement if isinstance(decoder, DecoderConfig) else None
    if refinement is None:
        return (False,) * len(written)
    skipped = tuple(refinement.leaves_out(token) for token in written)
    # What is fed in at a step is what the step before it wrote; the first takes in the start.
    return skipped if refinement.masked_by == "decoded" else (False, *skipped[:-1])


def _layers(
    found: Sequence[LayerAttention], grid: tuple[int, int], counted: np.ndarray
) -> tuple[LayerLook, ...]:
    layers: list[LayerLook] = []
    for number, layer in enumerate(found):
        after = _on_grid(layer.weights, grid)
        before = None if layer.raw is None else _on_grid(layer.raw, grid)
        correction = None if layer.correction is None else _on_grid(layer.correction, grid)
        seen = None
        if before is not None and correction is not None:
            seen = coverage(layers[number - 1].after, before, counted)
        layers.append(LayerLook(after, before, correction, seen))
    return tuple(layers)


def _on_grid(maps: np.ndarray, grid: tuple[int, int]) -> np.ndarray:
    """From (1, 1, steps, heads, cells) to (steps, heads, rows, columns)."""
    return maps[0, 0].reshape(*maps.shape[2:4], *grid)


def coverage(below: np.ndarray, before: np.ndarray, counted: np.ndarray) -> np.ndarray:
    """The attention of the past that a layer's refinement sees.

    Args:
        below: float (tokens, heads, rows, columns), weights used by the layer below.
        before: the same of this layer, without refinement.
        counted: bool (tokens,), steps whose attention counts.

    Returns:
        float (tokens, 2·heads, rows, columns): for each step the sum over the steps before it.
    """
    maps = np.concatenate((below, before), axis=1) * counted[:, None, None, None]
    sums = np.cumsum(maps, axis=0, dtype=np.float32)
    return np.concatenate((np.zeros_like(sums[:1]), sums[:-1]))


def _padded(image: np.ndarray, grid: tuple[int, int]) -> np.ndarray:
    """Whole cells, so that maps and image lie on each other."""
    below, behind = (count * _CELL - side for count, side in zip(grid, image.shape, strict=True))
    return np.asarray(cv2.copyMakeBorder(image, 0, below, 0, behind, cv2.BORDER_CONSTANT, value=0))
