"""Collate rendered examples into the tensors of a training step."""

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from posformer.latex import (
    POSITION_CODES,
    Vocabulary,
    encode_forest,
    identifier_codes,
    is_structure,
)
from posformer.models.model_config import STRIDE, PositionConfig
from posformer.models.padding import pad_images

IGNORE = -100  # target that does not count


@dataclass(frozen=True)
class RenderedSample:
    """An example, ready to be put into a batch."""

    name: str
    tokens: tuple[str, ...]
    image: np.ndarray  # uint8 (height, width); or features, float16 (height, width, channels)
    boxes: np.ndarray | None  # float32 (tokens, 4): left, top, right, bottom; NaN without ink
    reverse: bool | None = None  # direction to train; None: both


@dataclass
class Batch:
    """Tensors of a training step. `directions` is 1, or 2: left to right, right to left."""

    names: list[str]
    images: Tensor  # float32 (batch, 1, height, width); or features (batch, channels, …)
    padding: Tensor  # bool (batch, height, width), of the images or features
    input_ids: Tensor  # int64 (batch, directions, steps)
    target_ids: Tensor  # int64 (batch, directions, steps), IGNORE after the end
    # The position forest of the input and of the targets:
    position_identifiers: Tensor | None = None  # float32 (batch, directions, steps, length)
    nested_levels: Tensor | None = None  # int64 (batch, directions, steps)
    relative_positions: Tensor | None = None  # int64 (batch, directions, steps)
    # Where the ink is, in cells of the feature map:
    symbol_targets: Tensor | None = None  # int64 (batch, height, width): token id, 0 without ink
    attention_targets: Tensor | None = None  # bool (batch, directions, steps, cells)

    def to(self, device: torch.device) -> "Batch":
        """Move the tensors to a device."""
        moved: dict[str, Any] = {
            item.name: value.to(device, non_blocking=True)
            for item in fields(self)
            if isinstance(value := getattr(self, item.name), Tensor)
        }
        return replace(self, **moved)


