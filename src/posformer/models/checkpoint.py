"""Weights in and out: model folders, training checkpoints, growing vocabularies."""

import pickle
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from posformer.errors import ModelError
from posformer.latex import Vocabulary
from posformer.models.base import RecognitionModel
from posformer.models.legacy import current_checkpoint
from posformer.models.model_config import ModelConfig
from posformer.models.model_folder import ModelFolder, open_folder, write_folder
from posformer.models.registry import create_model

__all__ = ["load_model", "read_checkpoint", "save_model", "take_weights"]

WEIGHTS = "model.safetensors"


def load_model(path: Path) -> RecognitionModel:
    """A model from a model folder or from a checkpoint that training left; ready for inference."""
    if path.is_dir():
        folder = open_folder(path)
        return _build(folder.config, folder.vocabulary, _folder_weights(folder), path)
    if not path.exists():
        raise ModelError(f"{path}: no such model")
    checkpoint = read_checkpoint(path)
    config = ModelConfig.from_dict(checkpoint["posformer"]["config"]["model"])
    weights = {
        name.removeprefix("model."): value
        for name, value in checkpoint["state_dict"].items()
        if name.startswith("model.")
    }
    return _build(config, Vocabulary(checkpoint["posformer"]["tokens"]), weights, path)


def save_model(
    model: RecognitionModel,
    path: Path,
    info: Mapping[str, Any] | None = None,
    *,
    half: bool = False,
    further: Mapping[str, Path] | None = None,
) -> ModelFolder:
    """Writes a model folder without the parts that only training needs.

    Args:
        model: what to write.
        path: the folder.
        info: what is known of the model.
        half: store numbers in half precision, for half the size.
        further: other files of the folder by name.
    """
    weights = {
        name: _stored(value, half)
        for name, value in model.state_dict().items()
        if not _is_training_only(name, model)
    }
    with tempfile.TemporaryDirectory() as scratch:
        file = Path(scratch) / WEIGHTS
        save_file(weights, file)
        files = {WEIGHTS: file, **(further or {})}
        return write_folder(path, model.config, model.vocabulary, files, info or {})


def take_weights(model: RecognitionModel, other: RecognitionModel) -> list[str]:
    """Starts a model from another one's weights, word by word where vocabularies differ.

    Returns:
        The names of parameters that the other model has not in this shape; they stay as they are.
    """
    own, given = model.state_dict(), other.state_dict()
    missing = []
    for name, value in own.items():
        source, axis = given.get(name), model.word_axes.get(name)
        if source is not None and axis is not None and axis == other.word_axes.get(name):
            rows, known = value.transpose(0, axis), source.transpose(0, axis)
            if rows.shape[1:] == known.shape[1:]:
                _take_rows(rows, known, model.vocabulary, other.vocabulary)
                continue
        elif source is not None and source.shape == value.shape:
            value.copy_(source)
            continue
        missing.append(name)
    return missing


def _is_training_only(name: str, model: RecognitionModel) -> bool:
    return name.split(".")[0] in model.training_only


@torch.no_grad()
def _take_rows(rows: Tensor, source: Tensor, words: Vocabulary, known: Vocabulary) -> None:
    """Fill rows (words, …) from the rows of the same words in `source`."""
    special = len(words) - len(words.tokens)
    rows[:special] = source[:special]
    for word in words.tokens:
        if word in known:
            rows[words.index(word)] = source[known.index(word)]


def _stored(value: Tensor, half: bool) -> Tensor:
    value = value.detach().cpu().contiguous()
    return value.half() if half and value.is_floating_point() else value


def _folder_weights(folder: ModelFolder) -> dict[str, Tensor]:
    try:
        return load_file(folder.file(WEIGHTS))
    except SafetensorError as error:
        raise ModelError(f"{folder.path / WEIGHTS}: {error}") from error


def read_checkpoint(path: Path) -> dict[str, Any]:
    """The content of a checkpoint that training left; no code in it is run."""
    try:
        checkpoint = torch.load(path, map_location="cpu", weights_only=True)
        own, _ = current_checkpoint(checkpoint["posformer"]), checkpoint["state_dict"]
    except (pickle.UnpicklingError, RuntimeError, EOFError, ValueError, OSError) as error:
        raise ModelError(f"{path}: not a checkpoint ({str(error).splitlines()[0]})") from error
    except (KeyError, TypeError, IndexError) as error:
        raise ModelError(
            f"{path}: not a checkpoint of `posformer train`; for public ones use import-checkpoint"
        ) from error
    return {**checkpoint, "posformer": own}


def _build(
    config: ModelConfig, vocabulary: Vocabulary, weights: Mapping[str, Tensor], path: Path
) -> RecognitionModel:
    model = create_model(config, vocabulary)
    # A model folder has no training-only parts; they start anew when it is trained further.
    problems = model.load_state_dict(weights, strict=False)
    lacking = [name for name in problems.missing_keys if not _is_training_only(name, model)]
    if lacking or problems.unexpected_keys:
        name = (lacking or problems.unexpected_keys)[0]
        raise ModelError(f"{path}: the weights do not fit its settings ({name})")
    return model.eval()
