"""Runs a model for the search with ONNX Runtime; needs no PyTorch.

It knows no architecture: the graphs' names and axes tell what there is to hand on.
"""

import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import onnxruntime as ort

from posformer.errors import ModelError
from posformer.latex import Vocabulary
from posformer.models.model_config import ModelConfig
from posformer.models.model_folder import DECODER, ENCODER, ModelFolder, open_folder
from posformer.models.padding import pad_images
from posformer.runtime.attention_map import AttentionMap

__all__ = ["OnnxRuntime", "OnnxStepModel", "State"]

_CELL = 16  # pixels a cell of the feature map, in both directions
_MAP_NUMBERS = 100_000  # rows · steps · cells that go through the decoder at once
_SILENT = 4  # of ONNX Runtime's log levels: what goes wrong is raised, not printed

_LOOKS = ("attention", "raw_attention", "correction")  # outputs that tell of attention

_Arrays = dict[str, np.ndarray]
_Values = dict[str, ort.OrtValue]


@dataclass(frozen=True)
class State:
    """Where hypotheses stand.

    What the decoder keeps of the tokens behind it stays in its own memory; choosing rows only
    changes `origin`, and the next step goes on from there.
    """

    images: _Arrays  # what the encoder gave, and padding, as the decoder takes them
    memory: _Values  # the same, not copied
    kept: _Values  # of all rows of the step before
    origin: np.ndarray | None  # int64 (images, rows), which of those rows; None at the start


class _Signature:
    """What goes in and out of a decoder, by the names and axes of its graph.

    What it gives out as `new_x` it takes in again at the next step, as `past_x` or `x`.
    """

    def __init__(self, decoder: ort.InferenceSession) -> None:
        self.shapes: dict[str, list[str | int]] = {
            given.name: given.shape for given in decoder.get_inputs()
        }
        self.outputs = [output.name for output in decoder.get_outputs()]
        self.kept = {
            name: self._taken_in_as(name.removeprefix("new_"))
            for name in self.outputs
            if name.startswith("new_")
        }
        steps = self.shapes["tokens"][2]
        self.most_steps = steps if isinstance(steps, int) else None

    def _taken_in_as(self, name: str) -> str:
        return f"past_{name}" if f"past_{name}" in self.shapes else name

    def at_start(self, given: _Arrays, images: int, cells: int) -> _Arrays:
        """What the decoder takes in before the first token: one row an image, without a past.

        Args:
            given: what the encoder tells of it; all else is zero.
            images: how many there are.
            cells: of their map.
        """
        sizes = {"old rows": images, "past": 0, "cells": cells}
        return {
            name: given[name] if name in given else np.zeros(self._sized(name, sizes), np.float32)
            for name in self.kept.values()
        }

    def _sized(self, name: str, sizes: dict[str, int]) -> list[int]:
        return [size if isinstance(size, int) else sizes[size] for size in self.shapes[name]]


