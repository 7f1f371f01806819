"""Attention refinement with implicit attention correction.

Coverage is the sum of the attention weights of earlier steps. Refinement maps it to a term that is
subtracted from the attention scores, so that parts that were read already get less attention.
Structure tokens such as `^` or `{` have no ink; implicit attention correction leaves their
attention out of the sum.
"""

from typing import Literal, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from posformer.models.model_config import RefinementConfig


class Coverage(NamedTuple):
    """Coverage of one layer, passed from step to step."""

    total: Tensor  # float (batch, beams, 2·heads, cells): sum over all steps but the last
    pending: Tensor  # same shape: attention of the last step, counted once its token is known


class TreeCoverage(NamedTuple):
    """Attention of all steps of a tree, of which every branch has its own coverage."""

    maps: Tensor  # float (batch, beams, past, 2·heads, cells), 0 for steps that do not count


class MaskedBatchNorm(nn.BatchNorm2d):
    """Batch norm over feature maps that leaves padding out of the statistics."""

    def forward(self, maps: Tensor, inside: Tensor | None = None) -> Tensor:
        """Return normalized maps.

        Args:
            maps: float (n, channels, height, width).
            inside: float (n, 1, height, width), 0 on padding; only needed in training.
        """
        if not self.training:
            return super().forward(maps)
        assert inside is not None
        count = inside.sum().clamp(min=1.0)
        mean = (maps * inside).sum((0, 2, 3)) / count
        centered = maps - mean[:, None, None]
        variance = (centered.square() * inside).sum((0, 2, 3)) / count
        self._update(mean.detach(), variance.detach(), count)
        scale = self.weight * torch.rsqrt(variance + self.eps)
        return centered * scale[:, None, None] + self.bias[:, None, None]

    @torch.no_grad()
    def _update(self, mean: Tensor, variance: Tensor, count: Tensor) -> None:
        assert self.running_mean is not None and self.running_var is not None
        assert self.num_batches_tracked is not None and self.momentum is not None
        unbiased = variance * count / (count - 1).clamp(min=1.0)
        self.running_mean.lerp_(mean, self.momentum)
        self.running_var.lerp_(unbiased, self.momentum)
        self.num_batches_tracked += 1


class ImplicitAttentionCorrection(nn.Module):
    """Sums attention over earlier steps, leaving out the steps of structure tokens.

    Args:
        masked_by: `decoded` leaves out the step that predicts a structure token, `input` the step
            that receives one as its input.
    """

    def __init__(self, masked_by: Literal["decoded", "input"]) -> None:
        super().__init__()
        self.masked_by = masked_by

    def forward(
        self, maps: Tensor, coverage_mask: Tensor, coverage: Coverage | None
    ) -> tuple[Tensor, Coverage]:
        """Return the coverage before each step, shaped like `maps`, and the coverage to cache.

        Args:
            maps: float (batch, beams, steps, 2·heads, cells), attention of these steps.
            coverage_mask: float (batch, beams, steps), 0 where the input is a structure token.
            coverage: coverage before these steps; None at the start of a sequence.
        """
        decoded = self.masked_by == "decoded"
        # The input of a step is the token that the step before it decoded.
        counted = F.pad(coverage_mask[:, :, 1:], (0, 1)) if decoded else coverage_mask
        total = _sum_earlier(maps, counted)
        if coverage is not None:
            first = coverage_mask[:, :, 0, None, None]
            pending = coverage.pending * first if decoded else coverage.pending
            total = total + (coverage.total + pending)[:, :, None]
        last = maps[:, :, -1]
        last = last if decoded else last * coverage_mask[:, :, -1, None, None]
        return total, Coverage(total[:, :, -1], last)


def _sum_earlier(maps: Tensor, counted: Tensor) -> Tensor:
    """Return the sum of the maps of earlier steps, for each step.

    A product with a triangular matrix takes a third of the time of a cumulative sum.

    Args:
        maps: float (batch, beams, steps, 2·heads, cells).
        counted: float (batch, beams, steps), 0 for the steps that are left out.
    """
    steps = maps.shape[2]
    if steps == 1:
        return torch.zeros_like(maps)
    weights = counted[:, :, None].expand(-1, -1, steps, -1).tril(-1)
    return _weighted_sums(weights, maps)


def _weighted_sums(weights: Tensor, maps: Tensor) -> Tensor:
    """Return weighted sums of maps.

    Args:
        weights: float (batch, beams, sums, steps).
        maps: float (batch, beams, steps, 2·heads, cells).
    """
    return (weights @ maps.flatten(3)).unflatten(-1, maps.shape[3:])


class AttentionRefinement(nn.Module):
    """Maps coverage to the term that is subtracted from the attention scores."""

    def __init__(self, heads: int, config: RefinementConfig) -> None:
        super().__init__()
        self.correction = ImplicitAttentionCorrection(config.masked_by)
        self.look = nn.Conv2d(2 * heads, config.channels, 5, padding=2)
        self.project = nn.Conv2d(config.channels, heads, 1, bias=False)
        self.norm = MaskedBatchNorm(heads)

    def forward(
        self,
        maps: Tensor,
        coverage_mask: Tensor,
        coverage: Coverage | TreeCoverage | None,
        padding: Tensor,
        ancestors: Tensor | None = None,
    ) -> tuple[Tensor, Coverage | TreeCoverage]:
        """Return the term to subtract, float (batch, beams, steps, heads, cells), and the coverage.

        Args:
            maps: float (batch, beams, steps, 2·heads, cells): attention of the layer below after
                refinement and of this layer before it.
            coverage_mask: float (batch, beams, steps), 0 where the input is a structure token.
            coverage: coverage before these steps; None at the start of a sequence.
            padding: bool (batch, height, width) of the feature map.
            ancestors: float (batch, beams, steps, earlier and new steps), 1 for the steps that
                count as coverage of a step; None: all earlier ones.
        """
        if ancestors is None:
            assert not isinstance(coverage, TreeCoverage)
            total, coverage = self.correction(maps, coverage_mask, coverage)
        else:
            assert not isinstance(coverage, Coverage)
            counted = maps * coverage_mask[..., None, None]
            known = counted if coverage is None else torch.cat((coverage.maps, counted), 2)
            total = _weighted_sums(ancestors, known)
            coverage = TreeCoverage(known)
        hidden = total.flatten(0, 2).unflatten(-1, padding.shape[1:])
        hidden = self.project(F.relu(self.look(hidden), inplace=True))
        inside = None
        if self.norm.training:  # else padding does not matter: its scores are minus infinity
            steps = maps.shape[1] * maps.shape[2]
            inside = (~padding).to(maps.dtype).repeat_interleave(steps, dim=0)[:, None]
            hidden = hidden * inside
        term = self.norm(hidden.float(), inside)
        return term.flatten(2).unflatten(0, maps.shape[:3]), coverage
