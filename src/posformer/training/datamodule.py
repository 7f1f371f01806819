"""Data loaders for Lightning's trainer."""

from typing import Any

import lightning as L
from torch.utils.data import DataLoader

from posformer.data import Sampler
from posformer.training.batch_stream import BatchStream
from posformer.training.collate import Batch, Collator
from posformer.training.datasets import Examples
from posformer.training.lightning_module import TrainingModule
from posformer.training.training_config import TrainingConfig


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
        collator = self._collator(corruption=batch.corruption)
        return self._loader(self.examples.train, collator, batch.directions, **place)

    def val_dataloader(self) -> DataLoader[Batch]:
        """Return the validation examples, without augmentation."""
        collator = self._collator(allow_unknown=True)
        return self._loader(self.examples.validation, collator, "both", shuffle=False)

    def _collator(self, **options: Any) -> Collator:
        examples, position = self.examples, self.config.model.position
        return Collator(examples.vocabulary, position, examples.with_ink, **options)

    def _loader(
        self, sampler: Sampler, collator: Collator, directions: str, **options: Any
    ) -> DataLoader[Batch]:
        assert self.trainer is not None
        config = self.config.batch
        if self.config.model.decoder.trained_directions == "forward":
            directions = "forward"
        options |= {"rank": self.trainer.global_rank, "world": self.trainer.world_size}
        stream = BatchStream(
            sampler, collator, config, self.config.seed, directions=directions, **options
        )
        prefetch = 4 if config.workers else None
        return DataLoader(stream, None, num_workers=config.workers, prefetch_factor=prefetch)
