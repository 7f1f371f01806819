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
        trainer = self.trainer
        assert trainer is not None
        module = trainer.lightning_module
        assert isinstance(module, TrainingModule)
        return self._loader(
            self._stream(
                self.examples.train,
                self.config.batch.corruption,
                epoch=trainer.current_epoch,
                start=module.batches_done,
                directions=self._directions(self.config.batch.directions),
            )
        )

    def val_dataloader(self) -> DataLoader[Batch]:
        """Return the validation examples, without augmentation."""
        directions = self._directions("both")
        return self._loader(
            self._stream(self.examples.validation, 0.0, shuffle=False, directions=directions)
        )

    def _directions(self, wanted: str) -> str:
        forward_only = self.config.model.decoder.trained_directions == "forward"
        return "forward" if forward_only else wanted

    def _stream(self, sampler: Sampler, corruption: float, **options: Any) -> BatchStream:
        collator = Collator(
            self.examples.vocabulary,
            self.config.model.position,
            self.examples.with_ink,
            corruption,
            allow_unknown=sampler is self.examples.validation,
        )
        trainer = self.trainer
        assert trainer is not None
        return BatchStream(
            sampler,
            collator,
            self.config.batch,
            self.config.seed,
            rank=trainer.global_rank,
            world=trainer.world_size,
            **options,
        )

    def _loader(self, stream: BatchStream) -> DataLoader[Batch]:
        workers = self.config.batch.workers
        return DataLoader(
            stream, batch_size=None, num_workers=workers, prefetch_factor=4 if workers else None
        )