class OnnxStepModel:
    """The step interface of the search over images that are already encoded."""

    def __init__(
        self,
        decoder: ort.InferenceSession,
        signature: _Signature,
        images: _Arrays,
        kept: _Arrays,
    ) -> None:
        self._decoder, self._signature = decoder, signature
        self._start = State(images, _values(images), _values(kept), None)

    def start(self) -> State:
        """Before the first token of every image."""
        return self._start

    def step(self, tokens: np.ndarray, state: State) -> tuple[np.ndarray, State]:
        """Log-probabilities (images, rows, steps, words) of what follows the tokens."""
        (scores,), state = self._steps(tokens, state, ["scores"])
        return scores, state

    def _steps(
        self, tokens: np.ndarray, state: State, outputs: list[str]
    ) -> tuple[list[np.ndarray], State]:
        """Some outputs for all steps, in as many pieces as memory or the decoder asks for."""
        most = max(1, _MAP_NUMBERS // (tokens[..., 0].size * state.images["padding"][0].size))
        most = self._signature.most_steps or most
        if tokens.shape[-1] <= most:
            return self._step(tokens, state, outputs)
        parts = []
        for start in range(0, tokens.shape[-1], most):
            found, state = self._step(tokens[..., start : start + most], state, outputs)
            parts.append(found)
        return [np.concatenate(pieces, axis=2) for pieces in zip(*parts, strict=True)], state

    def _step(
        self, tokens: np.ndarray, state: State, outputs: list[str]
    ) -> tuple[list[np.ndarray], State]:
        kept = self._signature.kept
        values = self._run([*outputs, *kept], tokens, state)
        rows = np.arange(tokens.shape[0] * tokens.shape[1]).reshape(tokens.shape[:2])
        found, held = values[: len(outputs)], values[len(outputs) :]
        state = replace(state, kept=dict(zip(kept.values(), held, strict=True)), origin=rows)
        return [value.numpy() for value in found], state

    def select(self, state: State, images: np.ndarray, rows: np.ndarray) -> State:
        """Keeps some images and, of each, some rows."""
        if not np.array_equal(images, np.arange(len(state.images["padding"]))):
            chosen = {name: array[images] for name, array in state.images.items()}
            state = replace(state, images=chosen, memory=_values(chosen))
        if state.origin is None:
            chosen = {name: value.numpy()[images] for name, value in state.kept.items()}
            return replace(state, kept=_values(chosen))
        return replace(state, origin=state.origin[images[:, None], rows])

    def attention(self, tokens: np.ndarray) -> list[AttentionMap]:
        """Where each layer looks while whole sequences are read; see `Attentive`."""
        given = self._signature.outputs
        names = [name for name in given if name.partition(".")[0] in _LOOKS]
        arrays, _ = self._steps(tokens, self._start, names)
        grid = self._start.images["padding"].shape[1:]
        found = {
            name: array.reshape(*array.shape[:-1], *grid)
            for name, array in zip(names, arrays, strict=True)
        }
        layers = []
        for number in range(sum(name.startswith("attention.") for name in names)):
            weights = found[f"attention.{number}"]
            refined = f"new_total.{number}" in given
            raw = found.get(f"raw_attention.{number}", None if refined else weights)
            layers.append(AttentionMap(weights, raw, found.get(f"correction.{number}")))
        return layers

    def _run(self, outputs: list[str], tokens: np.ndarray, state: State) -> list[ort.OrtValue]:
        origin = state.origin
        if origin is None:
            images, rows = tokens.shape[:2]
            origin = np.repeat(np.arange(images), rows)
        given = _values({"tokens": tokens, "origin": origin.reshape(-1)})
        inputs = {**state.memory, **state.kept, **given}
        found: list[ort.OrtValue] = self._decoder.run_with_ort_values(outputs, inputs)
        return found


def _values(arrays: _Arrays) -> _Values:
    """Arrays as ONNX Runtime takes them; those that lie in one piece are not copied."""
    return {
        name: ort.OrtValue.ortvalue_from_numpy(np.ascontiguousarray(array))
        for name, array in arrays.items()
    }


class OnnxRuntime:
    """A model run by ONNX Runtime; see `Runtime`. May be used from several threads at once."""

    def __init__(self, folder: ModelFolder, threads: int | None = None) -> None:
        self.info = folder.info
        self._folder = folder
        with ThreadPoolExecutor() as pool:  # two cores load them in half the time
            self._encoder, self._decoder = pool.map(
                lambda name: _open_session(folder.file(name), threads), (ENCODER, DECODER)
            )
        self._signature = _Signature(self._decoder)

    @classmethod
    def load(cls, path: Path, threads: int | None = None) -> "OnnxRuntime":
        """A model folder with ONNX files."""
        return cls(open_folder(path), threads)

    @property
    def config(self) -> ModelConfig:
        """Settings of the model."""
        return self._folder.config

    @property
    def vocabulary(self) -> Vocabulary:
        """Words of the model."""
        return self._folder.vocabulary

    def encode(self, images: Sequence[np.ndarray]) -> OnnxStepModel:
        """Encodes images (uint8, white ink on black), ready to be searched together.

        Each is encoded for itself: no work goes into padding, and none of it can leak in.
        """
        encoded, sizes = [], []
        for image in images:
            batch, _ = pad_images([image], self.config.encoder.mask_padding)
            sizes.append((-(-batch.shape[2] // _CELL), -(-batch.shape[3] // _CELL)))
            encoded.append(self._encoder.run(None, {self._encoder.get_inputs()[0].name: batch}))
        joined = _join(self._encoder.get_outputs(), encoded, sizes)
        padding = joined["padding"]
        kept = self._signature.at_start(joined, len(padding), padding[0].size)
        memory = {name: array for name, array in joined.items() if name not in kept}
        return OnnxStepModel(self._decoder, self._signature, memory, kept)


def _open_session(path: Path, threads: int | None) -> ort.InferenceSession:
    options = ort.SessionOptions()
    options.intra_op_num_threads = threads or _cores()
    options.log_severity_level = _SILENT
    # Patterns are remembered for every size that ever occurs, and sizes differ at every step.
    options.enable_mem_pattern = False
    # Threads of one session that wait busily for work would hold up those of the other.
    options.add_session_config_entry("session.force_spinning_stop", "1")
    try:
        return ort.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    except Exception as error:  # its classes have no common base of their own
        reason = str(error).strip().splitlines()[0]
        raise ModelError(f"{path}: ONNX Runtime cannot load it ({reason})") from error


def _cores() -> int:
    """The cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _join(
    outputs: Sequence[ort.NodeArg],
    encoded: Sequence[list[np.ndarray]],
    sizes: Sequence[tuple[int, int]],
) -> _Arrays:
    """What the encoder gave for images of different sizes, over one map, and its padding."""
    height, width = np.max(sizes, axis=0)
    padding = np.ones((len(sizes), height, width), bool)
    for number, (rows, columns) in enumerate(sizes):
        padding[number, :rows, :columns] = False
    joined: _Arrays = {"padding": padding}
    for place, output in enumerate(outputs):
        parts = [arrays[place] for arrays in encoded]
        if len(parts) == 1:
            joined[output.name] = parts[0]
        elif "cells" in output.shape:
            joined[output.name] = _on_one_map(parts, ~padding, output.shape.index("cells"))
        else:
            joined[output.name] = np.concatenate(parts)
    return joined


def _on_one_map(parts: Sequence[np.ndarray], inside: np.ndarray, axis: int) -> np.ndarray:
    shape = list(parts[0].shape)
    shape[0], shape[axis] = len(parts), inside[0].size
    joined = np.zeros(shape, np.float32)
    before = (slice(None),) * (axis - 1)
    for number, part in enumerate(parts):
        joined[number][(*before, np.flatnonzero(inside[number]))] = part[0]
    return joined