class Collator:
    """Makes batches for one model.

    Args:
        vocabulary: The tokens of the model.
        position: Settings of its position forest; None without.
        with_ink: Whether to add targets for the ink losses.
        corruption: Share of symbols in the decoder input that are replaced by others.
        allow_unknown: Accept tokens that the vocabulary lacks, as targets that are never right. A
            validation set may have some.
    """

    def __init__(
        self,
        vocabulary: Vocabulary,
        position: PositionConfig | None,
        with_ink: bool = False,
        corruption: float = 0.0,
        allow_unknown: bool = False,
    ) -> None:
        self._vocabulary, self._position = vocabulary, position
        self._with_ink, self._corruption = with_ink, corruption
        self._allow_unknown = allow_unknown
        self._symbol_ids = np.array(
            [vocabulary.index(token) for token in vocabulary.tokens if not is_structure(token)]
        )

    def __call__(self, samples: Sequence[RenderedSample], rng: np.random.Generator) -> Batch:
        """Return a batch; `rng` chooses the input tokens to corrupt."""
        images, padding = _padded([sample.image for sample in samples])
        encoded = [self._encode(sample.tokens) for sample in samples]
        directions = [_directions(sample) for sample in samples]
        input_ids, target_ids = self._sequences(encoded, directions)
        batch = Batch(
            [sample.name for sample in samples],
            torch.from_numpy(images),
            torch.from_numpy(padding),
            torch.from_numpy(self._corrupted(input_ids, rng)),
            torch.from_numpy(target_ids),
        )
        if self._position is not None:
            self._add_positions(batch, samples, directions)
        if self._with_ink and all(sample.boxes is not None for sample in samples):
            _add_ink_targets(batch, samples, encoded, directions)
        return batch

    def _sequences(
        self, encoded: list[np.ndarray], directions: list[tuple[bool, ...]]
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return input and target ids, int64 (batch, directions, steps)."""
        shape = (len(encoded), len(directions[0]), 1 + max(map(len, encoded)))
        input_ids, target_ids = np.zeros(shape, np.int64), np.full(shape, IGNORE, np.int64)
        for number, ids in enumerate(encoded):
            count = len(ids)
            for direction, backward in enumerate(directions[number]):
                start, end = self._vocabulary.sos, self._vocabulary.eos
                if backward:
                    start, end, ids = end, start, ids[::-1]
                input_ids[number, direction, : count + 1] = start, *ids
                target_ids[number, direction, : count + 1] = *ids, end
        return input_ids, target_ids

    def _encode(self, tokens: Sequence[str]) -> np.ndarray:
        vocabulary = self._vocabulary
        if self._allow_unknown:
            pad = vocabulary.pad
            return np.array([vocabulary.index(t) if t in vocabulary else pad for t in tokens])
        return np.array(vocabulary.encode(tokens))

    def _corrupted(self, input_ids: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Replace some symbols, so that the decoder does not rely on its input alone."""
        if not self._corruption:
            return input_ids
        hit = np.isin(input_ids, self._symbol_ids) & (
            rng.random(input_ids.shape) < self._corruption
        )
        return np.where(hit, rng.choice(self._symbol_ids, input_ids.shape), input_ids)

    def _add_positions(
        self, batch: Batch, samples: Sequence[RenderedSample], directions: list[tuple[bool, ...]]
    ) -> None:
        config = self._position
        assert config is not None
        shape = tuple(batch.input_ids.shape)
        identifiers = np.zeros((*shape, config.length), np.float32)
        levels, positions = np.full(shape, IGNORE, np.int64), np.full(shape, IGNORE, np.int64)
        for number, sample in enumerate(samples):
            forest = encode_forest(sample.tokens, coding=config.coding, lenient=True)
            codes = np.array(identifier_codes(forest, config.length), np.float32)
            level = np.minimum(forest.levels, config.levels - 1)
            position = np.array([POSITION_CODES[position] for position in forest.positions])
            for direction, backward in enumerate(directions[number]):
                step = -1 if backward else 1
                start = self._vocabulary.eos if backward else self._vocabulary.sos
                identifiers[number, direction, 0, 0] = start
                identifiers[number, direction, 1 : len(codes) + 1] = codes[::step]
                levels[number, direction, : len(level)] = level[::step]
                positions[number, direction, : len(position)] = position[::step]
        batch.position_identifiers = torch.from_numpy(identifiers)
        batch.nested_levels = torch.from_numpy(levels)
        batch.relative_positions = torch.from_numpy(positions)


def _padded(images: Sequence[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """Return images, or the features of a frozen encoder, as one array; and its padding."""
    if images[0].ndim == 2:
        return pad_images(images)
    height, width, channels = np.max([image.shape for image in images], axis=0)
    batch = np.zeros((len(images), height, width, channels), np.float32)
    padding = np.ones((len(images), height, width), bool)
    for number, image in enumerate(images):
        inside = number, slice(image.shape[0]), slice(image.shape[1])
        batch[inside], padding[inside] = image, False
    return batch.transpose(0, 3, 1, 2), padding


def _directions(sample: RenderedSample) -> tuple[bool, ...]:
    """Return which directions to train; true is right to left."""
    return (False, True) if sample.reverse is None else (sample.reverse,)


def _add_ink_targets(
    batch: Batch,
    samples: Sequence[RenderedSample],
    encoded: list[np.ndarray],
    directions: list[tuple[bool, ...]],
) -> None:
    """Add the symbol of each cell, and the cells of each target token."""
    has_features = batch.images.shape[1] > 1
    outside = (batch.padding if has_features else batch.padding[:, ::STRIDE, ::STRIDE]).numpy()
    height, width = outside.shape[1:]
    symbols = np.zeros((len(samples), height, width), np.int64)
    attention = np.zeros((*batch.input_ids.shape, height * width), bool)
    for number, sample in enumerate(samples):
        assert sample.boxes is not None
        symbols[number] = _symbol_cells(sample.boxes, encoded[number], height, width)
        cells = _overlapped(sample.boxes, height, width)
        for direction, backward in enumerate(directions[number]):
            attention[number, direction, : len(cells)] = cells[::-1] if backward else cells
    batch.symbol_targets = torch.from_numpy(np.where(outside, IGNORE, symbols))
    batch.attention_targets = torch.from_numpy(attention & ~outside.reshape(len(samples), 1, 1, -1))


def _centers(count: int) -> np.ndarray:
    return (np.arange(count) + 0.5) * STRIDE


def _symbol_cells(boxes: np.ndarray, ids: np.ndarray, height: int, width: int) -> np.ndarray:
    """Return the token id of each cell: that of the smallest box which covers its center."""
    middle = (boxes[:, :2] + boxes[:, 2:]) / 2
    # A box of at least one cell covers at least one center, so thin bars are not lost.
    half = np.maximum((boxes[:, 2:] - boxes[:, :2]) / 2, STRIDE / 2)
    covered = _covered(middle - half, middle + half, height, width)
    order = np.argsort(-half.prod(axis=1), kind="stable")  # NaN is last and covers nothing
    labels = np.zeros((height, width), np.int64)
    for token in order:
        labels[covered[token].reshape(height, width)] = ids[token]
    return labels


def _overlapped(boxes: np.ndarray, height: int, width: int) -> np.ndarray:
    """Return the cells that each box touches: bool (tokens, cells)."""
    return _covered(boxes[:, :2] - STRIDE / 2, boxes[:, 2:] + STRIDE / 2, height, width)


def _covered(low: np.ndarray, high: np.ndarray, height: int, width: int) -> np.ndarray:
    """Return the cells whose centers are in boxes with these corners: bool (tokens, cells)."""
    x, y = _centers(width), _centers(height)
    across = (x >= low[:, :1]) & (x < high[:, :1])
    down = (y >= low[:, 1:]) & (y < high[:, 1:])
    return (down[:, :, None] & across[:, None, :]).reshape(len(low), -1)
