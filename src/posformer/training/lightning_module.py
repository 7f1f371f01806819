"""The Lightning module: a model with its losses, optimizer, schedule and validation."""

import math
import os
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any, cast

import lightning as L
import torch
from torch import Tensor
from torch.optim.lr_scheduler import LambdaLR, ReduceLROnPlateau
from torchmetrics import MeanMetric, Metric

from posformer.errors import ConfigError
from posformer.evaluation.torch_metrics import TeacherForcedExpRate
from posformer.latex import Vocabulary
from posformer.models.base import TrainingOutput
from posformer.models.legacy import current_checkpoint
from posformer.models.registry import create_model
from posformer.training.collate import IGNORE, Batch
from posformer.training.losses import all_losses, total_loss
from posformer.training.training_config import OptimizerConfig, StageConfig, TrainingConfig

_COUNTERS = ("epochs_done", "seen", "batches_done", "spent")  # stored in checkpoints


@dataclass(frozen=True)
class StageStart:
    """The state of a run at the start of a stage."""

    name: str | None = None  # of the stage; None in a run without stages
    epochs: int = 0  # finished before the stage
    seen: int = 0  # examples
    spent: float = 0.0  # CPU seconds


class _Metrics(torch.nn.Module):
    """Metrics of one validation set."""

    def __init__(self) -> None:
        super().__init__()
        self.loss = MeanMetric()
        self.exprate = TeacherForcedExpRate(IGNORE)  # left to right
        self.exprate_backward = TeacherForcedExpRate(IGNORE)
        self.token_accuracy = MeanMetric()

    def update(self, loss: Tensor, logits: Tensor, target_ids: Tensor) -> None:
        """Add a batch: logits (batch, directions, steps, vocab_size) and their targets."""
        counts = target_ids != IGNORE
        right = (logits.argmax(-1) == target_ids)[counts]
        self.loss.update(loss, len(logits))
        self.exprate.update(logits[:, 0], target_ids[:, 0])
        self.exprate_backward.update(logits[:, -1], target_ids[:, -1])
        self.token_accuracy.update(right.float() * 100)

    def compute(self) -> dict[str, Tensor]:
        """Return the values by name, and start over."""
        metrics = cast(Iterator[tuple[str, Metric]], self.named_children())
        values = {}
        for name, metric in metrics:
            values[name] = metric.compute()
            metric.reset()
        return values


