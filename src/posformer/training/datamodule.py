"""Batches for Lightning's trainer, from a config's examples."""

from typing import Any

import lightning as L
from torch.utils.data import DataLoader

from posformer.training.batch_stream import BatchStream
from posformer.training.collate import Batch, Collator
from posformer.training.datasets import Examples
from posformer.training.lightning_module import TrainingModule
from posformer.training.training_config import TrainingConfig

__all__ = ["TrainingDataModule"]


class TrainingDataModule(L.LightningDataModule):
    """The batches of every epoch, made anew for each."""

    def __init__(self, config: TrainingConfig, examples: Examples) -> None:
        super().__init__()
        self.config, self.examples = config, examples

    def train_dataloader(self) -> DataLoader[Batch]:
        """The batches of the epoch the trainer is in, from where a resumed run stopped."""
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
                rows=self._rows(self.config.batch.directions),
            )
        )

    def val_dataloader(self) -> DataLoader[Batch]:
        """The validation examples as they are."""
        rows = self._rows("both")
        return self._loader(self._stream(self.examples.validation, 0.0, shuffle=False, rows=rows))

    def _rows(self, wanted: str) -> str:
        one_way = self.config.model.decoder.trained_directions == "forward"
        return "forward" if one_way else wanted

    def _stream(self, source: Any, corruption: float, **options: Any) -> BatchStream:
        collator = Collator(
            self.examples.vocabulary,
            self.config.model.position,
            self.examples.with_ink,
            corruption,
            allow_unknown=source is self.examples.validation,
        )
        trainer = self.trainer
        assert trainer is not None
        return BatchStream(
            source,
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
