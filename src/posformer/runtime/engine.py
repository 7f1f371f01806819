"""One way to run models, whatever runs them."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, Protocol, runtime_checkable

import numpy as np

from posformer.errors import ModelError
from posformer.latex import Vocabulary
from posformer.models.model_config import ModelConfig
from posformer.models.model_folder import DECODER, ENCODER, open_folder
from posformer.runtime.attention_map import AttentionMap
from posformer.search import StepModel

__all__ = [
    "DEFAULT_MODEL",
    "Attentive",
    "Engine",
    "Runtime",
    "load_runtime",
    "model_path",
]

DEFAULT_MODEL = Path(__file__).parents[1] / "weights" / "default"

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

    def encode(self, images: Sequence[np.ndarray]) -> StepModel[Any]:
        """Encodes images at the model's working size (uint8, white ink on black) together."""


@runtime_checkable
class Attentive(Protocol):
    """A step model that can tell where it looks."""

    def attention(self, tokens: np.ndarray) -> list[AttentionMap]:
        """Where each layer looks while whole sequences are read.

        Args:
            tokens: int64 (images, rows, steps), start token first.
        """


def model_path(path: str | os.PathLike[str] | None) -> Path:
    """Where a model is; None stands for the one that comes along.

    Raises:
        ModelError: If none came along.
    """
    if path is None and not DEFAULT_MODEL.is_dir():
        raise ModelError(
            f"{DEFAULT_MODEL}: this installation comes without a model; name a model folder"
        )
    return DEFAULT_MODEL if path is None else Path(path)


def load_runtime(
    path: str | os.PathLike[str] | None = None, engine: Engine = "auto", threads: int | None = None
) -> Runtime:
    """Loads a model folder, or a checkpoint that training left (PyTorch only).

    Args:
        path: of the model; None for the one that comes along.
        engine: what runs it; `auto` takes ONNX Runtime where the model has ONNX files.
        threads: of the CPU; None for as many as there are cores.

    Raises:
        ModelError: If there is no such model, it is damaged, or the engine cannot run it.
    """
    path = model_path(path)
    if engine == "onnx" or (engine == "auto" and _has_onnx(path)):
        from posformer.runtime.onnx_runtime import OnnxRuntime

        return OnnxRuntime.load(path, threads)
    try:
        from posformer.runtime.pytorch_runtime import PyTorchRuntime
    except ImportError as error:
        raise ModelError(
            f"{path}: has no ONNX files, and PyTorch is not installed (pip install "
            "'posformer[train]'); `posformer export` makes a folder that does not need it"
        ) from error
    return PyTorchRuntime.load(path, threads)


def _has_onnx(path: Path) -> bool:
    if path.exists() and not path.is_dir():
        return False
    folder = open_folder(path)
    return folder.has(ENCODER) and folder.has(DECODER)
