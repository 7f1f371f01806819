"""DenseNet-B: an image to a map of features, one cell for 16×16 pixels."""

from typing import NamedTuple, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from posformer.models.model_config import EncoderConfig
from posformer.models.positional_encoding import cell_positions

__all__ = ["STRIDE", "DenseNet", "Encoder", "Features"]

STRIDE = 16  # pixels a cell, in both directions


class Features(NamedTuple):
    """What the encoder saw."""

    cells: Tensor  # float (images, rows, columns, width)
    padding: Tensor  # bool (images, rows, columns), true outside the image


def _halved(padding: Tensor) -> Tensor:
    return padding[:, ::2, ::2]


def _cleared(maps: Tensor, inside: Tensor | None) -> Tensor:
    """Maps with zeros outside the image, so that what lies there cannot leak in sideways."""
    return maps if inside is None else maps * inside


class _Bottleneck(nn.Module):
    """1×1 to four times the growth, 3×3 to the growth; the result is set beside the input."""

    def __init__(self, channels: int, growth: int, dropout: float) -> None:
        super().__init__()
        self.squeeze = nn.Conv2d(channels, 4 * growth, 1, bias=False)
        self.squeeze_norm = nn.BatchNorm2d(4 * growth)
        self.look = nn.Conv2d(4 * growth, growth, 3, padding=1, bias=False)
        self.look_norm = nn.BatchNorm2d(growth)
        self.dropout = nn.Dropout(dropout) if dropout else nn.Identity()

    def forward(self, maps: Tensor, inside: Tensor | None) -> Tensor:
        new = self.dropout(F.relu(self.squeeze_norm(self.squeeze(maps)), inplace=True))
        new = self.look(_cleared(new, inside))
        new = self.dropout(F.relu(self.look_norm(new), inplace=True))
        return torch.cat((maps, new), dim=1)


class _Transition(nn.Module):
    """Halves the channels, then the height and the width."""

    def __init__(self, channels: int, dropout: float) -> None:
        super().__init__()
        self.squeeze = nn.Conv2d(channels, channels // 2, 1, bias=False)
        self.norm = nn.BatchNorm2d(channels // 2)
        self.dropout = nn.Dropout(dropout) if dropout else nn.Identity()

    def forward(self, maps: Tensor) -> Tensor:
        maps = self.dropout(F.relu(self.norm(self.squeeze(maps)), inplace=True))
        return F.avg_pool2d(maps, 2, ceil_mode=True)


class DenseNet(nn.Module):
    """The convolutional network; dense blocks with halving transitions between them."""

    def __init__(self, config: EncoderConfig) -> None:
        super().__init__()
        self.mask_padding = config.mask_padding
        channels = 2 * config.growth
        self.stem = nn.Conv2d(1, channels, 7, stride=2, padding=3, bias=False)
        self.stem_norm = nn.BatchNorm2d(channels)
        self.blocks = nn.ModuleList()
        self.transitions = nn.ModuleList()
        for number, layers in enumerate(config.layers):
            block = nn.ModuleList()
            for _ in range(layers):
                block.append(_Bottleneck(channels, config.growth, config.dropout))
                channels += config.growth
            self.blocks.append(block)
            if number < len(config.layers) - 1:
                self.transitions.append(_Transition(channels, config.dropout))
                channels //= 2
        self.final_norm = nn.BatchNorm2d(channels)
        self.channels = channels

    def forward(self, images: Tensor, padding: Tensor) -> tuple[Tensor, Tensor]:
        """Maps of a batch.

        Args:
            images: float (images, 1, height, width), 0 is paper and 1 is ink.
            padding: bool (images, height, width), true outside the image.

        Returns:
            Maps (images, channels, rows, columns) and their padding (images, rows, columns).
            Such maps, with their padding, may also be given: what was computed before is not
            computed again.
        """
        if images.shape[1] == self.channels:
            return images, padding
        maps = F.relu(self.stem_norm(self.stem(images)), inplace=True)
        maps = F.max_pool2d(maps, 2, ceil_mode=True)
        padding = _halved(_halved(padding))
        for number, block in enumerate(self.blocks):
            inside = self._inside(padding, maps)
            for layer in cast(nn.ModuleList, block):
                maps = layer(maps, inside)
            if number < len(self.transitions):
                maps = self.transitions[number](maps)
                padding = _halved(padding)
        return self.final_norm(maps), padding

    def _inside(self, padding: Tensor, maps: Tensor) -> Tensor | None:
        return (~padding)[:, None].to(maps.dtype) if self.mask_padding else None


class Encoder(nn.Module):
    """DenseNet, projection to the decoder's width, positions of the cells, layer norm."""

    def __init__(self, config: EncoderConfig, width: int) -> None:
        super().__init__()
        self.net = DenseNet(config)
        self.project = nn.Conv2d(self.net.channels, width, 1)
        self.norm = nn.LayerNorm(width)

    def forward(self, images: Tensor, padding: Tensor) -> Features:
        """Features of a batch; see `DenseNet.forward` for the arguments."""
        maps, padding = self.net(images, padding)
        cells = self.project(maps).permute(0, 2, 3, 1)
        cells = cells + cell_positions(padding, cells.shape[-1]).to(cells.dtype)
        return Features(self.norm(cells), padding)
