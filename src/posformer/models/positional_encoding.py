"""Sinusoidal positions of tokens in a sequence and of cells in a feature map."""

import math

import torch
import torch.nn.functional as F
from torch import Tensor

_TEMPERATURE = 10000.0


def sinusoids(positions: Tensor, width: int) -> Tensor:
    """Return positions (…,) as (…, width): sine and cosine interleaved."""
    steps = torch.arange(0, width, 2, device=positions.device, dtype=torch.float32)
    frequencies = torch.exp(steps * (-math.log(_TEMPERATURE) / width))
    angles = positions[..., None] * frequencies
    return torch.stack((angles.sin(), angles.cos()), dim=-1).flatten(-2)


def token_positions(start: int, steps: int, width: int, like: Tensor) -> Tensor:
    """Return positions `start` … `start + steps - 1` of a sequence, float32 (steps, width)."""
    positions = torch.arange(start, start + steps, device=like.device, dtype=torch.float32)
    return sinusoids(positions, width)


def cell_positions(padding: Tensor, width: int) -> Tensor:
    """Return positions of cells, normalized to the size of the image without padding.

    Args:
        padding: bool (batch, height, width), true to the right of the image and below it.
        width: width of the encoding; one half encodes the column, the other half the row.

    Returns:
        float32 (batch, height, width, width of the encoding).
    """
    inside = ~padding
    half = width // 2
    columns = sinusoids(_normalized_positions(inside.any(1)), half)[:, None]
    rows = sinusoids(_normalized_positions(inside.any(2)), half)[:, :, None]
    return F.pad(columns, (0, half)) + F.pad(rows, (half, 0))


def _normalized_positions(inside: Tensor) -> Tensor:
    """Return positions from 0 to 2π along a side, float32 (batch, side)."""
    positions = inside.float().cumsum(1)
    return positions / (positions.amax(1, keepdim=True) + 1e-6) * (2 * math.pi)
