"""Runs a recipe: data, module, Lightning's trainer, and what is left in the run's folder."""

import sys
import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import lightning as L
import torch
import yaml
from lightning.pytorch.callbacks import (
    Callback,
    LearningRateMonitor,
    ModelCheckpoint,
    TQDMProgressBar,
    WeightAveraging,
)
from lightning.pytorch.loggers import CSVLogger, TensorBoardLogger
from torch import Tensor
from torch.utils.data import DataLoader

from posformer.model.posformer import PosFormer
from posformer.model.weights import load_model, take_weights
from posformer.training.allocator import keep_memory
from posformer.training.batch import Batch, Collator
from posformer.training.module import TrainingError, TrainingModule
from posformer.training.recipe import Recipe
from posformer.training.sources import Examples, open_examples
from posformer.training.stream import BatchStream

__all__ = ["RecipeData", "train"]


class RecipeData(L.LightningDataModule):
    """The batches of every epoch, made anew for each."""

    def __init__(self, recipe: Recipe, examples: Examples) -> None:
        super().__init__()
        self.recipe, self.examples = recipe, examples

    def train_dataloader(self) -> DataLoader[Batch]:
        """The batches of the epoch the trainer is in, from where a resumed run stopped."""
        trainer = self.trainer
        assert trainer is not None
        module = trainer.lightning_module
        assert isinstance(module, TrainingModule)
        return self._loader(
            self._stream(
                self.examples.train,
                self.recipe.batch.corruption,
                epoch=trainer.current_epoch,
                start=module.batches_done,
                rows=self._rows(self.recipe.batch.directions),
            )
        )

    def val_dataloader(self) -> DataLoader[Batch]:
        """The validation examples as they are."""
        rows = self._rows("both")
        return self._loader(self._stream(self.examples.validation, 0.0, shuffle=False, rows=rows))

    def _rows(self, wanted: str) -> str:
        return "forward" if self.recipe.model.decoder.directions == "forward" else wanted

    def _stream(self, source: Any, corruption: float, **options: Any) -> BatchStream:
        collator = Collator(
            self.examples.vocabulary,
            self.recipe.model.position,
            self.examples.with_ink,
            corruption,
            allow_unknown=source is self.examples.validation,
        )
        trainer = self.trainer
        assert trainer is not None
        return BatchStream(
            source,
            collator,
            self.recipe.batch,
            self.recipe.seed,
            rank=trainer.global_rank,
            world=trainer.world_size,
            **options,
        )

    def _loader(self, stream: BatchStream) -> DataLoader[Batch]:
        workers = self.recipe.batch.workers
        return DataLoader(
            stream, batch_size=None, num_workers=workers, prefetch_factor=4 if workers else None
        )


class LogLines(Callback):
    """Prints a line now and then where there is no terminal to draw a progress bar on."""

    def __init__(self, seconds: float = 30.0) -> None:
        self._seconds, self._last = seconds, time.monotonic()
        self._pictures, self._loss, self._batches = 0, 0.0, 0

    def on_train_batch_end(
        self,
        trainer: L.Trainer,
        module: L.LightningModule,
        outputs: Any,
        batch: Batch,
        batch_idx: int,
    ) -> None:
        """Adds up, and prints when it is time."""
        self._pictures += len(batch.names)
        self._batches += 1
        self._loss += float(outputs["loss"])
        passed = time.monotonic() - self._last
        if passed < self._seconds or not trainer.is_global_zero:
            return
        rate = trainer.optimizers[0].param_groups[0]["lr"]
        _say(
            f"epoch {trainer.current_epoch} step {trainer.global_step}: "
            f"loss {self._loss / self._batches:.3f}, rate {rate:.2e}, "
            f"{self._pictures / passed:.1f} pictures/s"
        )
        self._pictures, self._batches, self._loss = 0, 0, 0.0
        self._last = time.monotonic()

    def on_validation_end(self, trainer: L.Trainer, module: L.LightningModule) -> None:
        """Prints the measures."""
        if trainer.sanity_checking or not trainer.is_global_zero:
            return
        measures = {
            name: float(value)
            for name, value in trainer.callback_metrics.items()
            if name.startswith("val/")
        }
        _say(", ".join(f"{name} {value:.3f}" for name, value in sorted(measures.items())))


