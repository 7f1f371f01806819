"""Cross-attention of one decoder layer, as NumPy arrays."""

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class AttentionMap:
    """Cross-attention of one decoder layer over the feature map.

    All arrays are float32 (batch, beams, steps, heads, height, width); height and width count
    cells of the feature map.
    """

    weights: np.ndarray  # attention weights after refinement; they sum to 1 over height and width
    raw_weights: np.ndarray | None = None  # before refinement; None if not known
    refinement: np.ndarray | None = None  # term subtracted from the attention scores, or None

    @property
    def is_refined(self) -> bool:
        """Whether the layer has attention refinement."""
        return self.refinement is not None

    def mean_weights(self) -> np.ndarray:
        """Return the weights averaged over heads, float32 (batch, beams, steps, height, width)."""
        return self.weights.mean(axis=3)
