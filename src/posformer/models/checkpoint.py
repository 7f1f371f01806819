"""Loads and saves weights: model folders, training checkpoints, other vocabularies."""

import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from posformer.errors import ConfigError, LatexError, ModelError
from posformer.latex import Vocabulary
from posformer.models.base import RecognitionModel
from posformer.models.checkpoint_file import read_checkpoint_file
from posformer.models.encoder import Encoder
from posformer.models.growing import can_grow, grow_encoder
from posformer.models.legacy import current_checkpoint
from posformer.models.model_config import ModelConfig
from posformer.models.model_folder import WEIGHTS, ModelFolder, open_folder, write_folder
from posformer.models.registry import MODELS, create_model


def load_model(path: Path, allow_code: bool | str = False) -> RecognitionModel:
    """Load a model folder or a training checkpoint; the model is in evaluation mode.

    Args:
        path: the folder or the file.
        allow_code: Import the Python module of a model that is not part of this package: the one
            that the folder or file names (True), or only this one (`package.module:Class`).

    Raises:
        ModelError: If there is no such model, it is damaged, or its module may not be imported.
    """
    if path.is_dir():
        folder = open_folder(path)
        try:
            weights = load_file(folder.file(WEIGHTS))
        except SafetensorError as error:
            raise ModelError(f"{path / WEIGHTS}: {error}") from error
        _check_code(folder.config.name, path, allow_code)
        return _build(folder.config, folder.vocabulary, weights, path)
    if not path.exists():
        raise ModelError(f"{path}: no such model")
    checkpoint = read_checkpoint(path)
    try:
        config = ModelConfig.from_dict(checkpoint["posformer"]["config"]["model"])
        vocabulary = Vocabulary(checkpoint["posformer"]["tokens"])
        weights = {
            name.removeprefix("model."): value
            for name, value in checkpoint["state_dict"].items()
            if name.startswith("model.")
        }
    except (ConfigError, LatexError, AttributeError, KeyError, TypeError) as error:
        raise ModelError(f"{path}: damaged ({error})") from error
    _check_code(config.name, path, allow_code)
    return _build(config, vocabulary, weights, path)


def _check_code(name: str, path: Path, allow_code: bool | str) -> None:
    """Raise an error if a model needs a Python module that may not be imported."""
    if name not in MODELS and allow_code is not True and allow_code != name:
        module = name.partition(":")[0]
        raise ModelError(
            f"{path}: would import the Python module {module!r}; if you trust it, allow this with "
            "--allow-code"
        )


def save_model(
    model: RecognitionModel, path: Path, info: Mapping[str, Any] | None = None, half: bool = False
) -> ModelFolder:
    """Write a model folder without ONNX files; see `posformer.runtime.model_export` for both.

    Args:
        model: the model.
        path: the folder.
        info: information about the model.
        half: store weights in half precision.
    """
    with tempfile.TemporaryDirectory() as scratch:
        files = {WEIGHTS: save_weights(model, Path(scratch), half)}
        return write_folder(path, model.config, model.vocabulary, files, info or {})


def save_weights(model: RecognitionModel, folder: Path, half: bool = False) -> Path:
    """Write `model.safetensors` without the parts that only training needs; return its path."""
    weights = {
        name: value.half() if half and value.is_floating_point() else value
        for name, value in model.state_dict().items()
        if not _is_training_only(name, model)
    }
    contiguous = {name: value.cpu().contiguous() for name, value in weights.items()}
    save_file(contiguous, folder / WEIGHTS)
    return folder / WEIGHTS


def take_weights(model: RecognitionModel, other: RecognitionModel) -> list[str]:
    """Copy the weights of another model, token by token where the vocabularies differ.

    A smaller encoder is grown: see `posformer.models.growing`.

    Returns:
        The names of parameters that the other model lacks or has in another shape; they are
        unchanged.
    """
    own, given = model.state_dict(), other.state_dict()
    missing = []
    if can_grow(model.encoder, other.encoder):
        grow_encoder(cast(Encoder, model.encoder), cast(Encoder, other.encoder))
        own = {name: value for name, value in own.items() if not name.startswith("encoder.")}
    for name, value in own.items():
        source, axis = given.get(name), model.vocabulary_axes.get(name)
        if source is not None and axis is not None and axis == other.vocabulary_axes.get(name):
            target, source = value.transpose(0, axis), source.transpose(0, axis)
            if target.shape[1:] == source.shape[1:]:
                copy_tokens(target, source, model.vocabulary, other.vocabulary)
                continue
        elif source is not None and source.shape == value.shape:
            value.copy_(source)
            continue
        missing.append(name)
    return missing


def _is_training_only(name: str, model: RecognitionModel) -> bool:
    return name.split(".")[0] in model.training_only


@torch.no_grad()
def copy_tokens(target: Tensor, source: Tensor, new: Vocabulary, old: Vocabulary) -> None:
    """Copy the entries of tokens in both vocabularies; tensors are (vocab_size, …)."""
    special = len(new) - len(new.tokens)
    target[:special] = source[:special]
    for token in new.tokens:
        if token in old:
            target[new.index(token)] = source[old.index(token)]


def read_checkpoint(path: Path) -> dict[str, Any]:
    """Read a training checkpoint without running code in it."""
    checkpoint = read_checkpoint_file(path)
    try:
        own, _ = current_checkpoint(checkpoint["posformer"]), checkpoint["state_dict"]
    except (AttributeError, KeyError, TypeError, IndexError, ValueError) as error:
        raise ModelError(
            f"{path}: not a checkpoint of `posformer train`; for public ones use import-checkpoint"
        ) from error
    return {**checkpoint, "posformer": own}


def _build(
    config: ModelConfig, vocabulary: Vocabulary, weights: Mapping[str, Tensor], path: Path
) -> RecognitionModel:
    model = create_model(config, vocabulary)
    # A model folder has no training-only parts; further training initializes them.
    try:
        problems = model.load_state_dict(weights, strict=False)
    except (RuntimeError, TypeError, AttributeError) as error:
        reason = str(error).strip().splitlines()[-1].strip()
        raise ModelError(f"{path}: the weights do not fit its settings ({reason})") from error
    lacking = [name for name in problems.missing_keys if not _is_training_only(name, model)]
    if lacking or problems.unexpected_keys:
        name = (lacking or problems.unexpected_keys)[0]
        raise ModelError(f"{path}: the weights do not fit its settings ({name})")
    return model.eval()
