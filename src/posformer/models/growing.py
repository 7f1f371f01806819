"""Grow a trained DenseNet: a larger one that computes the same function and can learn more.

New layers stand at the end of their dense block. Weights that read new channels start at zero, so
the outputs of the old channels do not change; the first gradient step makes them nonzero.
"""

from typing import cast

import torch
from torch import Tensor, nn

from posformer.models.encoder import Bottleneck, DenseNet, Encoder, Transition

_Indices = Tensor  # int64 (channels): where the channels of the old network are in the new one


def can_grow(new: nn.Module, old: nn.Module) -> bool:
    """Return whether one encoder is a larger form of another: same growth, no fewer layers."""
    if not (isinstance(new, Encoder) and isinstance(old, Encoder)):
        return False
    layers, before = ([len(block) for block in _blocks(net.net)] for net in (new, old))
    return (
        new.net.stem.out_channels == old.net.stem.out_channels
        and new.project.out_channels == old.project.out_channels
        and len(layers) == len(before)
        and all(more >= fewer for more, fewer in zip(layers, before, strict=True))
    )


@torch.no_grad()
def grow_encoder(new: Encoder, old: Encoder) -> None:
    """Copy the weights of a smaller encoder so that the outputs stay the same; see `can_grow`."""
    channels = torch.arange(old.net.stem.out_channels)
    _copy_conv(new.net.stem, old.net.stem, channels, torch.arange(1))
    _copy_norm(new.net.stem_norm, old.net.stem_norm, channels)
    for number, (block, before) in enumerate(zip(_blocks(new.net), _blocks(old.net), strict=True)):
        channels = _grow_block(block, before, channels)
        if number < len(new.net.transitions):
            wide, narrow = (cast(Transition, net.transitions[number]) for net in (new.net, old.net))
            outputs = torch.arange(narrow.squeeze.out_channels)
            _copy_conv(wide.squeeze, narrow.squeeze, outputs, channels)
            _copy_norm(wide.norm, narrow.norm, outputs)
            channels = outputs
    _copy_norm(new.net.final_norm, old.net.final_norm, channels)
    _copy_conv(new.project, old.project, torch.arange(old.project.out_channels), channels)
    new.norm.load_state_dict(old.norm.state_dict())


def _blocks(net: DenseNet) -> list[list[Bottleneck]]:
    return [cast(list[Bottleneck], list(cast(nn.ModuleList, block))) for block in net.blocks]


def _grow_block(block: list[Bottleneck], before: list[Bottleneck], channels: _Indices) -> _Indices:
    """Copy a dense block and return where the channels of its output are in the new one."""
    added = block[0].squeeze.in_channels  # the next layer's output follows the input
    for layer, old in zip(block, before, strict=False):
        hidden = torch.arange(old.squeeze.out_channels)
        outputs = torch.arange(old.look.out_channels)
        _copy_conv(layer.squeeze, old.squeeze, hidden, channels)
        _copy_norm(layer.squeeze_norm, old.squeeze_norm, hidden)
        _copy_conv(layer.look, old.look, outputs, hidden)
        _copy_norm(layer.look_norm, old.look_norm, outputs)
        channels = torch.cat((channels, outputs + added))
        added += len(outputs)
    return channels


def _copy_conv(new: nn.Conv2d, old: nn.Conv2d, outputs: _Indices, inputs: _Indices) -> None:
    new.weight[outputs] = 0.0
    new.weight[outputs[:, None], inputs] = old.weight
    if new.bias is not None and old.bias is not None:
        new.bias[outputs] = old.bias


def _copy_norm(new: nn.BatchNorm2d, old: nn.BatchNorm2d, channels: _Indices) -> None:
    for name, value in old.state_dict().items():
        target = new.state_dict()[name]
        if value.ndim:
            target[channels] = value
        else:
            target.copy_(value)
