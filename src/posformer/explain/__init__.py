"""Where models look while they write; needs no PyTorch."""

from posformer.explain.explaining import Explained, explain
from posformer.explain.looking import ExplainError, LayerLook, Looking, coverage, look

__all__ = ["ExplainError", "Explained", "LayerLook", "Looking", "coverage", "explain", "look"]
