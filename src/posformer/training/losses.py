"""L = L_rec + λ (L_level + L_relative), and what ink adds to it."""

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor

from posformer.models.base import TrainingOutput
from posformer.training.collate import IGNORE, Batch
from posformer.training.training_config import LossConfig

__all__ = ["all_losses", "total_loss"]


def all_losses(output: TrainingOutput, batch: Batch, config: LossConfig) -> dict[str, Tensor]:
    """Every part of the loss, unweighted, as a mean over what counts in it."""
    parts = {"recognition": _cross_entropy(output.logits, batch.targets, config.label_smoothing)}
    if output.position is not None and batch.levels is not None and batch.letters is not None:
        parts["level"] = _cross_entropy(output.position.levels, batch.levels)
        parts["relative"] = _cross_entropy(output.position.letters, batch.letters)
    if output.symbol_map is not None and batch.cells is not None:
        parts["symbol_map"] = _symbol_map_loss(output.symbol_map, batch.cells, config.background)
    if config.attention and output.attention and batch.looks is not None:
        parts["attention"] = _attention_loss(output.attention, batch.looks)
    for name, loss in output.losses.items():
        parts[name] = _mean(loss.total, loss.terms)
    return parts


def total_loss(parts: dict[str, Tensor], config: LossConfig, epoch: float = 0.0) -> Tensor:
    """The weighted sum; `epoch` tells how far the losses that need ink have faded."""
    faded = 1.0 if config.fade is None else max(0.0, 1.0 - epoch / config.fade)
    weights = {
        "recognition": 1.0,
        "level": config.level,
        "relative": config.relative,
        "symbol_map": config.symbol_map * faded,
        "attention": config.attention * faded,
        **config.own,
    }
    return torch.stack([weights.get(name, 1.0) * part for name, part in parts.items()]).sum()


def _mean(total: Tensor, count: Tensor) -> Tensor:
    """Total / count, with the count averaged over all processes.

    Gradients are averaged over processes; dividing by the mean count makes that average equal to
    the gradient of one process that sees all examples.
    """
    if dist.is_available() and dist.is_initialized():
        count = count.clone()
        dist.all_reduce(count)
        count = count / dist.get_world_size()
    return total / count.clamp(min=1e-6)


def _cross_entropy(scores: Tensor, targets: Tensor, smoothing: float = 0.0) -> Tensor:
    flat = targets.flatten()
    losses = F.cross_entropy(
        scores.flatten(0, -2),
        flat,
        ignore_index=IGNORE,
        reduction="sum",
        label_smoothing=smoothing,
    )
    return _mean(losses, (flat != IGNORE).sum().float())


def _symbol_map_loss(scores: Tensor, cells: Tensor, background: float) -> Tensor:
    losses = F.cross_entropy(
        scores.flatten(0, -2), cells.flatten(), ignore_index=IGNORE, reduction="none"
    )
    weights = torch.where(cells.flatten() == 0, background, 1.0) * (cells.flatten() != IGNORE)
    return _mean((losses * weights).sum(), weights.sum())


def _attention_loss(attention: list[Tensor], looks: Tensor) -> Tensor:
    """−log of the attention mass on the ink of the symbol to write, in all layers but the first."""
    counts = looks.any(-1)
    layers = attention[1:] or attention
    losses = [
        -(weights.mean(3) * looks).sum(-1).clamp(min=1e-6).log() * counts for weights in layers
    ]
    total = torch.stack([loss.sum() for loss in losses]).mean()
    return _mean(total, counts.sum().float())
