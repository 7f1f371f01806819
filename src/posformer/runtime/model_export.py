"""Export of a trained model to a complete model folder, with a check of the result."""

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
from posformer.models.checkpoint import read_checkpoint, save_weights
from posformer.models.model_folder import (
    CARD,
    LANGUAGE,
    WEIGHTS,
    ModelFolder,
    check_replaceable,
    open_folder,
    write_folder,
)
from posformer.models.onnx_export import export_onnx
from posformer.runtime.engine import DEFAULT_MODEL
from posformer.runtime.onnx_runtime import OnnxRuntime
from posformer.runtime.pytorch_runtime import PyTorchRuntime
from posformer.search import StepModel

TOLERANCE = 1e-3  # of log-probabilities, between ONNX Runtime and PyTorch

_SIZES = ((16, 16), (75, 230), (40, 96), (112, 33))  # of the test images


def export_model(
    model: RecognitionModel,
    output: Path,
    info: Mapping[str, Any] | None = None,
    *,
    half: bool = False,
    card: Path | None = None,
    language: Path | None = None,
) -> tuple[ModelFolder, float]:
    """Write a complete model folder: weights, ONNX files, config, vocabulary.

    Args:
        model: any model; it is not changed.
        output: the folder; an existing one is replaced after all checks have passed.
        info: information about the model.
        half: store weights in half precision, for half the size. They are rounded before the
            export, so that both engines run the same model.
        card: model card in Markdown, stored as README.md.
        language: n-gram language model to include.

    Returns:
        The folder, and the largest difference of log-probabilities between ONNX Runtime and
        PyTorch.

    Raises:
        ModelError: If the model cannot be exported, ONNX Runtime and PyTorch disagree, or the
            folder contains anything but a model; nothing is written in these cases.
    """
    check_replaceable(output)  # before the work
    model = copy.deepcopy(model).cpu().float().for_inference()
    if half:
        model = model.half().float()
    config, vocabulary, info = model.config, model.vocabulary, info or {}
    with tempfile.TemporaryDirectory() as scratch:
        weights = save_weights(model, Path(scratch), half)
        files = {WEIGHTS: weights, **export_onnx(model, Path(scratch), weights)}
        if card is not None:
            files[CARD] = card
        if language is not None:
            files[LANGUAGE] = language
        trial = write_folder(Path(scratch) / "trial", config, vocabulary, files, info)
        difference = largest_difference(PyTorchRuntime(model), OnnxRuntime(trial))
        if not difference <= TOLERANCE:
            raise ModelError(
                f"{output}: not written: ONNX Runtime and PyTorch differ by {difference:.2g}"
            )
        return write_folder(output, config, vocabulary, files, info), difference


def at_scale(model: RecognitionModel, scale: float | None) -> RecognitionModel:
    """Set the scale of the input images, and return the model; None keeps the scale."""
    if scale is not None:
        image = replace(model.config.image, scale=scale)
        model.config = replace(model.config, image=image)
    return model


def known_of(path: Path) -> dict[str, Any]:
    """Return the information about a model that its folder or training checkpoint holds."""
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


def language_of(path: Path) -> Path | None:
    """Return the file of the language model of a model folder; None if it has none."""
    folder = open_folder(path) if path.is_dir() else None
    return folder.file(LANGUAGE) if folder is not None and folder.has(LANGUAGE) else None


def load_vocabulary(path: Path | None) -> Vocabulary:
    """Load a vocabulary from a file; None stands for that of the bundled model."""
    if path is not None:
        return Vocabulary.load(path)
    if not DEFAULT_MODEL.is_dir():
        raise ModelError(
            "the checkpoint does not hold its vocabulary, and this installation has no bundled "
            "model; specify a file with one token per line with --vocabulary"
        )
    return open_folder(DEFAULT_MODEL).vocabulary


def largest_difference(one: PyTorchRuntime, other: OnnxRuntime, seed: int = 0) -> float:
    """Return the largest difference of log-probabilities between two runtimes of a model.

    Random images are encoded alone, and together if the model masks padding. Random tokens are
    decoded in one call, and one by one with a random selection of beams after each step.
    """
    random = np.random.default_rng(seed)
    images = [random.integers(0, 2, size, np.uint8) * np.uint8(255) for size in _SIZES]
    groups = [[image] for image in images]
    if one.config.encoder.mask_padding:
        groups.append(images)
    differences = []
    for group in groups:
        tokens = random.integers(1, len(one.vocabulary), (len(group), 3, 12))
        beams = random.integers(0, 3, (len(group), 3))
        for decode in (_at_once, _one_by_one):
            a, b = (decode(runtime.encode(group), tokens, beams) for runtime in (one, other))
            differences.append(np.abs(a - b).max())
    return float(np.max(differences))


def _at_once(model: StepModel[Any], tokens: np.ndarray, beams: np.ndarray) -> np.ndarray:
    return model.step(tokens, model.start())[0]


def _one_by_one(model: StepModel[Any], tokens: np.ndarray, beams: np.ndarray) -> np.ndarray:
    state = model.start()
    parts = []
    for step in range(tokens.shape[-1]):
        log_probs, state = model.step(tokens[..., step : step + 1], state)
        state = model.select(state, np.arange(len(tokens)), beams)
        parts.append(log_probs)
    return np.concatenate(parts, axis=2)
