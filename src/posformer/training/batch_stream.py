"""The batches of an epoch, determined by the seed and the epoch alone.

Every random choice about an example depends on (seed, epoch, example). So a run that is resumed in
the middle of an epoch gets the batches it would have had, and all processes of a run agree on them.
"""

import signal
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

import cv2
import lightning as L
import numpy as np
from torch.utils.data import DataLoader, IterableDataset

from posformer.data import Sample, Sampler, pack_batches, shard
from posformer.models.target_coding import open_target_coding
from posformer.training.collate import Batch, Collator, RenderedSample
from posformer.training.datasets import Examples
from posformer.training.lightning_module import TrainingModule
from posformer.training.training_config import BatchConfig, TrainingConfig


@dataclass
class BatchStream(IterableDataset[Batch]):
    """Samples examples chunk by chunk, packs each chunk by size, renders batch by batch."""

    sampler: Sampler
    collator: Collator
    config: BatchConfig
    seed: int
    epoch: int = 0
    start: int = 0  # batches of this epoch that were already trained on
    rank: int = 0
    world: int = 1
    shuffle: bool = True
    directions: Literal["both", "one", "forward"] = "both"  # of each image

    def __iter__(self) -> Iterator[Batch]:
        """Yield the batches of this process, from `start` on."""
        cv2.setNumThreads(0)  # leave the cores to the network
        for number, (chunk, members) in enumerate(self._plan()):
            if number >= self.start:
                yield self._render(chunk, members)

    def _plan(self) -> Iterator[tuple[dict[int, Sample], np.ndarray]]:
        """Yield, for each batch of this process, the samples of its chunk and its indices."""
        order = np.arange(len(self.sampler))
        if self.shuffle:
            order = self._rng(-1).permutation(order)
        chunks = max(1, round(len(order) / self.config.chunk))
        for number, chunk in enumerate(np.array_split(order, chunks)):
            samples = {int(i): self.sampler.sample(int(i), self._rng(int(i))) for i in chunk}
            sizes = np.array(
                [(s.height, s.width, len(s.tokens) + 1) for s in samples.values()], np.int64
            )
            names = ("max_pixels", "max_images", "max_cells_steps")
            limits = {name: getattr(self.config, name) for name in names}
            packed = pack_batches(sizes, rng=self._rng(-2, number), **limits)
            for members in self._shard(packed, sizes, number):
                yield samples, chunk[members]

    def _shard(self, packed: list[np.ndarray], sizes: np.ndarray, chunk: int) -> list[np.ndarray]:
        """Return this process's batches; at each step, all processes have about equal work."""
        packed.sort(key=lambda members: sizes[members, :2].max(axis=0).prod() * len(members))
        mine = shard(packed, self.rank, self.world)
        if self.shuffle:
            mine = [mine[index] for index in self._rng(-5, chunk).permutation(len(mine))]
        return mine

    def _render(self, samples: dict[int, Sample], members: np.ndarray) -> Batch:
        rendered = [self._rendered(samples[index], index) for index in members.tolist()]
        return self.collator(rendered, self._rng(-3, int(members[0])))

    def _rendered(self, sample: Sample, index: int) -> RenderedSample:
        reverse = None if self.directions == "both" else False
        if self.directions == "one":
            reverse = bool(self._rng(-4, index).integers(2))
        return RenderedSample(sample.name, sample.tokens, *sample.render(), reverse)

    def _rng(self, *key: int) -> np.random.Generator:
        # Seeds must not be negative. Purposes have negative keys, examples the others.
        return np.random.default_rng([self.seed, self.epoch, *(part + 8 for part in key)])


class TrainingDataModule(L.LightningDataModule):
    """Makes the batches of each epoch."""

    def __init__(self, config: TrainingConfig, examples: Examples) -> None:
        super().__init__()
        self.config, self.examples = config, examples

    def train_dataloader(self) -> DataLoader[Batch]:
        """Return the batches of the current epoch; those that a resumed run had left."""
        assert self.trainer is not None
        module, batch = self.trainer.lightning_module, self.config.batch
        assert isinstance(module, TrainingModule)
        place = {"epoch": self.trainer.current_epoch, "start": module.batches_done}
        collator = self._collator(corruption=batch.corruption, masking=batch.masking)
        return self._loader(self.examples.train, collator, directions=batch.directions, **place)

    def val_dataloader(self) -> list[DataLoader[Batch]]:
        """Return the validation sets, without augmentation."""
        collator = self._collator(allow_unknown=True)
        sets = self.examples.validation, *self.examples.validation_by_kind.values()
        return [self._loader(one, collator, shuffle=False) for one in sets]

    def _collator(self, **options: Any) -> Collator:
        examples, model = self.examples, self.config.model
        coding = open_target_coding(model, examples.vocabulary)
        common = examples.vocabulary, model.position, examples.with_ink
        return Collator(*common, coding=coding, **options)

    def _loader(self, sampler: Sampler, collator: Collator, **options: Any) -> DataLoader[Batch]:
        assert self.trainer is not None
        config = self.config.batch
        if self.config.model.decoder.trained_directions == "forward":
            options["directions"] = "forward"
        options |= {"rank": self.trainer.global_rank, "world": self.trainer.world_size}
        stream = BatchStream(sampler, collator, config, self.config.seed, **options)
        prefetch = 4 if config.workers else None
        return DataLoader(
            stream,
            None,
            num_workers=config.workers,
            prefetch_factor=prefetch,
            worker_init_fn=_ignore_signals,
        )


def _ignore_signals(worker: int) -> None:
    """Leave signals to the main process: it ends its workers after the current batch.

    Ctrl-C, a closed terminal and job schedulers send them to the whole group of processes.
    """
    for name in ("SIGINT", "SIGTERM", "SIGHUP"):
        if hasattr(signal, name):
            signal.signal(getattr(signal, name), signal.SIG_IGN)
