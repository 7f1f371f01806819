"""From rendered examples to the tensors of a training step."""

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
from posformer.models.encoder import STRIDE
from posformer.models.model_config import PositionConfig
from posformer.models.padding import pad_images

__all__ = ["IGNORE", "Batch", "Collator", "Rendered"]

IGNORE = -100  # a target that does not count


@dataclass(frozen=True)
class Rendered:
    """One example, ready to be put into a batch."""

    name: str
    tokens: tuple[str, ...]
    image: np.ndarray  # uint8 (height, width); or its map, float16 (rows, columns, channels)
    boxes: np.ndarray | None  # float32 (tokens, 4): left, top, right, bottom; NaN without ink
    reverse: bool | None = None  # which direction to train, None for both


@dataclass
class Batch:
    """Tensors of one step; rows of an image are directions."""

    names: list[str]
    images: Tensor  # float32 (images, 1, height, width); or maps (…, channels, rows, columns)
    padding: Tensor  # bool (images, height, width), or of the maps
    tokens: Tensor  # int64 (images, rows, steps), fed in
    targets: Tensor  # int64 (images, rows, steps), IGNORE behind the end
    identifiers: Tensor | None = None  # float32 (images, rows, steps, letters), of what is fed in
    levels: Tensor | None = None  # int64 (images, rows, steps)
    letters: Tensor | None = None  # int64 (images, rows, steps)
    cells: Tensor | None = (
        None  # int64 (images, height, width of the map): the symbol there, 0 paper
    )
    looks: Tensor | None = None  # bool (images, rows, steps, cells): where the symbol to write is

    def to(self, device: torch.device) -> "Batch":
        """The same on a device."""
        moved: dict[str, Any] = {
            item.name: value.to(device, non_blocking=True)
            for item in fields(self)
            if isinstance(value := getattr(self, item.name), Tensor)
        }
        return replace(self, **moved)


