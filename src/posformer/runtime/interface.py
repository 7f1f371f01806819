"""One way to run models, whatever runs them."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, Protocol

import numpy as np

from posformer.latex import Vocabulary
from posformer.model.config import ModelConfig
from posformer.search import StepModel

__all__ = ["Engine", "Runtime", "load_runtime"]

Engine = Literal["auto", "onnx", "pytorch"]


class Runtime(Protocol):
    """A loaded model."""

    @property
    def config(self) -> ModelConfig:
        """Its settings."""

    @property
    def vocabulary(self) -> Vocabulary:
        """Its words."""

    @property
    def info(self) -> dict[str, Any]:
        """What is known of it, as its folder tells."""

    def encode(self, pictures: Sequence[np.ndarray]) -> StepModel[Any]:
        """Encodes pictures at the model's working size (uint8, white ink on black) together."""


def load_runtime(
    path: str | os.PathLike[str], engine: Engine = "auto", threads: int | None = None
) -> Runtime:
    """Loads a model folder, or a checkpoint that training left (PyTorch only).

    Args:
        path: of the model.
        engine: what runs it; `auto` takes ONNX Runtime where the model has ONNX files.
        threads: of the CPU; None for as many as there are cores.
    """
    from posformer.runtime.pytorch import PyTorchRuntime

    return PyTorchRuntime.load(Path(path), threads)
