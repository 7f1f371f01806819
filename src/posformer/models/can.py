"""CAN: DWAP whose decoder also reads how often each symbol occurs (Li et al. 2022).

As in the authors' program, symbols without ink are not counted. Unlike it, padding is not counted,
so that results do not depend on the batch, and an untrained model starts with small counts.
"""

from collections.abc import Mapping
from typing import ClassVar, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from posformer.latex import Vocabulary
from posformer.models.base import SummedLoss
from posformer.models.dwap import Dwap, Losses
from posformer.models.encoder import Features
from posformer.models.model_config import CountingDecoderConfig, ModelConfig, RecurrentDecoderConfig
from posformer.models.recurrent import Decoded, mean_inside
from posformer.models.symbol_classifier import RARE, tokens_with_ink


class ChannelAttention(nn.Module):
    """Scales the channels by a function of their means over the image."""

    def __init__(self, channels: int, reduction: int) -> None:
        super().__init__()
        self.squeeze = nn.Linear(channels, max(1, channels // reduction))
        self.excite = nn.Linear(max(1, channels // reduction), channels)

    def forward(self, maps: Tensor, padding: Tensor) -> Tensor:
        """Return scaled maps (batch, channels, height, width)."""
        mean = mean_inside(maps.permute(0, 2, 3, 1), padding)
        weights = torch.sigmoid(self.excite(F.relu(self.squeeze(mean))))
        return maps * weights[..., None, None]


class CountingBranch(nn.Module):
    """Symbol counts at one scale: shares of symbols in cells, summed over the image."""

    def __init__(
        self, config: CountingDecoderConfig, kernel: int, width: int, vocab_size: int
    ) -> None:
        super().__init__()
        channels = config.counting_channels
        self.look = nn.Conv2d(width, channels, kernel, padding=kernel // 2, bias=False)
        self.norm = nn.BatchNorm2d(channels)
        self.channels = ChannelAttention(channels, config.counting_reduction)
        self.predict = nn.Conv2d(channels, vocab_size, 1)
        # Otherwise the sum over all cells would start with dozens of every symbol.
        nn.init.constant_(cast(Tensor, self.predict.bias), RARE)

    def forward(self, maps: Tensor, padding: Tensor) -> Tensor:
        """Return counts (batch, vocab_size) of maps (batch, channels, height, width)."""
        shown = self.channels(self.norm(self.look(maps)), padding)
        shares = torch.sigmoid(self.predict(shown))
        return (shares * (~padding)[:, None]).sum((2, 3))


class Counting(nn.Module):
    """The multi-scale counting module."""

    def __init__(self, config: CountingDecoderConfig, width: int, vocab_size: int) -> None:
        super().__init__()
        self.branches = nn.ModuleList(
            CountingBranch(config, kernel, width, vocab_size) for kernel in config.counting
        )

    def forward(self, features: Features) -> Tensor:
        """Return counts (branches, batch, vocab_size)."""
        padding = features.padding
        cells = features.cells.masked_fill(padding[..., None], 0.0)
        maps = cells.permute(0, 3, 1, 2)
        return torch.stack([branch(maps, padding) for branch in self.branches])


class Can(Dwap):
    """CAN, with the additional loss `counting`."""

    settings_class: ClassVar[type[RecurrentDecoderConfig]] = CountingDecoderConfig

    visible: Tensor  # bool (vocab_size): tokens with ink, which can be counted

    def __init__(self, config: ModelConfig, vocabulary: Vocabulary) -> None:
        super().__init__(config, vocabulary)
        settings = cast(CountingDecoderConfig, self.settings)
        self.counting = Counting(settings, self.encoder.width, len(vocabulary))
        self.register_buffer("visible", tokens_with_ink(vocabulary), persistent=False)

    @property
    def vocabulary_axes(self) -> Mapping[str, int]:
        """Names of parameters with one entry per token, and the axis of the tokens."""
        first = [
            f"counting.branches.{number}.predict.{part}"
            for number in range(len(self.counting.branches))
            for part in ("weight", "bias")
        ]
        second = ("decoder.stack.counted.weight", "position.stack.counted.weight")
        return {**super().vocabulary_axes, **dict.fromkeys(first, 0), **dict.fromkeys(second, 1)}

    def _counts(self, features: Features) -> Tensor:
        return self.counting(features)

    def _losses(self, decoded: Decoded, counts: Tensor | None, target_ids: Tensor) -> Losses:
        """Return the smooth L1 loss of every branch and of their mean, averaged over tokens."""
        assert counts is not None
        truth = torch.zeros_like(counts[0])
        first = target_ids[:, 0].clamp(min=0)
        truth.scatter_add_(1, first, self.visible[first].to(truth.dtype))
        predicted = torch.cat((counts, counts.mean(0, keepdim=True)))
        losses = F.smooth_l1_loss(predicted, truth.expand_as(predicted), reduction="sum")
        batch = torch.tensor(float(len(truth)), device=truth.device)
        return {"counting": SummedLoss(losses / truth.shape[1], batch)}
