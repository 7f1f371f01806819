"""From a trained model to a complete model folder, checked."""

import copy
import tempfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from posformer.errors import ModelError
from posformer.latex import Vocabulary
from posformer.models.base import RecognitionModel
from posformer.models.checkpoint import read_checkpoint, save_model
from posformer.models.export import export_onnx
from posformer.models.model_folder import CARD, ModelFolder, open_folder
from posformer.runtime.engine import DEFAULT_MODEL
from posformer.runtime.onnx_runtime import OnnxRuntime
from posformer.runtime.pytorch_runtime import PyTorchRuntime
from posformer.search import StepModel

__all__ = ["TOLERANCE", "at_scale", "export_model", "known_of", "largest_difference", "words_of"]

TOLERANCE = 1e-3  # of log-probabilities, between the exported files and PyTorch

_SIZES = ((16, 16), (75, 230), (40, 96), (112, 33))  # of the images that are tried


def export_model(
    model: RecognitionModel,
    output: Path,
    info: Mapping[str, Any] | None = None,
    *,
    half: bool = False,
    card: Path | None = None,
) -> tuple[ModelFolder, float | None]:
    """Write a complete model folder: weights, ONNX files, settings, vocabulary.

    Args:
        model: any model, trained here or imported; it is left as it is.
        output: the folder; one that is there is replaced as a whole, once all is checked.
        info: what is known of the model.
        half: store weights in half precision, for half the size. They are rounded before anything
            is written, so that all files of the folder hold the same model.
        card: what people should know of the model, in Markdown; goes along as README.md.

    Returns:
        The folder, and the largest difference of log-probabilities between ONNX and PyTorch; None
        if the model has no way to write ONNX files, and only PyTorch can run it.

    Raises:
        ModelError: If the exported files compute something else; nothing is written then.
    """
    model = copy.deepcopy(model).cpu().float().for_inference()
    if half:
        model = model.half().float()
    with tempfile.TemporaryDirectory() as scratch:
        files = export_onnx(model, Path(scratch), half=half)
        runs_without_pytorch = bool(files)
        if card is not None:
            files[CARD] = card
        if not runs_without_pytorch:
            return save_model(model, output, info, half=half, further=files), None
        trial = save_model(model, Path(scratch) / "trial", info, half=half, further=files)
        difference = largest_difference(PyTorchRuntime(model), OnnxRuntime(trial))
        if not difference <= TOLERANCE:
            raise ModelError(
                f"{output}: not written: the exported files differ from PyTorch by {difference:.2g}"
            )
        return save_model(model, output, info, half=half, further=files), difference


def at_scale(model: RecognitionModel, scale: float | None) -> RecognitionModel:
    """The model, to be given its images in another size than in training; None: as it is."""
    if scale is not None:
        image = replace(model.config.image, scale=scale)
        model.config = replace(model.config, image=image)
    return model


def known_of(path: Path) -> dict[str, Any]:
    """What a model folder, or a checkpoint that training left, tells of its model."""
    if path.is_dir():
        return open_folder(path).info
    content = read_checkpoint(path)
    config = content["posformer"]["config"]
    return {
        "config": config.get("name"),
        "used_ink": config.get("data", {}).get("source") == "ink",
        "examples_seen": content["posformer"].get("seen"),
        "epoch": content.get("epoch"),
    }


def words_of(path: Path | None) -> Vocabulary:
    """A vocabulary from a file; None for that of the model that comes along."""
    if path is not None:
        return Vocabulary.load(path)
    if not DEFAULT_MODEL.is_dir():
        raise ModelError(
            "the checkpoint does not hold its words, and this installation has no model to take "
            "them from; name a file of them, one a line, with --vocabulary"
        )
    return open_folder(DEFAULT_MODEL).vocabulary


def largest_difference(one: PyTorchRuntime, other: OnnxRuntime, seed: int = 0) -> float:
    """The largest difference of log-probabilities that two runtimes of a model give.

    Random images are read alone, and together where the model masks padding; random tokens are
    fed all at once, and one at a time while rows change places.
    """
    random = np.random.default_rng(seed)
    images = [random.integers(0, 2, size, np.uint8) * np.uint8(255) for size in _SIZES]
    groups = [[image] for image in images]
    if one.config.encoder.mask_padding:
        groups.append(images)
    differences = []
    for group in groups:
        tokens = random.integers(1, len(one.vocabulary), (len(group), 3, 12))
        rows = random.integers(0, 3, (len(group), 3))
        for tried in (_at_once, _one_by_one):
            a, b = (tried(runtime.encode(group), tokens, rows) for runtime in (one, other))
            differences.append(np.abs(a - b).max())
    return float(np.max(differences))


def _at_once(model: StepModel[Any], tokens: np.ndarray, rows: np.ndarray) -> np.ndarray:
    return model.step(tokens, model.start())[0]


def _one_by_one(model: StepModel[Any], tokens: np.ndarray, rows: np.ndarray) -> np.ndarray:
    state = model.start()
    found = []
    for place in range(tokens.shape[-1]):
        scores, state = model.step(tokens[..., place : place + 1], state)
        state = model.select(state, np.arange(len(tokens)), rows)
        found.append(scores)
    return np.concatenate(found, axis=2)
