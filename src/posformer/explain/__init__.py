"""Where models look while they write; needs no PyTorch."""

from posformer.explain.attention_maps import LayerLook, Looking, coverage, look
from posformer.explain.explain import Explained, explain

__all__ = ["Explained", "LayerLook", "Looking", "coverage", "explain", "look"]
