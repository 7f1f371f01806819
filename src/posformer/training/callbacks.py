"""What happens around training: checkpoints, averaged weights, progress."""

import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import lightning as L
import torch
from lightning.pytorch.callbacks import (
    Callback,
    LearningRateMonitor,
    ModelCheckpoint,
    TQDMProgressBar,
    WeightAveraging,
)
from torch import Tensor

from posformer.training.collate import Batch
from posformer.training.lightning_module import TrainingModule
from posformer.training.training_config import TrainingConfig

__all__ = ["CpuBudget", "LogLines", "make_callbacks", "say"]


def say(line: str) -> None:
    """Prints a line with the time of day."""
    print(f"{time.strftime('%H:%M:%S')} {line}", flush=True)


class LogLines(Callback):
    """Prints a line now and then where there is no terminal to draw a progress bar on."""

    def __init__(self, seconds: float = 30.0) -> None:
        self._seconds, self._last = seconds, time.monotonic()
        self._images, self._loss, self._batches = 0, 0.0, 0

    def on_train_batch_end(
        self,
        trainer: L.Trainer,
        module: L.LightningModule,
        outputs: Any,
        batch: Batch,
        batch_idx: int,
    ) -> None:
        """Adds up, and prints when it is time."""
        self._images += len(batch.names)
        self._batches += 1
        self._loss += float(outputs["loss"])
        passed = time.monotonic() - self._last
        if passed < self._seconds or not trainer.is_global_zero:
            return
        rate = trainer.optimizers[0].param_groups[0]["lr"]
        say(
            f"epoch {trainer.current_epoch} step {trainer.global_step}: "
            f"loss {self._loss / self._batches:.3f}, rate {rate:.2e}, "
            f"{self._images / passed:.1f} images/s"
        )
        self._images, self._batches, self._loss = 0, 0, 0.0
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
        say(", ".join(f"{name} {value:.3f}" for name, value in sorted(measures.items())))


class CpuBudget(Callback):
    """Counts the CPU time that training takes, and ends a run that has had its minutes.

    The clock would punish a run for what else the machine has to do. Validation does not count.
    """

    def __init__(self, minutes: float | None) -> None:
        self._minutes, self._last = minutes, 0.0

    def on_train_start(self, trainer: L.Trainer, module: L.LightningModule) -> None:
        """Starts counting; a run that had its time before does nothing more."""
        self._last = _cpu_seconds()
        self._stop_in_time(trainer, module)

    def on_train_batch_end(
        self,
        trainer: L.Trainer,
        module: L.LightningModule,
        outputs: Any,
        batch: Batch,
        batch_idx: int,
    ) -> None:
        """Counts what was spent since the last batch, by all processes."""
        self._count(trainer, module)
        self._stop_in_time(trainer, module)

    def on_validation_start(self, trainer: L.Trainer, module: L.LightningModule) -> None:
        """Stops counting."""
        self._count(trainer, module)

    def on_validation_end(self, trainer: L.Trainer, module: L.LightningModule) -> None:
        """Goes on counting."""
        self._last = _cpu_seconds()

    def _count(self, trainer: L.Trainer, module: L.LightningModule) -> None:
        assert isinstance(module, TrainingModule)
        now = _cpu_seconds()
        spent = torch.tensor(now - self._last)
        self._last = now
        if trainer.world_size > 1:
            spent = trainer.strategy.reduce(spent.to(module.device), reduce_op="sum")
        module.spent += float(spent)

    def _stop_in_time(self, trainer: L.Trainer, module: L.LightningModule) -> None:
        assert isinstance(module, TrainingModule)
        if self._minutes is not None and module.spent >= 60 * self._minutes:
            trainer.should_stop = True


class PatientInterrupt(Callback):
    """Ctrl-C ends a run behind the batch at hand, where weights and counts agree.

    A second one is not waited for. Comes after all callbacks that change what is saved.
    """

    def __init__(self) -> None:
        self._asked = False
        self._former: Any = None

    def setup(self, trainer: L.Trainer, module: L.LightningModule, stage: str) -> None:
        """Takes the signal over; only the main thread can."""
        if threading.current_thread() is threading.main_thread():
            self._former = signal.signal(signal.SIGINT, self._ask)

    def teardown(self, trainer: L.Trainer, module: L.LightningModule, stage: str) -> None:
        """Gives the signal back."""
        if self._former is not None:
            signal.signal(signal.SIGINT, self._former)
            self._former = None

    def _ask(self, number: int, frame: Any) -> None:
        if self._asked:
            raise KeyboardInterrupt
        self._asked = True

    def on_train_batch_end(
        self,
        trainer: L.Trainer,
        module: L.LightningModule,
        outputs: Any,
        batch: Batch,
        batch_idx: int,
    ) -> None:
        """Ends the run if that was asked for."""
        if self._asked:
            raise KeyboardInterrupt


def _cpu_seconds() -> float:
    """CPU time of this process, and of those that loaded data for it and have ended."""
    return sum(os.times()[:4])


def make_callbacks(config: TrainingConfig, folder: Path) -> list[Callback]:
    """Checkpoints every few minutes, every epoch and of the best; averages; a progress bar."""
    callbacks: list[Callback] = [
        ModelCheckpoint(
            folder,
            filename="last",
            train_time_interval=timedelta(minutes=config.checkpoint_minutes),
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
        CpuBudget(config.minutes),
    ]
    if config.optimizer.averaging is not None:
        callbacks.append(WeightAveraging(multi_avg_fn=_moving_average(config.optimizer.averaging)))
    callbacks.append(TQDMProgressBar() if sys.stderr.isatty() else LogLines())
    callbacks.append(PatientInterrupt())
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
