"""The loss L = L_rec + λ (L_level + L_relative), and the additional losses on ink."""

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor

from posformer.models.base import TrainingOutput
from posformer.training.collate import IGNORE, Batch
from posformer.training.training_config import LossConfig


def all_losses(output: TrainingOutput, batch: Batch, config: LossConfig) -> dict[str, Tensor]:
    """Return the unweighted terms of the loss by name, each a mean over its valid targets."""
    parts = {"recognition": _cross_entropy(output.logits, batch.target_ids, config.label_smoothing)}
    if output.position is not None and batch.nested_levels is not None:
        assert batch.relative_positions is not None
        position = output.position
        parts["level"] = _cross_entropy(position.nested_levels, batch.nested_levels)
        parts["relative"] = _cross_entropy(position.relative_positions, batch.relative_positions)
    if output.symbol_map is not None and batch.symbol_targets is not None:
        targets, background = batch.symbol_targets, config.background
        parts["symbol_map"] = _symbol_map_loss(output.symbol_map, targets, background)
    if output.distribution is not None and batch.symbol_distribution is not None:
        parts["distribution"] = _distribution_loss(output.distribution, batch.symbol_distribution)
    if config.attention and output.attention and batch.attention_targets is not None:
        parts["attention"] = _attention_loss(output.attention, batch.attention_targets)
    for name, loss in output.losses.items():
        parts[name] = _mean(loss.total, loss.terms)
    return parts


def total_loss(parts: dict[str, Tensor], config: LossConfig, epoch: float = 0.0) -> Tensor:
    """Return the weighted sum; the weights of the ink losses depend on the epoch."""
    ink_weight = 1.0 if config.fade is None else max(0.0, 1.0 - epoch / config.fade)
    weights = {
        "level": config.level,
        "relative": config.relative,
        "symbol_map": config.symbol_map * ink_weight,
        "distribution": config.distribution * ink_weight,
        "attention": config.attention * ink_weight,
        **config.own,
    }
    return torch.stack([weights.get(name, 1.0) * part for name, part in parts.items()]).sum()


def _mean(total: Tensor, count: Tensor) -> Tensor:
    """Return total / count, with the count averaged over all processes.

    Gradients are averaged over processes. Dividing by the mean count makes that average equal to
    the gradient of one process with all examples.
    """
    if dist.is_available() and dist.is_initialized():
        count = count.clone()
        dist.all_reduce(count)
        count = count / dist.get_world_size()
    return total / count.clamp(min=1e-6)


def _cross_entropy(scores: Tensor, targets: Tensor, smoothing: float = 0.0) -> Tensor:
    scores, targets = scores.flatten(0, -2).float(), targets.flatten()
    total = F.cross_entropy(scores, targets, reduction="sum", label_smoothing=smoothing)
    return _mean(total, (targets != IGNORE).sum().float())


def _symbol_map_loss(scores: Tensor, targets: Tensor, background: float) -> Tensor:
    scores, targets = scores.flatten(0, -2).float(), targets.flatten()
    losses = F.cross_entropy(scores, targets, reduction="none")
    weights = torch.where(targets == 0, background, 1.0) * (targets != IGNORE)
    return _mean((losses * weights).sum(), weights.sum())


def _distribution_loss(logits: Tensor, targets: Tensor) -> Tensor:
    """Return the binary cross-entropy above that of a perfect prediction."""
    inside = (targets >= 0).float()
    targets = targets.clamp(min=0.0)
    losses = F.binary_cross_entropy_with_logits(logits, targets, reduction="none")
    lowest = F.binary_cross_entropy(targets, targets, reduction="none")
    return _mean(((losses - lowest) * inside).sum(), inside.sum())


def _attention_loss(attention: list[Tensor], mask: Tensor) -> Tensor:
    """Return −log of the attention on the ink of the target symbol, in all layers but the first."""
    counts = mask.any(-1)
    layers = attention[1:] or attention
    losses = [
        -(weights.mean(3) * mask).sum(-1).clamp(min=1e-6).log() * counts for weights in layers
    ]
    total = torch.stack([loss.sum() for loss in losses]).mean()
    return _mean(total, counts.sum().float())
