"""Runs a model for the search with ONNX Runtime; needs no PyTorch."""

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import onnxruntime as ort

from posformer.latex import Vocabulary
from posformer.model.batching import pad_pictures
from posformer.model.config import DecoderConfig, ModelConfig
from posformer.model.folder import DECODER, ENCODER, ModelError, ModelFolder, open_folder
from posformer.runtime.interface import LayerAttention

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

    pictures: _Arrays  # keys, values and padding, as the decoder takes them
    memory: _Values  # the same, not copied
    kept: _Values  # of all rows of the step before
    origin: np.ndarray | None  # int64 (pictures, rows), which of those rows; None at the start


class OnnxStepModel:
    """The step interface of the search over pictures that are already encoded."""

    def __init__(self, decoder: ort.InferenceSession, pictures: _Arrays, kept: _Arrays) -> None:
        self._decoder = decoder
        self._start = State(pictures, _values(pictures), _values(kept), None)
        self._outputs = [output.name for output in decoder.get_outputs()]
        self._kept = [name for name in self._outputs if name.startswith("new_")]

    def start(self) -> State:
        """Before the first token of every picture."""
        return self._start

    def step(self, tokens: np.ndarray, state: State) -> tuple[np.ndarray, State]:
        """Log-probabilities (pictures, rows, steps, words) of what follows the tokens."""
        most = max(1, _MAP_NUMBERS // (tokens[..., 0].size * state.pictures["padding"][0].size))
        if tokens.shape[-1] <= most:
            return self._step(tokens, state)
        parts = []
        for start in range(0, tokens.shape[-1], most):
            scores, state = self._step(tokens[..., start : start + most], state)
            parts.append(scores)
        return np.concatenate(parts, axis=2), state

    def _step(self, tokens: np.ndarray, state: State) -> tuple[np.ndarray, State]:
        scores, *kept = self._run(["scores", *self._kept], tokens, state)
        rows = np.arange(tokens.shape[0] * tokens.shape[1]).reshape(tokens.shape[:2])
        names = (_taken_in_as(name) for name in self._kept)
        state = replace(state, kept=dict(zip(names, kept, strict=True)), origin=rows)
        return scores.numpy(), state

    def select(self, state: State, pictures: np.ndarray, rows: np.ndarray) -> State:
        """Keeps some pictures and, of each, some rows."""
        if not np.array_equal(pictures, np.arange(len(state.pictures["padding"]))):
            chosen = {name: array[pictures] for name, array in state.pictures.items()}
            state = replace(state, pictures=chosen, memory=_values(chosen))
        if state.origin is None:
            return state
        return replace(state, origin=state.origin[pictures[:, None], rows])

    def attention(self, tokens: np.ndarray) -> list[LayerAttention]:
        """Where each layer looks while whole sequences are read; see `Attentive`."""
        names = [name for name in self._outputs if name.partition(".")[0] in _LOOKS]
        values = self._run(names, tokens, self._start) if names else []
        found = {name: value.numpy() for name, value in zip(names, values, strict=True)}
        layers = []
        for number in range(sum(name.startswith("attention.") for name in names)):
            weights = found[f"attention.{number}"]
            refined = f"new_total.{number}" in self._outputs
            raw = found.get(f"raw_attention.{number}", None if refined else weights)
            layers.append(LayerAttention(weights, raw, found.get(f"correction.{number}")))
        return layers

    def _run(self, outputs: list[str], tokens: np.ndarray, state: State) -> list[ort.OrtValue]:
        origin = state.origin
        if origin is None:
            origin = np.zeros(tokens.shape[:2], np.int64)
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


def _taken_in_as(output: str) -> str:
    """Under which name the next step takes in what this step gives out."""
    name = output.removeprefix("new_")
    return f"past_{name}" if name.startswith(("keys.", "values.")) else name


class OnnxRuntime:
    """A model run by ONNX Runtime; see `Runtime`. May be used from several threads at once."""

    def __init__(self, folder: ModelFolder, threads: int | None = None) -> None:
        self.info = folder.info
        self._folder = folder
        self._encoder = _open_session(folder.file(ENCODER), threads)
        self._decoder = _open_session(folder.file(DECODER), threads)

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

    def encode(self, pictures: Sequence[np.ndarray]) -> OnnxStepModel:
        """Encodes pictures (uint8, white ink on black), ready to be searched together.

        Each is encoded for itself: no work goes into padding, and none of it can leak in.
        """
        encoded, sizes = [], []
        for picture in pictures:
            batch, _ = pad_pictures([picture], self.config.encoder.mask_padding)
            sizes.append((-(-batch.shape[2] // _CELL), -(-batch.shape[3] // _CELL)))
            encoded.append(self._encoder.run(None, {"pictures": batch}))
        names = [output.name for output in self._encoder.get_outputs()]
        joined = _join(names, encoded, sizes)
        cells = joined["padding"][0].size
        return OnnxStepModel(self._decoder, joined, _nothing_kept(self.config.decoder, cells))


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
    names: Sequence[str], encoded: Sequence[list[np.ndarray]], sizes: Sequence[tuple[int, int]]
) -> _Arrays:
    """Keys and values of pictures of different sizes as arrays over one map, and its padding."""
    height, width = np.max(sizes, axis=0)
    padding = np.ones((len(sizes), height, width), bool)
    for number, (rows, columns) in enumerate(sizes):
        padding[number, :rows, :columns] = False
    joined: _Arrays = {"padding": padding}
    for place, name in enumerate(names):
        parts = [arrays[place] for arrays in encoded]
        axis = 3 if name.startswith("keys.") else 2  # which counts cells
        joined[name] = parts[0] if len(parts) == 1 else _on_one_map(parts, ~padding, axis)
    return joined


def _on_one_map(parts: Sequence[np.ndarray], inside: np.ndarray, axis: int) -> np.ndarray:
    shape = list(parts[0].shape)
    shape[0], shape[axis] = len(parts), inside[0].size
    joined = np.zeros(shape, np.float32)
    for number, part in enumerate(parts):
        cells = np.flatnonzero(inside[number])
        if axis == 3:
            joined[number][..., cells] = part[0]
        else:
            joined[number][:, cells] = part[0]
    return joined


def _nothing_kept(config: DecoderConfig, cells: int) -> _Arrays:
    """What the decoder takes in before the first token: one row without a past."""
    kept: _Arrays = {}
    nothing = np.zeros((1, config.heads, 0, config.width // config.heads), np.float32)
    unseen = np.zeros((1, 2 * config.heads, cells), np.float32)
    for number in range(config.layers):
        kept[f"past_keys.{number}"] = kept[f"past_values.{number}"] = nothing
        if config.refinement is not None and number > 0:
            kept[f"total.{number}"] = kept[f"pending.{number}"] = unseen
    return kept