class Collator:
    """Makes batches for one model."""

    def __init__(
        self,
        vocabulary: Vocabulary,
        position: PositionConfig | None,
        with_ink: bool = False,
        corruption: float = 0.0,
        allow_unknown: bool = False,
    ) -> None:
        """Prepare for a model.

        Args:
            vocabulary: its words.
            position: its position forest; None without.
            with_ink: whether to tell where the symbols are.
            corruption: share of fed-in ink tokens that are substituted for others.
            allow_unknown: take tokens that the vocabulary lacks, as words that are never right: a
                validation set may have some.
        """
        self._vocabulary, self._position = vocabulary, position
        self._with_ink, self._corruption = with_ink, corruption
        self._allow_unknown = allow_unknown
        self._ink_words = np.array(
            [vocabulary.index(word) for word in vocabulary.tokens if not is_structure(word)]
        )

    def __call__(self, examples: Sequence[Rendered], rng: np.random.Generator) -> Batch:
        """A batch of examples; `rng` decides which fed-in tokens are corrupted."""
        images, padding = _padded([example.image for example in examples])
        encoded = [self._encode(example.tokens) for example in examples]
        rows = [_directions(example) for example in examples]
        steps = 1 + max(map(len, encoded))
        shape = (len(examples), len(rows[0]), steps)
        tokens, targets = np.zeros(shape, np.int64), np.full(shape, IGNORE, np.int64)
        for number, words in enumerate(encoded):
            for row, backward in enumerate(rows[number]):
                start, end = self._vocabulary.sos, self._vocabulary.eos
                if backward:
                    start, end, words = end, start, words[::-1]
                tokens[number, row, 0] = start
                tokens[number, row, 1 : len(words) + 1] = words
                targets[number, row, : len(words)] = words
                targets[number, row, len(words)] = end
        batch = Batch(
            [example.name for example in examples],
            torch.from_numpy(images),
            torch.from_numpy(padding),
            torch.from_numpy(self._corrupted(tokens, rng)),
            torch.from_numpy(targets),
        )
        if self._position is not None:
            self._add_positions(batch, examples, rows)
        if self._with_ink and all(example.boxes is not None for example in examples):
            _add_ink(batch, examples, encoded, rows)
        return batch

    def _encode(self, tokens: Sequence[str]) -> np.ndarray:
        words = self._vocabulary
        if self._allow_unknown:
            return np.array([words.index(t) if t in words else words.pad for t in tokens])
        return np.array(words.encode(tokens))

    def _corrupted(self, tokens: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Ink tokens substituted for others here and there, so that the decoder has to look."""
        if not self._corruption:
            return tokens
        hit = np.isin(tokens, self._ink_words) & (rng.random(tokens.shape) < self._corruption)
        return np.where(hit, rng.choice(self._ink_words, tokens.shape), tokens)

    def _add_positions(
        self, batch: Batch, examples: Sequence[Rendered], rows: list[tuple[bool, ...]]
    ) -> None:
        config = self._position
        assert config is not None
        shape = tuple(batch.tokens.shape)
        identifiers = np.zeros((*shape, config.length), np.float32)
        levels, letters = np.full(shape, IGNORE, np.int64), np.full(shape, IGNORE, np.int64)
        for number, example in enumerate(examples):
            forest = encode_forest(example.tokens, coding=config.coding, lenient=True)
            codes = np.array(identifier_codes(forest, config.length), np.float32)
            level = np.minimum(forest.levels, config.levels - 1)
            letter = np.array([POSITION_CODES[position] for position in forest.positions])
            for row, backward in enumerate(rows[number]):
                turn = -1 if backward else 1
                identifiers[number, row, 0, 0] = (
                    self._vocabulary.eos if backward else self._vocabulary.sos
                )
                identifiers[number, row, 1 : len(codes) + 1] = codes[::turn]
                levels[number, row, : len(level)] = level[::turn]
                letters[number, row, : len(letter)] = letter[::turn]
        batch.identifiers = torch.from_numpy(identifiers)
        batch.levels, batch.letters = torch.from_numpy(levels), torch.from_numpy(letters)


def _padded(images: Sequence[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """Images, or all of them maps of a frozen encoder, as one array; and its padding."""
    if images[0].ndim == 2:
        return pad_images(images)
    rows, columns, channels = np.max([one.shape for one in images], axis=0)
    batch = np.zeros((len(images), rows, columns, channels), np.float32)
    padding = np.ones((len(images), rows, columns), bool)
    for number, one in enumerate(images):
        inside = number, slice(one.shape[0]), slice(one.shape[1])
        batch[inside], padding[inside] = one, False
    return batch.transpose(0, 3, 1, 2), padding


def _directions(example: Rendered) -> tuple[bool, ...]:
    return (False, True) if example.reverse is None else (example.reverse,)


def _add_ink(
    batch: Batch,
    examples: Sequence[Rendered],
    encoded: list[np.ndarray],
    rows: list[tuple[bool, ...]],
) -> None:
    """Which symbol stands in each cell, and in which cells each token to be written stands."""
    encoded_before = batch.images.shape[1] > 1
    outside = (batch.padding if encoded_before else batch.padding[:, ::STRIDE, ::STRIDE]).numpy()
    height, width = outside.shape[1:]
    cells = np.zeros((len(examples), height, width), np.int64)
    looks = np.zeros((*batch.tokens.shape, height * width), bool)
    for number, example in enumerate(examples):
        assert example.boxes is not None
        cells[number] = _symbol_cells(example.boxes, encoded[number], height, width)
        where = _overlapped(example.boxes, height, width)
        for row, backward in enumerate(rows[number]):
            looks[number, row, : len(where)] = where[::-1] if backward else where
    batch.cells = torch.from_numpy(np.where(outside, IGNORE, cells))
    batch.looks = torch.from_numpy(looks & ~outside.reshape(len(examples), 1, 1, -1))


def _centres(count: int) -> np.ndarray:
    return (np.arange(count) + 0.5) * STRIDE


def _symbol_cells(boxes: np.ndarray, words: np.ndarray, height: int, width: int) -> np.ndarray:
    """The word whose box covers the centre of each cell, the smaller box winning."""
    middle = (boxes[:, :2] + boxes[:, 2:]) / 2
    # A box at least one cell wide and high covers at least one centre: thin bars are not lost.
    half = np.maximum((boxes[:, 2:] - boxes[:, :2]) / 2, STRIDE / 2)
    covered = _covered(middle - half, middle + half, height, width)
    order = np.argsort(-half.prod(axis=1), kind="stable")  # NaN comes last and covers nothing
    labels = np.zeros((height, width), np.int64)
    for token in order:
        labels[covered[token].reshape(height, width)] = words[token]
    return labels


def _overlapped(boxes: np.ndarray, height: int, width: int) -> np.ndarray:
    """The cells that each box touches: bool (tokens, cells)."""
    return _covered(boxes[:, :2] - STRIDE / 2, boxes[:, 2:] + STRIDE / 2, height, width)


def _covered(low: np.ndarray, high: np.ndarray, height: int, width: int) -> np.ndarray:
    """Cells whose centre lies in boxes given by two corners (tokens, 2): bool (tokens, cells)."""
    x, y = _centres(width), _centres(height)
    across = (x >= low[:, :1]) & (x < high[:, :1])
    down = (y >= low[:, 1:]) & (y < high[:, 1:])
    return (down[:, :, None] & across[:, None, :]).reshape(len(low), -1)
