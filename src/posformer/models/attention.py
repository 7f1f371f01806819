"""Attention refinement with implicit attention correction.

Coverage is what the attention has already looked at. Steps that write a structure symbol look at
much and write nothing, so the correction leaves their attention out of the sum.
"""

from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from posformer.models.model_config import RefinementConfig

__all__ = ["Coverage", "MaskedBatchNorm", "Refinement"]


class Coverage(NamedTuple):
    """The attention of the past in one layer, carried from step to step."""

    total: Tensor  # float (images, rows, 2·heads, cells): summed up to the last step but one
    pending: Tensor  # same shape: the last step's, which counts once it is known what it wrote


class MaskedBatchNorm(nn.BatchNorm1d):
    """Batch norm over the cells of images, padding left out of the statistics."""

    def forward(self, maps: Tensor, inside: Tensor) -> Tensor:  # type: ignore[override]
        """Normalized maps (n, channels, cells), `inside` float (n, 1, cells)."""
        if not self.training:
            return super().forward(maps)
        count = inside.sum().clamp(min=1.0)
        mean = (maps * inside).sum((0, 2)) / count
        centred = maps - mean[:, None]
        variance = (centred.square() * inside).sum((0, 2)) / count
        self._update(mean.detach(), variance.detach(), count)
        scale = self.weight * torch.rsqrt(variance + self.eps)
        return centred * scale[:, None] + self.bias[:, None]

    @torch.no_grad()
    def _update(self, mean: Tensor, variance: Tensor, count: Tensor) -> None:
        assert self.running_mean is not None and self.running_var is not None
        assert self.num_batches_tracked is not None and self.momentum is not None
        unbiased = variance * count / (count - 1).clamp(min=1.0)
        self.running_mean.lerp_(mean, self.momentum)
        self.running_var.lerp_(unbiased, self.momentum)
        self.num_batches_tracked += 1


class Refinement(nn.Module):
    """φ: from the attention of the past to what is taken off the attention of the present."""

    def __init__(self, heads: int, config: RefinementConfig) -> None:
        super().__init__()
        self.masked_by = config.masked_by
        self.look = nn.Conv2d(2 * heads, config.channels, 5, padding=2)
        self.project = nn.Conv2d(config.channels, heads, 1, bias=False)
        self.norm = MaskedBatchNorm(heads)

    def accumulate(
        self, maps: Tensor, keep: Tensor, past: Coverage | None
    ) -> tuple[Tensor, Coverage]:
        """Sums attention over the steps before each step.

        Args:
            maps: float (images, rows, steps, 2·heads, cells), the attention of these steps.
            keep: float (images, rows, steps), 0 where the token fed in is a structure token.
            past: coverage before these steps; None at the start of a sequence.

        Returns:
            Coverage before each step, shaped like `maps`, and the coverage to carry on.
        """
        weights = keep[..., None, None]
        if self.masked_by == "fed":
            maps = maps * weights
        pending = torch.zeros_like(maps[:, :, 0]) if past is None else past.pending
        before = torch.cat((pending[:, :, None], maps[:, :, :-1]), dim=2)
        if self.masked_by == "decoded":
            # The token fed in at a step is the one that the step before it has decoded.
            before = before * weights
        total = before.cumsum(2)
        if past is not None:
            total = total + past.total[:, :, None]
        return total, Coverage(total[:, :, -1], maps[:, :, -1])

    def forward(self, coverage: Tensor, padding: Tensor) -> Tensor:
        """What to take off the raw attention.

        Args:
            coverage: float (images, rows, steps, 2·heads, cells).
            padding: bool (images, height, width) of the feature map.

        Returns:
            float (images, rows, steps, heads, cells).
        """
        images, rows, steps, maps, cells = coverage.shape
        height, width = padding.shape[1:]
        inside = (~padding).to(coverage.dtype)
        inside = inside[:, None].expand(-1, rows * steps, -1, -1).reshape(-1, 1, height, width)
        seen = coverage.reshape(images * rows * steps, maps, height, width)
        seen = F.relu(self.look(seen), inplace=True)
        seen = self.project(seen) * inside
        refined = self.norm(seen.flatten(2), inside.flatten(2))
        return refined.reshape(images, rows, steps, -1, cells)
