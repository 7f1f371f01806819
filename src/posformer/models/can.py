"""CAN: DWAP that counts the symbols of an image and tells its decoder (Li et al. 2022).

Symbols without ink are not counted, as in the authors' program. Beyond it, padding counts nothing,
so that an image alone and in a batch reads the same, and an untrained model counts next to none.
"""

from collections.abc import Mapping
from typing import ClassVar, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from posformer.latex import Vocabulary, is_structure
from posformer.models.base import SummedLoss, TrainingOutput
from posformer.models.dwap import Dwap
from posformer.models.encoder import Features
from posformer.models.model_config import CountingDecoderConfig, ModelConfig, RecurrentDecoderConfig
from posformer.models.recurrent import RecurrentMemory, mean_inside

__all__ = ["Can", "ChannelAttention", "Counting", "CountingBranch"]

_RARE = -5.0  # where a cell's score for a symbol starts: most cells show none


class ChannelAttention(nn.Module):
    """Weighs the channels by what the whole image shows."""

    def __init__(self, channels: int, reduction: int) -> None:
        super().__init__()
        self.squeeze = nn.Linear(channels, max(1, channels // reduction))
        self.excite = nn.Linear(max(1, channels // reduction), channels)

    def forward(self, maps: Tensor, padding: Tensor) -> Tensor:
        """Maps (images, channels, rows, columns), weighed."""
        mean = mean_inside(maps.permute(0, 2, 3, 1), padding)
        weights = torch.sigmoid(self.excite(F.relu(self.squeeze(mean))))
        return maps * weights[..., None, None]


class CountingBranch(nn.Module):
    """Counts at one scale: how much of each symbol a cell shows, summed over the image."""

    def __init__(self, config: CountingDecoderConfig, kernel: int, width: int, words: int) -> None:
        super().__init__()
        channels = config.counting_channels
        self.look = nn.Conv2d(width, channels, kernel, padding=kernel // 2, bias=False)
        self.norm = nn.BatchNorm2d(channels)
        self.channels = ChannelAttention(channels, config.counting_reduction)
        self.predict = nn.Conv2d(channels, words, 1)
        # A sum over all cells of one half each would count dozens of every symbol at first.
        nn.init.constant_(cast(Tensor, self.predict.bias), _RARE)

    def forward(self, maps: Tensor, padding: Tensor) -> Tensor:
        """Counts (images, words) of maps (images, width, rows, columns), zero on padding."""
        shown = self.channels(self.norm(self.look(maps)), padding)
        shares = torch.sigmoid(self.predict(shown))
        return (shares * (~padding)[:, None]).sum((2, 3))


class Counting(nn.Module):
    """The multi-scale counting module."""

    def __init__(self, config: CountingDecoderConfig, width: int, words: int) -> None:
        super().__init__()
        self.branches = nn.ModuleList(
            CountingBranch(config, kernel, width, words) for kernel in config.counting
        )

    def forward(self, features: Features) -> Tensor:
        """Counts (branches, images, words)."""
        padding = features.padding
        cells = features.cells.masked_fill(padding[..., None], 0.0)
        maps = cells.permute(0, 3, 1, 2)
        return torch.stack([branch(maps, padding) for branch in self.branches])


class Can(Dwap):
    """See `RecognitionModel`; brings the loss `counting`."""

    settings_kind: ClassVar[type[RecurrentDecoderConfig]] = CountingDecoderConfig
    counts_symbols: ClassVar[bool] = True

    visible: Tensor  # bool (words): what can be counted, all that has ink

    def __init__(self, config: ModelConfig, vocabulary: Vocabulary) -> None:
        super().__init__(config, vocabulary)
        settings = cast(CountingDecoderConfig, self.settings)
        self.counting = Counting(settings, self.encoder.width, len(vocabulary))
        self.register_buffer("visible", _visible(vocabulary), persistent=False)

    @property
    def word_axes(self) -> Mapping[str, int]:
        """Parameters with an entry for each word, and along which axis."""
        rows = [
            f"counting.branches.{number}.predict.{part}"
            for number in range(len(self.counting.branches))
            for part in ("weight", "bias")
        ]
        columns = ("decoder.stack.counted.weight", "position.stack.counted.weight")
        return {**super().word_axes, **dict.fromkeys(rows, 0), **dict.fromkeys(columns, 1)}

    def remember(self, features: Features) -> RecurrentMemory:
        """What the decoder needs of the images, the counts of their symbols among it."""
        return self.decoder.stack.remember(features, self.counting(features).mean(0))

    def forward_decoder(
        self,
        features: Features,
        tokens: Tensor,
        identifiers: Tensor | None = None,
        targets: Tensor | None = None,
    ) -> TrainingOutput:
        """See `RecognitionModel.forward`."""
        counts = self.counting(features)
        output = self._teach(features, counts.mean(0), tokens, identifiers)
        if targets is None:
            return output
        return output._replace(losses={"counting": self._counting_loss(counts, targets)})

    def _counting_loss(self, counts: Tensor, targets: Tensor) -> SummedLoss:
        """Smooth L1 of every branch and of their mean, as a mean over words."""
        truth = torch.zeros_like(counts[0])
        first = targets[:, 0].clamp(min=0)
        truth.scatter_add_(1, first, self.visible[first].to(truth.dtype))
        guesses = torch.cat((counts, counts.mean(0, keepdim=True)))
        losses = F.smooth_l1_loss(guesses, truth.expand_as(guesses), reduction="sum")
        images = torch.tensor(float(len(truth)), device=truth.device)
        return SummedLoss(losses / truth.shape[1], images)


def _visible(vocabulary: Vocabulary) -> Tensor:
    """True for words that leave ink; bool (words)."""
    inked = [not is_structure(word) for word in vocabulary.tokens]
    return torch.tensor([False] * (len(vocabulary) - len(inked)) + inked)
