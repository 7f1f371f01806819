"""Runs a model with ONNX Runtime; needs no PyTorch.

It runs any model: the names and axes of the graphs tell what to pass on, see
`posformer.models.onnx_export`.
"""

import ctypes
import os
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from posformer.errors import ModelError
from posformer.models.model_config import STRIDE
from posformer.models.model_folder import DECODER, ENCODER, WEIGHTS, ModelFolder, open_folder
from posformer.models.padding import pad_images
from posformer.runtime.attention_map import AttentionMap
from posformer.runtime.language_prior import load_language
from posformer.runtime.onnx_graph import Arrays, Graph, Values, open_graphs
from posformer.runtime.ort import ort

_MAX_CELLS = 100_000  # batch · beams · steps · cells per decoder call
_SILENT = 4  # log level of ONNX Runtime: errors are raised, not printed


@dataclass(frozen=True)
class State:
    """Position of a set of hypotheses.

    The cache of the last step stays in the memory of ONNX Runtime. Selecting beams only changes
    `origin`; the next step reads the selected beams from the cache.
    """

    memory: Arrays  # memory of the images
    memory_values: Values  # the same for ONNX Runtime, not copied
    cache: Values  # of all beams of the last step
    origin: np.ndarray  # int64 (batch, beams): index into all beams of the cache


_Stepped = tuple[list[np.ndarray], State]


