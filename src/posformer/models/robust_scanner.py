"""DWAP with the position enhancement branch of RobustScanner (Yue et al. 2020).

A second branch has queries that know the number of the step but no earlier token, so it cannot be
misled by the language of the captions. It attends to position-enhanced features. An element-wise
gate fuses it with DWAP's own states before the classifier.

RobustScanner reads text lines; these parts are adapted to formulas:

* Queries are sinusoidal step positions, projected, so that there is no longest expression.
* Features are enhanced by the 2-D position of their cell and two 3×3 convolutions instead of an
  LSTM over the rows, because symbols have neighbors in all directions.
"""

from typing import ClassVar, NamedTuple, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from posformer.models.dwap import Dwap
from posformer.models.encoder import Features
from posformer.models.gated_fusion import GatedFusion
from posformer.models.model_config import RecurrentDecoderConfig
from posformer.models.positional_encoding import cell_positions, sinusoids
from posformer.models.pytree import Pytree
from posformer.models.recurrent import Decoded, RecurrentCache, RecurrentDecoder, RecurrentMemory


class BranchMemory(NamedTuple):
    """Projections of the images for the position branch."""

    keys: Tensor  # float (batch, width, cells), scaled
    values: Tensor  # float (batch, cells, width)
    padding: Tensor  # bool (batch, height, width) of the feature map


class ScannerMemory(NamedTuple):
    """Memory of both branches."""

    recurrent: RecurrentMemory
    branch: BranchMemory


class ScannerCache(NamedTuple):
    """Cache of both branches."""

    recurrent: list[RecurrentCache]
    step: Tensor  # float (batch, beams): number of earlier steps


class PositionBranch(nn.Module):
    """Attention from step positions to position-enhanced features."""

    def __init__(self, width: int, channels: int) -> None:
        super().__init__()
        self.project = nn.Linear(channels, width)
        self.enhance = nn.ModuleList(nn.Conv2d(width, width, 3, padding=1) for _ in range(2))
        self.values = nn.Linear(channels, width)
        self.query = nn.Linear(width, width)

    def prepare_memory(self, features: Features) -> BranchMemory:
        """Return the memory of the images."""
        cells, padding = features.cells, features.padding
        width = self.project.out_features
        enhanced = self.project(cells) + cell_positions(padding, width).to(cells.dtype)
        maps = enhanced.permute(0, 3, 1, 2)
        for convolution in self.enhance:
            maps = F.relu(convolution(maps.masked_fill(padding[:, None], 0.0)))
        keys = maps.flatten(2) * width**-0.5
        return BranchMemory(keys, self.values(cells.flatten(1, 2)), padding)

    def forward(self, steps: Tensor, memory: BranchMemory) -> tuple[Tensor, Tensor]:
        """Return states (batch, beams, steps, width) and weights (batch, beams, steps, 1, cells).

        Args:
            steps: float (batch, beams, steps), numbers of the steps.
            memory: of the images.
        """
        batch, beams, count = steps.shape
        query = self.query(sinusoids(steps, self.query.in_features)).flatten(1, 2)
        outside = memory.padding.flatten(1)[:, None]
        weights = (query @ memory.keys).masked_fill(outside, float("-inf")).softmax(-1)
        states = (weights @ memory.values).view(batch, beams, count, -1)
        return states, weights.view(batch, beams, count, 1, -1)


class ScannerDecoder(RecurrentDecoder):
    """DWAP's decoder with the position branch."""

    def __init__(self, config: RecurrentDecoderConfig, channels: int, vocab_size: int) -> None:
        super().__init__(config, channels, vocab_size)
        self.branch = PositionBranch(config.width, channels)
        self.fusion = GatedFusion(config.width)

    def prepare_memory(self, features: Features, counts: Tensor | None = None) -> ScannerMemory:
        """Return the memory of both branches."""
        recurrent = self.stack.prepare_memory(features, counts)
        return ScannerMemory(recurrent, self.branch.prepare_memory(features))

    def initial_cache(self, memory: Pytree, beams: int) -> ScannerCache:
        """Return the cache before the first token."""
        recurrent = self.stack.initial_cache(memory.recurrent, beams)
        return ScannerCache(
            recurrent, memory.branch.values.new_zeros(len(memory.branch.values), beams)
        )

    def forward(self, input_ids: Tensor, memory: Pytree, cache: Pytree = None) -> Decoded:
        """Decode new steps; see `RecurrentDecoder.forward`."""
        memory = cast(ScannerMemory, memory)
        known = cast(ScannerCache, cache or self.initial_cache(memory, input_ids.shape[1]))
        output = self.stack(self.symbols(input_ids), memory.recurrent, known.recurrent)
        count = input_ids.shape[2]
        steps = known.step[..., None] + torch.arange(count, device=input_ids.device)
        states, weights = self.branch(steps, memory.branch)
        fused = self.fusion(output.states, states)
        logits = self.classify(F.dropout(fused, self.dropout, self.training))
        new_cache = ScannerCache(output.cache, known.step + count)
        return Decoded(logits, fused, [weights, *output.attention], new_cache)


class RobustScanner(Dwap):
    """DWAP + RobustScanner; decodes from left to right."""

    decoder_class: ClassVar[type[RecurrentDecoder]] = ScannerDecoder
