"""Sine positions of symbols in a sequence and of cells in a feature map."""

import math

import torch
from torch import Tensor

__all__ = ["cell_positions", "symbol_positions"]

_TEMPERATURE = 10000.0


def _interleaved(angles: Tensor) -> Tensor:
    """Angles (..., n) to (..., 2n): sine and cosine side by side."""
    return torch.stack((angles.sin(), angles.cos()), dim=-1).flatten(-2)


def _frequencies(width: int, like: Tensor) -> Tensor:
    steps = torch.arange(0, width, 2, device=like.device, dtype=torch.float32)
    return torch.exp(steps * (-math.log(_TEMPERATURE) / width))


def symbol_positions(start: int, steps: int, width: int, like: Tensor) -> Tensor:
    """Positions `start` … `start + steps - 1` of a sequence as (steps, width)."""
    places = torch.arange(start, start + steps, device=like.device, dtype=torch.float32)
    return _interleaved(places[:, None] * _frequencies(width, like))


def cell_positions(padding: Tensor, width: int) -> Tensor:
    """Positions of cells, normalized to the unpadded size.

    Args:
        padding: bool (images, rows, columns), true outside the image.
        width: of the result; half of it tells the column, half the row.

    Returns:
        float32 (images, rows, columns, width).
    """
    inside = (~padding).float()
    row, column = inside.cumsum(1), inside.cumsum(2)
    row = row / (row[:, -1:, :] + 1e-6) * (2 * math.pi)
    column = column / (column[:, :, -1:] + 1e-6) * (2 * math.pi)
    frequencies = _frequencies(width // 2, padding)
    return torch.cat(
        (_interleaved(column[..., None] * frequencies), _interleaved(row[..., None] * frequencies)),
        dim=-1,
    )
