"""The batches of an epoch, in an order that depends on the seed and the epoch alone.

Every random choice for an example comes from (seed, epoch, example), so that a run that was stopped
in mid-epoch goes on with the batches it would have had, and all processes of a run agree on them.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import cv2
import numpy as np
from torch.utils.data import IterableDataset

from posformer.data import Sample, Sampler, pack_batches, shard
from posformer.training.collate import Batch, Collator, Rendered
from posformer.training.training_config import BatchConfig

__all__ = ["BatchStream"]


@dataclass
class BatchStream(IterableDataset[Batch]):
    """Draws examples chunk by chunk, packs each chunk by size, renders batch by batch."""

    source: Sampler
    collator: Collator
    config: BatchConfig
    seed: int
    epoch: int = 0
    start: int = 0  # batches of this epoch that were already trained on
    rank: int = 0
    world: int = 1
    shuffle: bool = True
    rows: Literal["both", "one", "forward"] = "both"  # directions of each image

    def __iter__(self) -> Iterator[Batch]:
        """Batches of this process, from `start` on."""
        cv2.setNumThreads(0)  # the cores belong to the network
        for number, (chunk, members) in enumerate(self._plan()):
            if number >= self.start:
                yield self._render(chunk, members)

    def _plan(self) -> Iterator[tuple[dict[int, Sample], np.ndarray]]:
        """For each batch of this process the drawings of its chunk, and which of them are in it."""
        order = np.arange(len(self.source))
        if self.shuffle:
            order = self._rng(-1).permutation(order)
        chunks = max(1, round(len(order) / self.config.chunk))
        for number, chunk in enumerate(np.array_split(order, chunks)):
            drawings = {int(i): self.source.sample(int(i), self._rng(int(i))) for i in chunk}
            sizes = np.array(
                [(d.height, d.width, len(d.tokens) + 1) for d in drawings.values()], np.int64
            )
            packed = pack_batches(
                sizes,
                max_pixels=self.config.max_pixels,
                max_images=self.config.max_images,
                max_cells_steps=self.config.max_cells_steps,
                rng=self._rng(-2, number),
            )
            for members in self._share(packed, sizes, number):
                yield drawings, chunk[members]

    def _share(self, packed: list[np.ndarray], sizes: np.ndarray, chunk: int) -> list[np.ndarray]:
        """This process's batches; at each step those of all processes cost about the same."""
        packed = sorted(
            packed, key=lambda members: sizes[members, :2].max(axis=0).prod() * len(members)
        )
        mine = shard(packed, self.rank, self.world)
        if self.shuffle:
            mine = [mine[place] for place in self._rng(-5, chunk).permutation(len(mine))]
        return mine

    def _render(self, drawings: dict[int, Sample], members: np.ndarray) -> Batch:
        return self.collator(
            [self._rendered(drawings[index], index) for index in members.tolist()],
            self._rng(-3, int(members[0])),
        )

    def _rendered(self, drawing: Sample, index: int) -> Rendered:
        image, boxes = drawing.render()
        return Rendered(drawing.name, drawing.tokens, image, boxes, self._reverse(index))

    def _reverse(self, index: int) -> bool | None:
        if self.rows == "both":
            return None
        return self.rows == "one" and bool(self._rng(-4, index).integers(2))

    def _rng(self, *key: int) -> np.random.Generator:
        # Seeds must not be negative; the offset keeps purposes apart from example numbers.
        return np.random.default_rng([self.seed, self.epoch, *(part + 8 for part in key)])
