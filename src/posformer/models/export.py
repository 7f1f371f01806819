"""Writes a model as ONNX files, without the parts that only training needs.

The graphs are written out by hand, not traced: they are small, hold for every size from the first
step on, and have the layouts and the order of work that a CPU is quick with. Whoever changes the
network changes them too; `posformer export` compares both before it says that it succeeded.
"""

from pathlib import Path

import torch

from posformer.models.base import RecognitionModel

__all__ = ["export_onnx"]


@torch.no_grad()
def export_onnx(model: RecognitionModel, folder: Path, *, half: bool = False) -> dict[str, Path]:
    """Write `encoder.onnx` and `decoder.onnx`, if the model has a way to.

    Args:
        model: what to write, in float32.
        folder: where to.
        half: store weights in half precision, for half the size; computing stays in float32.

    Returns:
        The paths by name.
    """
    return model.write_onnx(folder, half)
