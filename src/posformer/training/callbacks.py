"""Callbacks of the trainer: checkpoints, averaged weights, progress, interruption."""

import os
import signal
import sys
import threading
import time
from datetime import timedelta
from functools import partial
from pathlib import Path
from statistics import fmean
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
        self._images, self._losses = 0, list[float]()

    def on_train_batch_end(
        self, trainer: L.Trainer, module: L.LightningModule, outputs: Any, batch: Batch, _: int
    ) -> None:
        """Print the mean loss and the speed at intervals."""
        self._images += len(batch.names)
        self._losses.append(float(outputs["loss"]))
        passed = time.monotonic() - self._last
        if passed < self._seconds:
            return
        assert isinstance(module, TrainingModule)
        rate = trainer.optimizers[0].param_groups[0]["lr"]
        stage = f"stage {module.stage.name}, " if module.stage.name else ""
        say(
            f"{stage}epoch {trainer.current_epoch}, step {trainer.global_step}: "
            f"loss {fmean(self._losses):.3f}, learning rate {rate:.2e}, "
            f"{self._images / passed:.1f} images/s"
        )
        self._images, self._losses, self._last = 0, [], time.monotonic()

    def on_validation_end(self, trainer: L.Trainer, module: L.LightningModule) -> None:
        """Print the metrics, those of further validation sets on lines of their own."""
        lines: dict[str, list[str]] = {}
        for name, value in sorted(trainer.callback_metrics.items()):
            if name.startswith("val/"):
                lines.setdefault(name.rpartition("/")[0], []).append(f"{name} {value:.3f}")
        for line in lines.values():
            say(", ".join(line))


class TimeLimitReached(Exception):
    """The time of this start is over; the run can be resumed."""


class InterruptAfterBatch(Callback):
    """Ends a run after the current batch, when weights and counters agree.

    Ctrl-C, SIGTERM and SIGHUP do so, and the time limit of this start. A second signal ends the
    run at once. Must come after all callbacks that change what is saved.

    Args:
        seconds: The time limit.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds, self._end = seconds, 0.0
        self._interrupted = False
        self._former_handlers: dict[int, Any] = {}

    def on_train_start(self, trainer: L.Trainer, module: L.LightningModule) -> None:
        """Start the clock and install the signal handlers; only the main thread can."""
        self._end = time.monotonic() + self._seconds
        signals = [signal.SIGINT]
        if "SLURM_JOB_ID" not in os.environ:  # Slurm sends SIGTERM before it requeues a job
            signals.append(signal.SIGTERM)
        if hasattr(signal, "SIGHUP") and signal.getsignal(signal.SIGHUP) != signal.SIG_IGN:
            signals.append(signal.SIGHUP)  # the terminal was closed; `nohup` ignores it
        if threading.current_thread() is threading.main_thread():
            for number in signals:
                self._former_handlers[number] = signal.signal(number, self._interrupt)

    def teardown(self, *_: Any, **__: Any) -> None:
        """Restore the former signal handlers."""
        for number, handler in self._former_handlers.items():
            signal.signal(number, handler)
        self._former_handlers = {}

    def on_exception(self, *_: Any) -> None:
        """Restore them as well: Lightning does not call `teardown` then."""
        self.teardown()

    def _interrupt(self, number: int, frame: Any) -> None:
        if self._interrupted:
            raise KeyboardInterrupt
        self._interrupted = True

    def on_train_batch_end(self, trainer: L.Trainer, *_: Any) -> None:
        """Interrupt all processes after the same batch."""
        if trainer.strategy.reduce_boolean_decision(self._interrupted, all=False):
            raise KeyboardInterrupt
        if trainer.strategy.reduce_boolean_decision(time.monotonic() >= self._end, all=False):
            raise TimeLimitReached


def make_callbacks(config: TrainingConfig, folder: Path, seconds: float) -> list[Callback]:
    """Create the callbacks: checkpoints, learning rate, averaging, progress, interruption.

    Args:
        config: The settings of the run.
        folder: Folder of the checkpoints.
        seconds: Wall-clock time after which to interrupt the run.
    """
    save = partial(ModelCheckpoint, folder, enable_version_counter=False)
    interval = timedelta(minutes=config.checkpoint_minutes)
    callbacks: list[Callback] = [
        save(filename="last", train_time_interval=interval, save_on_exception=True),
        save(filename="last", every_n_epochs=1, save_on_train_epoch_end=True),
        save(filename="best", monitor="val/exprate", mode="max"),
        LearningRateMonitor("step"),
    ]
    if (decay := config.optimizer.averaging) is not None:
        callbacks.append(WeightAveraging(multi_avg_fn=partial(_update_averages, decay)))
    callbacks.append(TQDMProgressBar() if sys.stderr.isatty() else LogLines())
    return [*callbacks, InterruptAfterBatch(seconds)]


@torch.no_grad()
def _update_averages(
    decay: float, averages: list[Tensor], current: list[Tensor], count: Tensor | int
) -> None:
    """Update an exponential moving average, with a shorter window in the first steps."""
    number = int(count)
    weight = 1 - min(decay, (1 + number) / (10 + number))
    for mean, now in zip(averages, current, strict=True):
        if mean.is_floating_point():
            mean.lerp_(now, weight)
        else:
            mean.copy_(now)
