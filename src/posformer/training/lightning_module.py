"""The Lightning module: one model, its losses, its optimizer, its validation."""

import math
from typing import Any

import lightning as L
import torch
from torch import Tensor
from torchmetrics import MeanMetric

from posformer.errors import ConfigError
from posformer.evaluation.torch_metrics import TeacherForcedExpRate
from posformer.latex import Vocabulary
from posformer.models.base import TrainingOutput
from posformer.models.legacy import current_checkpoint
from posformer.models.registry import create_model
from posformer.training.collate import IGNORE, Batch
from posformer.training.losses import all_losses, total_loss
from posformer.training.training_config import OptimizerConfig, TrainingConfig

__all__ = ["TrainingModule", "make_optimizer"]


class TrainingModule(L.LightningModule):
    """Trains a recognizer by a config."""

    def __init__(self, config: TrainingConfig, vocabulary: Vocabulary, examples: int) -> None:
        super().__init__()
        self.config, self.vocabulary = config, vocabulary
        self.model = create_model(config.model, vocabulary)
        self.model.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        self.examples = examples  # of an epoch
        self.seen = 0  # examples of all epochs and processes so far: what the schedules go by
        self.batches_done = 0  # of this epoch
        self.spent = 0.0  # CPU seconds of training, of all processes
        self._size = 0  # examples of the batch at hand
        self.loss_metric = MeanMetric()
        self.exprate = TeacherForcedExpRate(IGNORE)  # left to right
        self.exprate_backward = TeacherForcedExpRate(IGNORE)
        self.token_accuracy = MeanMetric()

    @property
    def progress(self) -> float:
        """Epochs of examples seen so far, as a fraction."""
        return self.seen / self.examples

    def on_train_batch_start(self, batch: Batch, batch_idx: int) -> None:
        """Freezes batch norms when their time has come; Lightning sets them free every epoch."""
        freeze = self.config.optimizer.freeze_norms
        if freeze is not None and self.progress >= freeze:
            for part in self.model.modules():
                if isinstance(part, torch.nn.modules.batchnorm._BatchNorm):
                    part.eval()

    def training_step(self, batch: Batch, batch_idx: int) -> Tensor:
        """One step; dropout depends on (seed, epoch, step), so that a resumed run repeats it."""
        torch.manual_seed(hash((self.config.seed, self.current_epoch, batch_idx, self.global_rank)))
        output = self._run(batch)
        parts = all_losses(output, batch, self.config.loss)
        loss = total_loss(parts, self.config.loss, self.progress)
        if not math.isfinite(loss.item()):
            raise ConfigError(
                f"the loss is {loss.item()} in epoch {self.current_epoch}, step {batch_idx} "
                f"({', '.join(f'{name} {part.item():.3g}' for name, part in parts.items())}); "
                f"examples: {', '.join(batch.names[:8])}"
            )
        self._size = size = len(batch.names)
        self.log("train/loss", loss, batch_size=size, prog_bar=True)
        self.log_dict({f"train/{name}": part for name, part in parts.items()}, batch_size=size)
        return loss

    def optimizer_step(self, *args: Any, **kwargs: Any) -> None:
        """Counts a batch once its step is done: an interrupted one is made again when resumed."""
        super().optimizer_step(*args, **kwargs)
        seen = torch.tensor(self._size, device=self.device)
        if self.trainer.world_size > 1:
            seen = self.trainer.strategy.reduce(seen, reduce_op="sum")
        self.seen += int(seen)
        self.batches_done += 1

    def on_train_epoch_end(self) -> None:
        """The next epoch starts with its first batch."""
        self.batches_done = 0

    def validation_step(self, batch: Batch, batch_idx: int) -> None:
        """Teacher-forced: greedy decoding is right exactly when every argmax here is right."""
        output = self._run(batch)
        loss = all_losses(output, batch, self.config.loss)["recognition"]
        counts = batch.targets != IGNORE
        right = (output.logits.argmax(-1) == batch.targets) | ~counts
        self.loss_metric.update(loss, len(batch.names))
        self.exprate.update(output.logits[:, 0], batch.targets[:, 0])
        self.exprate_backward.update(output.logits[:, -1], batch.targets[:, -1])
        self.token_accuracy.update(right[counts].float() * 100)

    def on_validation_epoch_end(self) -> None:
        """Logs the measures of the whole validation set."""
        measures = {
            "loss": self.loss_metric,
            "exprate": self.exprate,
            "exprate_backward": self.exprate_backward,
            "token_accuracy": self.token_accuracy,
        }
        for name, metric in measures.items():
            self.log(f"val/{name}", metric.compute(), prog_bar=name == "exprate", sync_dist=True)
            metric.reset()

    def configure_optimizers(self) -> Any:
        """The config's optimizer and schedule."""
        config = self.config.optimizer
        optimizer = make_optimizer(self.model, config)
        if config.decay == "plateau":
            schedule = torch.optim.lr_scheduler.ReduceLROnPlateau(
                optimizer,
                mode="max",
                factor=config.plateau_factor,
                patience=config.plateau_patience,
            )
            return {
                "optimizer": optimizer,
                "lr_scheduler": {
                    "scheduler": schedule,
                    "monitor": "val/exprate",
                    "frequency": self.config.validate_every,
                },
            }
        rising = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda _: self._rate())
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": rising, "interval": "step"}}

    def _rate(self) -> float:
        """The learning rate now against the greatest one."""
        config = self.config.optimizer
        now = self.progress
        if now < config.warmup:
            return max(now / config.warmup, 0.01)
        if config.decay == "none":
            return 1.0
        if self.config.minutes is not None:
            along = min(self.spent / (60 * self.config.minutes), 1.0)
        else:
            span = max(self.config.epochs - config.decay_from, 1e-6)
            along = min(max((now - config.decay_from) / span, 0.0), 1.0)
        return 0.5 * (1 + math.cos(math.pi * along))

    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """What a resumed run needs beside weights; and what makes the file complete in itself."""
        checkpoint["posformer"] = {
            "seen": self.seen,
            "batches_done": self.batches_done,
            "spent": self.spent,
            "config": self.config.to_dict(),
            "tokens": list(self.vocabulary.tokens),
        }

    def on_load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """The inverse of `on_save_checkpoint`."""
        own = current_checkpoint(checkpoint["posformer"])
        if tuple(own["tokens"]) != self.vocabulary.tokens:
            raise ConfigError("the checkpoint has another vocabulary than the data")
        self.seen, self.batches_done = own["seen"], own["batches_done"]
        self.spent = own.get("spent", 0.0)  # earlier checkpoints did not tell

    def _run(self, batch: Batch) -> TrainingOutput:
        return self.model(
            batch.images.contiguous(memory_format=torch.channels_last),
            batch.padding,
            batch.tokens,
            batch.identifiers,
            batch.targets,
        )


def make_optimizer(model: torch.nn.Module, config: OptimizerConfig) -> torch.optim.Optimizer:
    """The optimizer that a config asks for."""
    if config.kind == "sgd":
        return torch.optim.SGD(
            model.parameters(),
            config.learning_rate,
            momentum=config.momentum,
            weight_decay=config.weight_decay,
        )
    # Norms and biases are few and have no excess to decay.
    matrices = [weight for weight in model.parameters() if weight.ndim > 1]
    vectors = [weight for weight in model.parameters() if weight.ndim <= 1]
    return torch.optim.AdamW(
        [
            {"params": matrices, "weight_decay": config.weight_decay},
            {"params": vectors, "weight_decay": 0.0},
        ],
        config.learning_rate,
        fused=True,
    )