def _say(line: str) -> None:
    print(f"{time.strftime('%H:%M:%S')} {line}", flush=True)


def train(
    recipe: Recipe,
    folder: Path,
    *,
    resume: bool = False,
    init: Path | None = None,
) -> TrainingModule:
    """Trains, and leaves checkpoints, curves and the recipe in `folder`.

    Args:
        recipe: what to do.
        folder: of the run; `last.ckpt` in it is what `resume` goes on from.
        resume: go on from `last.ckpt`.
        init: a model whose weights to start from; words that it does not know are added to it.
    """
    last = folder / "last.ckpt"
    if resume and not last.exists():
        raise TrainingError(f"{last}: nothing to resume")
    if not resume and last.exists():
        raise TrainingError(f"{last}: there is a run already; resume it or choose another folder")
    keep_memory()
    if recipe.threads:
        torch.set_num_threads(recipe.threads)
    start = load_model(init) if init is not None else None
    known = start.vocabulary if start is not None else None
    examples = open_examples(recipe.data, recipe.model.picture, known)
    torch.manual_seed(recipe.seed)
    module = TrainingModule(recipe, examples.vocabulary, len(examples.train))
    if start is not None:
        _take(module, start)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "recipe.yaml").write_text(yaml.safe_dump(recipe.to_dict(), sort_keys=False))
    trainer = _trainer(recipe, folder)
    trainer.fit(
        module,
        RecipeData(recipe, examples),
        ckpt_path=last if resume else None,
        weights_only=False if resume else None,
    )
    return module


def _take(module: TrainingModule, start: PosFormer) -> None:
    new = take_weights(module.model, start)
    if new:
        parts = sorted({name.rsplit(".", 1)[0] for name in new})
        _say(f"starts anew: {', '.join(parts[:6])}{' …' if len(parts) > 6 else ''}")


def _trainer(recipe: Recipe, folder: Path) -> L.Trainer:
    return L.Trainer(
        default_root_dir=folder,
        accelerator=recipe.accelerator,
        devices=recipe.devices,
        num_nodes=recipe.nodes,
        max_epochs=recipe.epochs,
        strategy="ddp" if recipe.devices * recipe.nodes > 1 else "auto",
        max_time=timedelta(minutes=recipe.max_minutes) if recipe.max_minutes else None,
        check_val_every_n_epoch=recipe.validate_every,
        gradient_clip_val=recipe.optimizer.clip,
        reload_dataloaders_every_n_epochs=1,
        use_distributed_sampler=False,
        num_sanity_val_steps=0,
        logger=[TensorBoardLogger(folder, "", "curves"), CSVLogger(folder, "log")],
        callbacks=_callbacks(recipe, folder),
        enable_progress_bar=sys.stderr.isatty(),
        enable_model_summary=False,
        log_every_n_steps=20,
    )


def _callbacks(recipe: Recipe, folder: Path) -> list[Callback]:
    callbacks: list[Callback] = [
        ModelCheckpoint(
            folder,
            filename="last",
            train_time_interval=timedelta(minutes=recipe.checkpoint_minutes),
            enable_version_counter=False,
            save_on_exception=True,
        ),
        ModelCheckpoint(
            folder,
            filename="last",
            every_n_epochs=1,
            save_on_train_epoch_end=True,
            enable_version_counter=False,
        ),
        ModelCheckpoint(
            folder,
            filename="best",
            monitor="val/exprate",
            mode="max",
            enable_version_counter=False,
        ),
        LearningRateMonitor("step"),
    ]
    if recipe.optimizer.averaging is not None:
        callbacks.append(WeightAveraging(multi_avg_fn=_moving_average(recipe.optimizer.averaging)))
    callbacks.append(TQDMProgressBar() if sys.stderr.isatty() else LogLines())
    return callbacks


def _moving_average(decay: float) -> Callable[[Any, Any, Any], None]:
    """An exponential moving average that follows closely at first, when weights change most."""

    @torch.no_grad()
    def update(averaged: list[Tensor], current: list[Tensor], count: Tensor | int) -> None:
        number = int(count)
        weight = 1 - min(decay, (1 + number) / (10 + number))
        for mean, now in zip(averaged, current, strict=True):
            if mean.is_floating_point():
                mean.lerp_(now, weight)
            else:
                mean.copy_(now)

    return update
