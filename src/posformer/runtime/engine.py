"""The interface of loaded models, and which engine runs them."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, Protocol, runtime_checkable

import numpy as np

from posformer.errors import ModelError
from posformer.latex import Vocabulary
from posformer.models.model_config import ModelConfig
from posformer.models.model_folder import DECODER, ENCODER, open_folder
from posformer.models.remote_model import fetch_model
from posformer.runtime.attention_map import AttentionMap
from posformer.search import NgramModel, StepModel
from posformer.urls import is_url

DEFAULT_MODEL = Path(__file__).parents[1] / "weights" / "default"

Engine = Literal["auto", "onnx", "pytorch"]


class Runtime(Protocol):
    """A loaded model."""

    config: ModelConfig
    vocabulary: Vocabulary
    info: dict[str, Any]  # information about the model from its folder
    language: NgramModel | None  # for this vocabulary

    def encode(self, images: Sequence[np.ndarray]) -> StepModel[Any]:
        """Encode images at the working size of the model.

        Args:
            images: uint8 (height, width) each, white ink on black.
        """


@runtime_checkable
class Attentive(Protocol):
    """A step model with attention maps."""

    def attention(self, tokens: np.ndarray) -> list[AttentionMap]:
        """Return the attention of every layer over whole sequences.

        Args:
            tokens: int64 (batch, beams, steps), start token first.
        """


@runtime_checkable
class TreeScoring(Protocol):
    """A step model that may score the trees of finished hypotheses."""

    scores_trees: bool  # whether its model does

    def tree_scores(self, hypotheses: Sequence[Sequence[tuple[int, ...]]]) -> list[list[float]]:
        """Return how well the tree of each hypothesis fits its image; higher is better.

        Args:
            hypotheses: Finished hypotheses of each image, in reading order.
        """


def model_path(path: str | os.PathLike[str] | None) -> Path:
    """Return the path of a model; None stands for the bundled model.

    A model of the Hugging Face Hub (`hf://OWNER/NAME`) or at another URL is downloaded first.

    Raises:
        ModelError: If this installation has no bundled model, or the download fails.
    """
    if isinstance(path, str) and is_url(path):
        return fetch_model(path)
    if path is None and not DEFAULT_MODEL.is_dir():
        raise ModelError(
            f"{DEFAULT_MODEL}: this installation has no bundled model; specify a model folder"
        )
    return DEFAULT_MODEL if path is None else Path(path)


def load_runtime(
    path: str | os.PathLike[str] | None = None,
    engine: Engine = "auto",
    threads: int | None = None,
    allow_code: bool = False,
) -> Runtime:
    """Load a model folder, or a training checkpoint (PyTorch only).

    Args:
        path: of the model; None for the bundled model.
        engine: `auto` selects ONNX Runtime if the model has ONNX files.
        threads: CPU threads; None for all cores.
        allow_code: import the Python module that a model outside this package names. ONNX files
            do not need it.

    Raises:
        ModelError: If the model does not exist or is damaged, or the engine cannot run it.
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
    return PyTorchRuntime.load(path, threads, allow_code)


def _has_onnx(path: Path) -> bool:
    if path.exists() and not path.is_dir():
        return False
    folder = open_folder(path)
    return folder.has(ENCODER) and folder.has(DECODER)
