"""Callbacks of the trainer: checkpoints, averaged weights, CPU budgets, progress."""

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
from lightning.pytorch.utilities import rank_zero_only
from torch import Tensor

from posformer.training.collate import Batch
from posformer.training.lightning_module import TrainingModule
from posformer.training.training_config import TrainingConfig


@rank_zero_only
def say(line: str) -> None:
    """Print a line with the time of day, in the first process of a run."""
    print(f"{time.strftime('%H:%M:%S')} {line}", flush=True)


class LogLines(Callback):
    """Prints progress as lines, where there is no terminal for a progress bar."""

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
        """Print the mean loss and the speed at intervals."""
        self._images += len(batch.names)
        self._batches += 1
        self._loss += float(outputs["loss"])
        passed = time.monotonic() - self._last
        if passed < self._seconds or not trainer.is_global_zero:
            return
        assert isinstance(module, TrainingModule)
        rate = trainer.optimizers[0].param_groups[0]["lr"]
        stage = f"stage {module.stage.name}, " if module.stage.name else ""
        say(
            f"{stage}epoch {trainer.current_epoch}, step {trainer.global_step}: "
            f"loss {self._loss / self._batches:.3f}, learning rate {rate:.2e}, "
            f"{self._images / passed:.1f} images/s"
        )
        self._images, self._batches, self._loss = 0, 0, 0.0
        self._last = time.monotonic()

    def on_validation_end(self, trainer: L.Trainer, module: L.LightningModule) -> None:
        """Print the metrics."""
        if trainer.sanity_checking or not trainer.is_global_zero:
            return
        metrics = sorted(trainer.callback_metrics.items())
        say(", ".join(f"{name} {value:.3f}" for name, value in metrics if name.startswith("val/")))


class CpuBudget(Callback):
    """Counts the CPU time of training, and ends a stage after its `minutes`.

    CPU time, unlike wall-clock time, does not depend on other programs. Validation does not count.
    """

    def __init__(self) -> None:
        self._last = 0.0

    def on_train_start(self, trainer: L.Trainer, module: L.LightningModule) -> None:
        """Start counting; a finished stage ends at once."""
        self._last = _cpu_seconds()
        self._stop_if_finished(trainer, module)

    def on_train_batch_end(
        self,
        trainer: L.Trainer,
        module: L.LightningModule,
        outputs: Any,
        batch: Batch,
        batch_idx: int,
    ) -> None:
        """Count the CPU time since the last batch, of all processes."""
        self._count(trainer, module)
        self._stop_if_finished(trainer, module)

    def on_validation_start(self, trainer: L.Trainer, module: L.LightningModule) -> None:
        """Pause."""
        self._count(trainer, module)

    def on_validation_end(self, trainer: L.Trainer, module: L.LightningModule) -> None:
        """Continue counting."""
        self._last = _cpu_seconds()

    def _count(self, trainer: L.Trainer, module: L.LightningModule) -> None:
        assert isinstance(module, TrainingModule)
        now = _cpu_seconds()
        spent = torch.tensor(now - self._last)
        self._last = now
        if trainer.world_size > 1:
            spent = trainer.strategy.reduce(spent.to(module.device), reduce_op="sum")
        module.spent += float(spent)

    def _stop_if_finished(self, trainer: L.Trainer, module: L.LightningModule) -> None:
        assert isinstance(module, TrainingModule)
        if module.config.minutes is not None and module.stage_is_finished:
            trainer.should_stop = True


class TimeLimitReached(Exception):
    """The time of this start is over; the run can be resumed."""


class WallClockLimit(Callback):
    """Interrupts a run after some seconds, as Ctrl-C does. Comes after the same callbacks."""

    def __init__(self, seconds: float) -> None:
        self._seconds, self._start = seconds, 0.0

    def on_train_start(self, trainer: L.Trainer, module: L.LightningModule) -> None:
        """Start the clock."""
        self._start = time.monotonic()

    def on_train_batch_end(
        self,
        trainer: L.Trainer,
        module: L.LightningModule,
        outputs: Any,
        batch: Batch,
        batch_idx: int,
    ) -> None:
        """Interrupt all processes after the same batch."""
        is_over = time.monotonic() - self._start >= self._seconds
        if trainer.strategy.reduce_boolean_decision(is_over, all=False):
            raise TimeLimitReached


class InterruptAfterBatch(Callback):
    """Ctrl-C and SIGTERM end a run after the current batch, when weights and counters agree.

    A second signal ends it at once. Must come after all callbacks that change what is saved.
    """

    def __init__(self) -> None:
        self._interrupted = False
        self._former_handlers: dict[int, Any] = {}

    def on_train_start(self, trainer: L.Trainer, module: L.LightningModule) -> None:
        """Install the signal handlers; only the main thread can."""
        signals = [signal.SIGINT]
        if "SLURM_JOB_ID" not in os.environ:  # Slurm sends SIGTERM before it requeues a job
            signals.append(signal.SIGTERM)
        if threading.current_thread() is threading.main_thread():
            self._former_handlers = {
                number: signal.signal(number, self._interrupt) for number in signals
            }

    def teardown(self, trainer: L.Trainer, module: L.LightningModule, stage: str) -> None:
        """Restore the former signal handlers."""
        self._restore()

    def on_exception(
        self, trainer: L.Trainer, module: L.LightningModule, exception: BaseException
    ) -> None:
        """Restore them as well: Lightning does not call `teardown` then."""
        self._restore()

    def _restore(self) -> None:
        for number, handler in self._former_handlers.items():
            signal.signal(number, handler)
        self._former_handlers = {}

    def _interrupt(self, number: int, frame: Any) -> None:
        if self._interrupted:
            raise KeyboardInterrupt
        self._interrupted = True

    def on_train_batch_end(
        self,
        trainer: L.Trainer,
        module: L.LightningModule,
        outputs: Any,
        batch: Batch,
        batch_idx: int,
    ) -> None:
        """Interrupt all processes after the same batch."""
        if trainer.strategy.reduce_boolean_decision(self._interrupted, all=False):
            raise KeyboardInterrupt


def _cpu_seconds() -> float:
    """Return the CPU time of this process and of its finished data loader processes."""
    return sum(os.times()[:4])


def make_callbacks(config: TrainingConfig, folder: Path) -> list[Callback]:
    """Create the callbacks: checkpoints, learning rate, CPU budget, averaging, progress."""
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
            folder, filename="best", monitor="val/exprate", mode="max", enable_version_counter=False
        ),
        LearningRateMonitor("step"),
        CpuBudget(),
    ]
    if config.optimizer.averaging is not None:
        callbacks.append(WeightAveraging(multi_avg_fn=_moving_average(config.optimizer.averaging)))
    callbacks.append(TQDMProgressBar() if sys.stderr.isatty() else LogLines())
    callbacks.append(InterruptAfterBatch())
    return callbacks


def _moving_average(decay: float) -> Callable[[Any, Any, Any], None]:
    """Return an exponential moving average with a shorter window in the first steps."""

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
