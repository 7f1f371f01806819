"""Collate rendered examples into the tensors of a training step."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

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
from posformer.models.target_coding import TargetCoding
from posformer.training.symbol_masking import mask_symbols

IGNORE = -100  # target that does not count; the default of `F.cross_entropy`


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
    # float32 (batch, height, width): a Gaussian around every symbol, from 0 to 1; -1 on padding
    symbol_distribution: Tensor | None = None


@dataclass
class Collator:
    """Makes batches for one model."""

    vocabulary: Vocabulary  # the tokens of the model
    position: PositionConfig | None  # settings of its position forest; None without
    with_ink: bool = False  # whether to add targets for the ink losses
    corruption: float = 0.0  # share of symbols in the decoder input that are replaced by others
    masking: float = 0.0  # share of symbols of which a part is erased; only of images with boxes
    # Accept tokens that the vocabulary lacks, as targets that are never right. A validation set may
    # have some.
    allow_unknown: bool = False
    coding: TargetCoding | None = None  # what the model predicts; None: the tokens of captions

    def __call__(self, samples: Sequence[RenderedSample], rng: np.random.Generator) -> Batch:
        """Return a batch; `rng` chooses the input tokens to corrupt and the symbols to mask."""
        images, padding = _padded([self._masked(sample, rng) for sample in samples])
        encoded = [self._encode(sample.tokens) for sample in samples]
        steps = self._sequences(samples, encoded) if self.coding is None else self._coded(samples)
        arrays = {
            "images": images,
            "padding": padding,
            "input_ids": self._corrupted(steps.input_ids, rng),
            "target_ids": steps.target_ids,
        }
        if self.position is not None:
            starts = steps.input_ids[:, :, 0]
            arrays |= _position_targets(self.position, samples, steps.layout, starts)
        if self.with_ink and all(sample.boxes is not None for sample in samples):
            outside = padding if images.shape[1] > 1 else padding[:, ::STRIDE, ::STRIDE]
            arrays |= _ink_targets(samples, encoded, steps, outside)
        tensors = {name: torch.from_numpy(array) for name, array in arrays.items()}
        return Batch([sample.name for sample in samples], **tensors)

    def _sequences(self, samples: Sequence[RenderedSample], encoded: list[np.ndarray]) -> "_Steps":
        """Return the tokens of the captions as steps, in the directions of the samples."""
        lengths = np.array([len(ids) for ids in encoded])
        orders = {None: (1, -1), False: (1,), True: (-1,)}
        layout = _Layout([orders[sample.reverse] for sample in samples], 1 + max(lengths))
        sos, eos = self.vocabulary.sos, self.vocabulary.eos
        is_forward = np.array(layout.directions) == 1
        input_ids, target_ids = layout.arrange(encoded, 0, first=1), layout.arrange(encoded, IGNORE)
        input_ids[:, :, 0] = np.where(is_forward, sos, eos)
        target_ids[np.arange(len(samples)), :, lengths] = np.where(is_forward, eos, sos)
        return _Steps(layout, input_ids, target_ids, None)

    def _coded(self, samples: Sequence[RenderedSample]) -> "_Steps":
        """Return the steps that the target coding of the model makes of the captions."""
        assert self.coding is not None
        coded = [self.coding.encode(one.tokens, self.allow_unknown) for one in samples]
        inputs, targets, sources = (
            [np.array(part, np.int64) for part in parts] for parts in zip(*coded, strict=True)
        )
        layout = _Layout([(1,)] * len(samples), max(len(row) for row in inputs))
        arranged = layout.arrange(inputs, 0), layout.arrange(targets, IGNORE)
        return _Steps(layout, *arranged, sources)

    @cached_property
    def _symbol_ids(self) -> np.ndarray:
        symbols = [token for token in self.vocabulary.tokens if not is_structure(token)]
        return np.array(self.vocabulary.encode(symbols))

    def _encode(self, tokens: Sequence[str]) -> np.ndarray:
        vocabulary, pad = self.vocabulary, self.vocabulary.pad
        if self.allow_unknown:
            ids = [vocabulary.index(token) if token in vocabulary else pad for token in tokens]
        else:
            ids = vocabulary.encode(tokens)
        return np.array(ids, np.int64)

    def _masked(self, sample: RenderedSample, rng: np.random.Generator) -> np.ndarray:
        if not self.masking or sample.boxes is None:
            return sample.image
        return mask_symbols(sample.image, sample.boxes, self.masking, rng)

    def _corrupted(self, input_ids: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Replace some symbols, so that the decoder does not rely on its input alone."""
        if not self.corruption:
            return input_ids
        hit = np.isin(input_ids, self._symbol_ids) & (rng.random(input_ids.shape) < self.corruption)
        return np.where(hit, rng.choice(self._symbol_ids, input_ids.shape), input_ids)


