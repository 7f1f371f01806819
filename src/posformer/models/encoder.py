"""DenseNet-B encoder: images to feature maps with one cell per 16×16 pixels."""

from typing import NamedTuple, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from posformer.models.model_config import EncoderConfig
from posformer.models.positional_encoding import cell_positions


class Features(NamedTuple):
    """Output of an encoder."""

    cells: Tensor  # float (batch, height, width, channels)
    padding: Tensor  # bool (batch, height, width), true outside the image


class Bottleneck(nn.Module):
    """A 1×1 and a 3×3 convolution; the result is concatenated to the input."""

    def __init__(self, channels: int, growth: int, dropout: float) -> None:
        super().__init__()
        self.squeeze = nn.Conv2d(channels, 4 * growth, 1, bias=False)
        self.squeeze_norm = nn.BatchNorm2d(4 * growth)
        self.look = nn.Conv2d(4 * growth, growth, 3, padding=1, bias=False)
        self.look_norm = nn.BatchNorm2d(growth)
        self.dropout = nn.Dropout(dropout) if dropout else nn.Identity()

    def forward(self, maps: Tensor, inside: Tensor | None) -> Tensor:
        """Return the maps with new channels; `inside` is 0 on padding, None: not masked."""
        new = self.dropout(F.relu(self.squeeze_norm(self.squeeze(maps)), inplace=True))
        if inside is not None:
            new = new * inside  # so that padding does not leak into the image
        new = self.dropout(F.relu(self.look_norm(self.look(new)), inplace=True))
        return torch.cat((maps, new), dim=1)


class Transition(nn.Module):
    """Halves the channels, then the height and the width."""

    def __init__(self, channels: int, dropout: float) -> None:
        super().__init__()
        self.squeeze = nn.Conv2d(channels, channels // 2, 1, bias=False)
        self.norm = nn.BatchNorm2d(channels // 2)
        self.dropout = nn.Dropout(dropout) if dropout else nn.Identity()

    def forward(self, maps: Tensor, ceil_mode: bool) -> Tensor:
        """Return maps of half the size; `ceil_mode` rounds odd sides up."""
        maps = self.dropout(F.relu(self.norm(self.squeeze(maps)), inplace=True))
        return F.avg_pool2d(maps, 2, ceil_mode=ceil_mode)


class DenseNet(nn.Module):
    """Dense blocks with transitions between them that halve the resolution."""

    def __init__(self, config: EncoderConfig) -> None:
        super().__init__()
        self.mask_padding = config.mask_padding
        # With masked padding all sides are multiples of the stride, see `pad_images`.
        self.ceil_mode = not config.mask_padding
        channels = 2 * config.growth
        self.stem = nn.Conv2d(1, channels, 7, stride=2, padding=3, bias=False)
        self.stem_norm = nn.BatchNorm2d(channels)
        self.blocks = nn.ModuleList()
        self.transitions = nn.ModuleList()
        for number, layers in enumerate(config.layers):
            block = nn.ModuleList()
            for _ in range(layers):
                block.append(Bottleneck(channels, config.growth, config.dropout))
                channels += config.growth
            self.blocks.append(block)
            if number < len(config.layers) - 1:
                self.transitions.append(Transition(channels, config.dropout))
                channels //= 2
        self.final_norm = nn.BatchNorm2d(channels)
        self.channels = channels

    def forward(self, images: Tensor, padding: Tensor) -> tuple[Tensor, Tensor]:
        """Return feature maps and their padding.

        Args:
            images: float (batch, 1, height, width), 0 is paper and 1 is ink.
            padding: bool (batch, height, width), true outside the image.

        Returns:
            Maps float (batch, channels, height, width) and padding bool (batch, height, width) of
            the feature map. If `images` already are such maps, they are returned unchanged.
        """
        if images.shape[1] == self.channels:
            return images, padding
        maps = F.relu(self.stem_norm(self.stem(images)), inplace=True)
        maps = F.max_pool2d(maps, 2, ceil_mode=self.ceil_mode)
        padding = padding[:, ::4, ::4]
        for number, block in enumerate(self.blocks):
            inside = (~padding)[:, None].to(maps.dtype) if self.mask_padding else None
            for layer in cast(nn.ModuleList, block):
                maps = layer(maps, inside)
            if number < len(self.transitions):
                maps = self.transitions[number](maps, self.ceil_mode)
                padding = padding[:, ::2, ::2]
        return self.final_norm(maps), padding


class MapEncoder(nn.Module):
    """A DenseNet whose maps are the features."""

    def __init__(self, config: EncoderConfig) -> None:
        super().__init__()
        self.net = DenseNet(config)
        self.width = self.net.channels

    def forward(self, images: Tensor, padding: Tensor) -> Features:
        """Return the features of a batch; see `DenseNet.forward` for the arguments."""
        maps, padding = self.net(images, padding)
        return Features(maps.permute(0, 2, 3, 1), padding)


class Encoder(nn.Module):
    """DenseNet, projection to the width of the decoder, cell positions, layer norm."""

    def __init__(self, config: EncoderConfig, width: int) -> None:
        super().__init__()
        self.net = DenseNet(config)
        self.project = nn.Conv2d(self.net.channels, width, 1)
        self.norm = nn.LayerNorm(width)

    def forward(self, images: Tensor, padding: Tensor) -> Features:
        """Return the features of a batch; see `DenseNet.forward` for the arguments."""
        maps, padding = self.net(images, padding)
        cells = self.project(maps).permute(0, 2, 3, 1)
        cells = cells + cell_positions(padding, cells.shape[-1]).to(cells.dtype)
        return Features(self.norm(cells), padding)
