"""ONNX graphs with the tensor names of model format 2, also for files of format 1."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import numpy as np

from posformer.errors import ModelError
from posformer.models.model_config import STRIDE
from posformer.runtime.ort import ort

Arrays = dict[str, np.ndarray]
Values = dict[str, ort.OrtValue]

_FORMAT_1_NAMES = {"tokens": "input_ids", "pictures": "images", "scores": "log_probs"}
_ATTENTION = {"attention": "weights", "raw_attention": "raw_weights", "correction": "refinement"}


class Graph:
    """A loaded graph: names and axes of its tensors, and how to run it.

    Args:
        session: the graph.
        format_1_cache: cache inputs of the decoder in a model of format 1; None for format 2.
    """

    def __init__(
        self, session: ort.InferenceSession, format_1_cache: Sequence[str] | None = None
    ) -> None:
        self._session = session
        self._names: dict[str, str] = {}  # name in the file by name in format 2

        def axes(values: Sequence[ort.NodeArg]) -> dict[str, list[str | int]]:
            names = [_format_2_name(value.name, format_1_cache) for value in values]
            self._names |= {new: value.name for new, value in zip(names, values, strict=True)}
            return {new: value.shape for new, value in zip(names, values, strict=True)}

        self.inputs, self.outputs = axes(session.get_inputs()), axes(session.get_outputs())
        self._given = list(self.outputs)

    def run(self, outputs: Sequence[str], inputs: Values) -> list[ort.OrtValue]:
        """Return some outputs, in this order."""
        given = {self._names[name]: value for name, value in inputs.items() if name in self._names}
        names = [self._names[name] for name in outputs]
        with _running():
            return self._session.run_with_ort_values(names, given)

    def encode(self, image: np.ndarray) -> Arrays:
        """Return all outputs of an encoder for one image, float32 (1, 1, height, width)."""
        with _running():
            values = self._session.run(None, {self._names["images"]: image})
        arrays = dict(zip(self._given, values, strict=True))
        height, width = (-(-side // STRIDE) for side in image.shape[2:])
        sizes = {"past": 0, "cells": height * width, "height": height, "width": width}
        for name in self.outputs.keys() - arrays.keys():
            axes = self.outputs[name]
            shape = [axis if isinstance(axis, int) else sizes.get(axis, 1) for axis in axes]
            arrays[name] = np.zeros(shape, bool if name == "memory.padding" else np.float32)
        return arrays

    def origin_input(self, origin: np.ndarray, cache: Values) -> np.ndarray:
        """Return the decoder's input `origin`, int64 (2, batch, beams): old image and old beam.

        In format 1, all beams of all images are one axis of the cache: int64 (batch · beams,).

        Args:
            origin: int64 (batch, beams), index into all beams of the cache.
            cache: cache of the last step.
        """
        if len(self.inputs["origin"]) == 1:
            return origin.reshape(-1)
        beams = next(iter(cache.values())).shape()[1]
        return np.stack(np.divmod(origin, beams))


@contextmanager
def _running() -> Iterator[None]:
    """Report what ONNX Runtime raises if a graph does not do what the config says."""
    try:
        yield
    except Exception as error:  # its classes have no common base of their own
        reason = " ".join(str(error).split())[:300]
        raise ModelError(f"ONNX Runtime cannot run the model ({reason})") from error


def open_graphs(
    encoder: ort.InferenceSession, decoder: ort.InferenceSession
) -> tuple[Graph, Graph]:
    """Return the graphs of a model of any format."""
    names = {value.name for value in decoder.get_inputs()}
    if "input_ids" in names:
        return Graph(encoder), Graph(decoder)
    outputs = [value.name for value in decoder.get_outputs()]
    new = [name.removeprefix("new_") for name in outputs if name.startswith("new_")]
    cache = [f"past_{name}" if f"past_{name}" in names else name for name in new]
    graphs = Graph(encoder, cache), Graph(decoder, cache)
    # The encoder of format 1 outputs neither the initial cache nor the padding.
    for name, axes in graphs[1].inputs.items():
        if name.startswith(("cache.", "memory.")):
            graphs[0].outputs.setdefault(name, axes)
    return graphs


def _format_2_name(name: str, format_1_cache: Sequence[str] | None) -> str:
    kind, _, layer = name.partition(".")
    if format_1_cache is None or name in ("origin", "images"):
        return name
    if name in _FORMAT_1_NAMES:
        return _FORMAT_1_NAMES[name]
    if kind in _ATTENTION:
        return f"attention.{layer}.{_ATTENTION[kind]}"
    if name.startswith("new_"):
        return f"new_cache.{name.removeprefix('new_')}"
    if name in format_1_cache:
        return f"cache.{name.removeprefix('past_')}"
    return f"memory.{name}"