class OnnxStepModel:
    """The step interface of the search for encoded images."""

    def __init__(
        self, decoder: Graph, memory: Arrays, cache: Arrays, feature_map: tuple[int, int]
    ) -> None:
        self._decoder, self._feature_map = decoder, feature_map
        self._cache_outputs = [name for name in decoder.outputs if name.startswith("new_cache")]
        images = np.arange(len(next(iter(memory.values()))))
        self._start = State(memory, _values(memory), _values(cache), images[:, None])

    def start(self) -> State:
        """Return the state before the first token."""
        return self._start

    def step(self, tokens: np.ndarray, state: State) -> tuple[np.ndarray, State]:
        """Return log-probabilities float32 (batch, beams, steps, vocab_size) and the new state.

        Args:
            tokens: int64 (batch, beams, steps).
            state: from `start`, `step` or `select`.
        """
        (log_probs,), state = self._steps(tokens, state, ["log_probs"])
        return log_probs, state

    def select(self, state: State, images: np.ndarray, beams: np.ndarray) -> State:
        """Return the state of some images and of some of their beams.

        Args:
            state: from `start`, `step` or `select`.
            images: int64 (new batch,), indices of images.
            beams: int64 (new batch, new beams), indices of beams of these images.
        """
        if not np.array_equal(images, np.arange(len(state.origin))):
            memory = {name: array[images] for name, array in state.memory.items()}
            state = replace(state, memory=memory, memory_values=_values(memory))
        return replace(state, origin=state.origin[images[:, None], beams])

    def attention(self, tokens: np.ndarray) -> list[AttentionMap]:
        """Return the attention of every layer over whole sequences; see `Attentive`."""
        known = self._decoder.outputs
        names = [name for name in known if name.startswith("attention.")]
        arrays, _ = self._steps(tokens, self._start, names)
        shape = (*tokens.shape, -1, *self._feature_map)
        maps = {name: array.reshape(shape) for name, array in zip(names, arrays, strict=True)}
        layers = []
        for number in range(sum(name.endswith(".weights") for name in names)):
            layer = f"attention.{number}"
            weights = maps[f"{layer}.weights"]
            # Early graphs with refinement do not output the weights before it.
            coverage = {f"new_cache.total.{number}", f"new_cache.{number}.coverage.total"}
            raw = maps.get(f"{layer}.raw_weights", None if coverage & known.keys() else weights)
            layers.append(AttentionMap(weights, raw, maps.get(f"{layer}.refinement")))
        return layers

    def _steps(self, tokens: np.ndarray, state: State, outputs: list[str]) -> _Stepped:
        """Return outputs for all steps, in as few decoder calls as memory and decoder allow."""
        height, width = self._feature_map
        limit = max(1, _MAX_CELLS // (tokens[..., 0].size * height * width))
        if self._decoder.inputs["input_ids"][2] == 1:
            limit = 1
        parts = []
        for start in range(0, tokens.shape[-1], limit):
            arrays, state = self._step(tokens[..., start : start + limit], state, outputs)
            parts.append(arrays)
        if len(parts) > 1:
            parts = [[np.concatenate(pieces, axis=2) for pieces in zip(*parts, strict=True)]]
        return parts[0], state

    def _step(self, tokens: np.ndarray, state: State, outputs: list[str]) -> _Stepped:
        batch, beams, _ = tokens.shape
        origin = np.broadcast_to(state.origin, (batch, beams))
        origin = self._decoder.origin_input(origin, state.cache)
        inputs = _values({"input_ids": tokens, "origin": origin})
        inputs |= state.memory_values | state.cache
        values = self._decoder.run([*outputs, *self._cache_outputs], inputs)
        names = (name.removeprefix("new_") for name in self._cache_outputs)
        cache = dict(zip(names, values[len(outputs) :], strict=True))
        origin = np.arange(batch * beams).reshape(batch, beams)
        arrays = [value.numpy() for value in values[: len(outputs)]]
        return arrays, replace(state, cache=cache, origin=origin)


def _values(arrays: Arrays) -> Values:
    """Return arrays for ONNX Runtime; contiguous arrays are not copied."""
    return {
        name: ort.OrtValue.ortvalue_from_numpy(np.ascontiguousarray(array))
        for name, array in arrays.items()
    }


class OnnxRuntime:
    """A model run by ONNX Runtime; see `Runtime`. May be used by several threads at once."""

    def __init__(self, folder: ModelFolder, threads: int | None = None) -> None:
        self.config, self.vocabulary, self.info = folder.config, folder.vocabulary, folder.info
        self.language = load_language(folder)
        # Graphs of format 2 refer to this file; the sessions may use the buffer without a copy.
        self._weights = folder.file(WEIGHTS).read_bytes() if folder.has(WEIGHTS) else b""
        with ThreadPoolExecutor() as pool:  # two cores load them in half the time
            encoder, decoder = pool.map(
                lambda name: _open_session(folder.file(name), self._weights, threads),
                (ENCODER, DECODER),
            )
        _release_memory()
        self._encoder, self._decoder = open_graphs(encoder, decoder)
        vocab_size = self._decoder.outputs.get("log_probs", [None])[-1]
        codes_tokens = getattr(self.config.decoder, "targets", None) is None
        if codes_tokens and isinstance(vocab_size, int) and vocab_size != len(self.vocabulary):
            raise ModelError(
                f"{folder.path}: the weights have {vocab_size} tokens, the vocabulary "
                f"{len(self.vocabulary)}"
            )

    @classmethod
    def load(cls, path: Path, threads: int | None = None) -> "OnnxRuntime":
        """Load a model folder with ONNX files."""
        return cls(open_folder(path), threads)

    def encode(self, images: Sequence[np.ndarray]) -> OnnxStepModel:
        """Encode images, uint8 (height, width) each with white ink on black.

        Every image is encoded alone: no time is spent on padding, and it cannot affect the result.
        """
        encoded = []
        for image in images:
            batch, _ = pad_images([image], self.config.encoder.mask_padding)
            encoded.append(self._encoder.encode(batch))
        sizes = [(-(-image.shape[0] // STRIDE), -(-image.shape[1] // STRIDE)) for image in images]
        feature_map = max(height for height, _ in sizes), max(width for _, width in sizes)
        joined = {
            name: _join(axes, [arrays[name] for arrays in encoded], sizes, feature_map)
            for name, axes in self._encoder.outputs.items()
        }
        memory, cache = (
            {name: array for name, array in joined.items() if name.startswith(prefix)}
            for prefix in ("memory", "cache")
        )
        return OnnxStepModel(self._decoder, memory, cache, feature_map)


def _open_session(path: Path, weights: bytes, threads: int | None) -> ort.InferenceSession:
    options = ort.SessionOptions()
    # One read instead of one for every parameter; releases without this method read the file.
    if hasattr(options, "add_external_initializers_from_files_in_memory"):
        options.add_external_initializers_from_files_in_memory([WEIGHTS], [weights], [len(weights)])
    options.intra_op_num_threads = threads or _cores()
    options.log_severity_level = _SILENT
    # Memory patterns are stored for every size that occurs, and sizes differ at every step.
    options.enable_mem_pattern = False
    # An arena keeps the largest size of every buffer; without it, times are the same.
    options.enable_cpu_mem_arena = False
    # Idle threads of one session must not slow down those of the other.
    options.add_session_config_entry("session.force_spinning_stop", "1")
    try:
        return ort.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    except Exception as error:  # its classes have no common base of their own
        reason = str(error).strip().splitlines()[0]
        raise ModelError(f"{path}: ONNX Runtime cannot load it ({reason})") from error


def _release_memory() -> None:
    """Return what loading has freed to the system: 17 MB with glibc, which keeps it otherwise."""
    with suppress(OSError, AttributeError, TypeError):
        ctypes.CDLL(None).malloc_trim(0)


def _cores() -> int:
    """Return the number of cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _join(
    axes: Sequence[int | str],
    parts: Sequence[np.ndarray],
    sizes: Iterable[tuple[int, int]],
    feature_map: tuple[int, int],
) -> np.ndarray:
    """Return one array for images of different sizes.

    Axes over the feature map grow to its size. Boolean arrays are padding masks and are filled
    with true, others with zero.
    """
    if len(parts) == 1:
        return parts[0]
    start = next((axis for axis, name in enumerate(axes) if name in ("cells", "height")), None)
    if start is None:
        return np.concatenate(parts)
    end = start + (1 if axes[start] == "cells" else 2)
    before, after = parts[0].shape[1:start], parts[0].shape[end:]
    kind = parts[0].dtype
    joined = np.full((len(parts), *before, *feature_map, *after), kind.kind == "b", kind)
    skipped = (slice(None),) * len(before)
    for target, part, size in zip(joined, parts, sizes, strict=True):
        target[(*skipped, *map(slice, size))] = part.reshape(*before, *size, *after)
    if axes[start] == "height":
        return joined
    height, width = feature_map  # not -1, which an array without steps does not allow
    return joined.reshape(len(parts), *before, height * width, *after)
