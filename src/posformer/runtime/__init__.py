"""What runs a model for the search; PyTorch is imported only when a model needs it."""

from posformer.runtime.interface import Runtime, load_runtime
from posformer.runtime.reading import read_pictures

__all__ = ["Runtime", "load_runtime", "read_pictures"]