@dataclass(frozen=True)
class _Layout:
    """How the tokens of a batch are arranged in its arrays."""

    directions: list[tuple[int, ...]]  # of each sample: 1 is left to right, -1 right to left
    steps: int

    def arrange(self, sequences: list[np.ndarray], fill: float, first: int = 0) -> np.ndarray:
        """Return values per token, from step `first` on: (batch, directions, steps, …)."""
        shape = len(sequences), len(self.directions[0]), self.steps, *sequences[0].shape[1:]
        result = np.full(shape, fill, sequences[0].dtype)
        for number, sequence in enumerate(sequences):
            for direction, order in enumerate(self.directions[number]):
                result[number, direction, first : first + len(sequence)] = sequence[::order]
        return result


@dataclass(frozen=True)
class _Steps:
    """The decoder steps of a batch."""

    layout: _Layout
    input_ids: np.ndarray  # int64 (batch, directions, steps)
    target_ids: np.ndarray  # int64 (batch, directions, steps)
    # For each sample and step the token whose ink it reads, -1 for none; None: step i reads token i
    sources: list[np.ndarray] | None


def _position_targets(
    config: PositionConfig, samples: Sequence[RenderedSample], layout: _Layout, starts: np.ndarray
) -> dict[str, np.ndarray]:
    """Return the position forest of the input and of the targets."""
    forests = [encode_forest(one.tokens, coding=config.coding, lenient=True) for one in samples]
    codes = [np.array(identifier_codes(one, config.length), np.float32) for one in forests]
    levels = [np.minimum(one.levels, config.levels - 1, dtype=np.int64) for one in forests]
    relative = [np.array([POSITION_CODES[at] for at in one.positions]) for one in forests]
    identifiers = layout.arrange(codes, 0.0, first=1)
    identifiers[:, :, 0, 0] = starts
    return {
        "position_identifiers": identifiers,
        "nested_levels": layout.arrange(levels, IGNORE),
        "relative_positions": layout.arrange(relative, IGNORE),
    }


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


def _ink_targets(
    samples: Sequence[RenderedSample],
    encoded: list[np.ndarray],
    steps: _Steps,
    outside: np.ndarray,
) -> dict[str, np.ndarray]:
    """Return the symbol of each cell, and the cells of each target token."""
    height, width = outside.shape[1:]
    symbols, touched = np.zeros(outside.shape, np.int64), []
    distribution = np.zeros(outside.shape, np.float32)
    for number, sample in enumerate(samples):
        assert sample.boxes is not None
        symbols[number] = _symbol_cells(sample.boxes, encoded[number], height, width)
        distribution[number] = _distribution(sample.boxes, height, width)
        low, high = sample.boxes[:, :2] - STRIDE / 2, sample.boxes[:, 2:] + STRIDE / 2
        touched.append(_covered(low, high, height, width))
    if steps.sources is not None:
        touched = [
            cells[sources] & (sources >= 0)[:, None]
            for cells, sources in zip(touched, steps.sources, strict=True)
        ]
    attention = steps.layout.arrange(touched, False) & ~outside.reshape(len(samples), 1, 1, -1)
    return {
        "symbol_targets": np.where(outside, IGNORE, symbols),
        "attention_targets": attention,
        "symbol_distribution": np.where(outside, np.float32(-1), distribution),
    }


def _symbol_cells(boxes: np.ndarray, ids: np.ndarray, height: int, width: int) -> np.ndarray:
    """Return the token id of each cell: that of the smallest box which covers its center."""
    middle = (boxes[:, :2] + boxes[:, 2:]) / 2
    # A box of at least one cell covers at least one center, so thin bars are not lost.
    half = np.maximum((boxes[:, 2:] - boxes[:, :2]) / 2, STRIDE / 2)
    covered = _covered(middle - half, middle + half, height, width)
    labels = np.zeros(height * width, np.int64)
    for token in np.argsort(-half.prod(axis=1), kind="stable"):  # NaN is last and covers nothing
        labels[covered[token]] = ids[token]
    return labels.reshape(height, width)


def _distribution(boxes: np.ndarray, height: int, width: int) -> np.ndarray:
    """Return the highest of the symbols' Gaussians at each cell; two deviations reach the edge."""
    boxes = boxes[~np.isnan(boxes[:, 0])]
    middle = (boxes[:, :2] + boxes[:, 2:]) / 2
    deviation = np.maximum((boxes[:, 2:] - boxes[:, :2]) / 4, STRIDE / 4)
    x, y = ((np.arange(count) + 0.5) * STRIDE for count in (width, height))
    across = np.exp(-(((x - middle[:, :1]) / deviation[:, :1]) ** 2) / 2)
    down = np.exp(-(((y - middle[:, 1:]) / deviation[:, 1:]) ** 2) / 2)
    return (down[:, :, None] * across[:, None, :]).max(axis=0, initial=0.0)


def _covered(low: np.ndarray, high: np.ndarray, height: int, width: int) -> np.ndarray:
    """Return the cells whose centers are in boxes with these corners: bool (tokens, cells)."""
    x, y = ((np.arange(count) + 0.5) * STRIDE for count in (width, height))
    across = (x >= low[:, :1]) & (x < high[:, :1])
    down = (y >= low[:, 1:]) & (y < high[:, 1:])
    return (down[:, :, None] & across[:, None, :]).reshape(len(low), -1)
