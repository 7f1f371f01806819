"""Element-wise gate between the states of two branches, shared by several models."""

import torch
from torch import Tensor, nn


class GatedFusion(nn.Module):
    """Mixes two states: `gate · one + (1 − gate) · other`, with a gate per element."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.gate = nn.Linear(2 * width, width)

    def forward(self, one: Tensor, other: Tensor) -> Tensor:
        """Return the mix of two states, float (…, width) each."""
        gate = torch.sigmoid(self.gate(torch.cat((one, other), dim=-1)))
        return gate * one + (1 - gate) * other