class TrainingModule(L.LightningModule):
    """Trains a recognizer.

    Args:
        config: Config of a run without stages, or of one stage.
        vocabulary: The tokens of the model.
        examples: Number of examples per epoch.
        stage: The stage; None in a run without stages.
        kinds: Names of further validation sets, reported as `val/NAME/…`.
    """

    def __init__(
        self,
        config: TrainingConfig,
        vocabulary: Vocabulary,
        examples: int,
        stage: StageConfig | None = None,
        kinds: Sequence[str] = (),
    ) -> None:
        super().__init__()
        self.config, self.vocabulary = config, vocabulary
        self.model = create_model(config.model, vocabulary)
        self.model.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        self.examples = examples
        self.stage = StageStart(stage.name if stage else None)
        self._reset_optimizer = stage is not None and stage.reset_optimizer
        self.epochs_done = 0
        self.seen = 0  # examples of all epochs and processes so far
        self.batches_done = 0  # in this epoch
        self.spent = 0.0  # CPU seconds of training, of all processes
        self._batch_size = 0
        self._last_count = 0.0  # CPU time of this process when `spent` was last increased
        self.validation_names = ("val", *(f"val/{kind}" for kind in kinds))
        self.validation_metrics = torch.nn.ModuleList(_Metrics() for _ in self.validation_names)

    @property
    def progress(self) -> float:
        """Epochs since the start of the stage, as a fraction."""
        return (self.seen - self.stage.seen) / self.examples

    @property
    def minutes(self) -> float:
        """CPU minutes since the start of the stage."""
        return (self.spent - self.stage.spent) / 60

    @property
    def stage_is_finished(self) -> bool:
        """Whether the stage has reached its length."""
        if self.config.minutes is not None:
            return self.minutes >= self.config.minutes
        return self.epochs_done - self.stage.epochs >= self.config.epochs

    def on_train_start(self) -> None:
        """Start to count CPU time; a finished stage ends at once."""
        self._last_count = _cpu_seconds()
        self._count(0)

    def on_train_batch_start(self, batch: Batch, batch_idx: int) -> None:
        """Freeze batch norms when it is time; Lightning unfreezes them every epoch."""
        freeze = self.config.optimizer.freeze_norms
        if freeze is not None and self.progress >= freeze:
            for part in self.model.modules():
                if isinstance(part, torch.nn.modules.batchnorm._BatchNorm):
                    part.eval()

    def training_step(self, batch: Batch, batch_idx: int) -> Tensor:
        """Return the loss; dropout depends on (seed, epoch, step), so a resumed run repeats it."""
        torch.manual_seed(hash((self.config.seed, self.current_epoch, batch_idx, self.global_rank)))
        parts = all_losses(self._run(batch), batch, self.config.loss)
        loss = total_loss(parts, self.config.loss, self.progress)
        if not math.isfinite(loss.item()):
            raise ConfigError(
                f"the loss is {loss.item()} in epoch {self.current_epoch}, step {batch_idx} "
                f"({', '.join(f'{name} {part.item():.3g}' for name, part in parts.items())}); "
                f"examples: {', '.join(batch.names[:8])}"
            )
        self._batch_size = size = len(batch.names)
        self.log("train/loss", loss, batch_size=size, prog_bar=True)
        self.log_dict({f"train/{name}": part for name, part in parts.items()}, batch_size=size)
        return loss

    def optimizer_step(self, *args: Any, **kwargs: Any) -> None:
        """Count a batch after its step, so that a resumed run repeats an interrupted one."""
        super().optimizer_step(*args, **kwargs)
        self._count(self._batch_size)
        self.batches_done += 1

    def configure_gradient_clipping(
        self,
        optimizer: torch.optim.Optimizer,
        gradient_clip_val: float | None = None,
        gradient_clip_algorithm: str | None = None,
    ) -> None:
        """Clip the norm; Lightning itself refuses to with a fused optimizer in mixed precision.

        That is meant for float16, whose gradients are scaled; those of bfloat16 are not.
        """
        if gradient_clip_val is not None:
            torch.nn.utils.clip_grad_norm_(self.parameters(), gradient_clip_val)

    def _count(self, examples: int) -> None:
        """Add examples, and the CPU time since the last call, of all processes.

        CPU time, unlike wall-clock time, does not depend on other programs.
        """
        now = _cpu_seconds()
        new = torch.tensor([examples, now - self._last_count], dtype=torch.float64)
        self._last_count = now
        if self.trainer.world_size > 1:
            new = self.trainer.strategy.reduce(new.to(self.device), reduce_op="sum")
        self.seen += int(new[0])
        self.spent += float(new[1])
        if self.config.minutes is not None and self.stage_is_finished:
            self.trainer.should_stop = True

    def on_train_epoch_end(self) -> None:
        """Count the epoch; the next one starts with its first batch."""
        self.epochs_done += 1
        self.batches_done = 0

    def on_validation_start(self) -> None:
        """Pause: the CPU time of validation does not count."""
        self._count(0)

    def on_validation_end(self) -> None:
        """Continue to count CPU time."""
        self._last_count = _cpu_seconds()

    def validation_step(self, batch: Batch, batch_idx: int, dataloader_idx: int = 0) -> None:
        """Teacher-forced: greedy decoding is right exactly if every argmax here is right."""
        output = self._run(batch)
        loss = all_losses(output, batch, self.config.loss)["recognition"]
        metrics = cast(_Metrics, self.validation_metrics[dataloader_idx])
        metrics.update(loss, output.logits, batch.target_ids)

    def on_validation_epoch_end(self) -> None:
        """Log the metrics of all validation sets."""
        for prefix, metrics in zip(self.validation_names, self.validation_metrics, strict=True):
            for name, value in cast(_Metrics, metrics).compute().items():
                is_main = (prefix, name) == ("val", "exprate")
                self.log(f"{prefix}/{name}", value, prog_bar=is_main, sync_dist=True)

    def configure_optimizers(self) -> Any:
        """Create the optimizer and its schedule."""
        config = self.config.optimizer
        optimizer = make_optimizer(self.model, config)
        if config.decay == "plateau":
            options = config.plateau_factor, config.plateau_patience
            plateau = ReduceLROnPlateau(optimizer, "max", *options)
            frequency = self.config.validate_every
            schedule = {"scheduler": plateau, "monitor": "val/exprate", "frequency": frequency}
        else:
            cosine = LambdaLR(optimizer, lambda _: self._rate())
            schedule = {"scheduler": cosine, "interval": "step"}
        return {"optimizer": optimizer, "lr_scheduler": schedule}

    def _rate(self) -> float:
        """Return the present learning rate as a factor of the highest one."""
        config, now = self.config.optimizer, self.progress
        if now < config.warmup and config.decay != "plateau":
            return max(now / config.warmup, 0.01)
        if config.decay != "cosine":
            return 1.0
        if self.config.minutes is not None:
            done = min(self.minutes / self.config.minutes, 1.0)
        else:
            span = max(self.config.epochs - config.decay_from, 1e-6)
            done = min(max((now - config.decay_from) / span, 0.0), 1.0)
        lowest = config.min_learning_rate / config.learning_rate
        return lowest + (1 - lowest) * 0.5 * (1 + math.cos(math.pi * done))

    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """Add what resuming needs, and the config and vocabulary that rebuild the model."""
        checkpoint["posformer"] = {
            **{name: getattr(self, name) for name in _COUNTERS},
            "stage": asdict(self.stage),
            "config": self.config.to_dict(),
            "tokens": list(self.vocabulary.tokens),
        }

    def on_load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """Restore a run: in the middle of this stage, or from the end of the stage before."""
        own = current_checkpoint(checkpoint["posformer"])
        if tuple(own["tokens"]) != self.vocabulary.tokens:
            raise ConfigError("the checkpoint has another vocabulary than the data")
        self.seen, self.batches_done = own["seen"], own["batches_done"]
        # Checkpoints of version 0.1 lack the other entries.
        self.spent = own.get("spent", 0.0)
        self.epochs_done = own.get("epochs_done", checkpoint["epoch"] + (not self.batches_done))
        # After the last batch of an epoch, the epoch still has to end: Lightning would skip that.
        checkpoint["loops"]["fit_loop"]["epoch_loop.batch_progress"]["is_last_batch"] = False
        saved = StageStart(**own.get("stage", {}))
        if saved.name == self.stage.name:
            self.stage = saved
        else:
            self.stage = StageStart(self.stage.name, self.epochs_done, self.seen, self.spent)
            self._start_schedule(checkpoint)
        if self.config.minutes is None:
            self.trainer.fit_loop.max_epochs = self.stage.epochs + self.config.epochs

    def _start_schedule(self, checkpoint: dict[str, Any]) -> None:
        """Make a checkpoint of the stage before one of the start of this stage.

        The schedule starts over with this stage's learning rate. Moments are carried over.
        """
        checkpoint["lr_schedulers"] = []
        if self._reset_optimizer:
            checkpoint["optimizer_states"] = []
            return
        groups = make_optimizer(self.model, self.config.optimizer).param_groups
        rate = self.config.optimizer.learning_rate
        for state in checkpoint["optimizer_states"]:
            for saved, group in zip(state["param_groups"], groups, strict=True):
                saved.update({**group, "params": saved["params"]}, initial_lr=rate)
                saved["lr"] = rate * self._rate()

    def _run(self, batch: Batch) -> TrainingOutput:
        images = batch.images.contiguous(memory_format=torch.channels_last)
        steps = batch.input_ids, batch.position_identifiers, batch.target_ids
        return self.model(images, batch.padding, *steps)


def _cpu_seconds() -> float:
    """Return the CPU time of this process and of its finished data loader processes."""
    return sum(os.times()[:4])


def make_optimizer(model: torch.nn.Module, config: OptimizerConfig) -> torch.optim.Optimizer:
    """Create the optimizer of a config; frozen parameters are part of it and have no gradients."""
    if config.kind == "sgd":
        return torch.optim.SGD(
            model.parameters(),
            config.learning_rate,
            config.momentum,
            weight_decay=config.weight_decay,
        )
    # Weight decay is for matrices, not for norms and biases.
    matrices = [weight for weight in model.parameters() if weight.ndim > 1]
    vectors = [weight for weight in model.parameters() if weight.ndim <= 1]
    decayed = {"params": matrices, "weight_decay": config.weight_decay}
    rest = {"params": vectors, "weight_decay": 0.0}
    return torch.optim.AdamW([decayed, rest], config.learning_rate, fused=True)
