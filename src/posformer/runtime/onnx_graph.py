"""ONNX graphs with the tensor names of model format 2, also for files of format 1."""

from collections.abc import Sequence

import numpy as np
import onnxruntime as ort

from posformer.models.model_config import STRIDE

Arrays = dict[str, np.ndarray]
Values = dict[str, ort.OrtValue]

_FORMAT_1_NAMES = {
    "tokens": "input_ids",
    "origin": "origin",
    "pictures": "images",
    "images": "images",
    "scores": "log_probs",
}


class Graph:
    """A loaded graph: names and axes of its tensors, and how to run it."""

    def __init__(self, session: ort.InferenceSession) -> None:
        self._session = session
        self.inputs: dict[str, list[str | int]] = {
            value.name: value.shape for value in session.get_inputs()
        }
        self.outputs: dict[str, list[str | int]] = {
            value.name: value.shape for value in session.get_outputs()
        }

    def run(self, outputs: Sequence[str], inputs: Values) -> list[ort.OrtValue]:
        """Return some outputs, in this order."""
        values: list[ort.OrtValue] = self._session.run_with_ort_values(list(outputs), inputs)
        return values

    def encode(self, image: np.ndarray) -> Arrays:
        """Return all outputs of an encoder for one image, float32 (1, 1, height, width)."""
        return dict(zip(self.outputs, self._session.run(None, {"images": image}), strict=True))

    def origin_input(self, origin: np.ndarray, cache: Values) -> np.ndarray:
        """Return the decoder's input `origin`, int64 (2, batch, beams): old image and old beam.

        Args:
            origin: int64 (batch, beams), index into all beams of the cache.
            cache: cache of the last step.
        """
        beams = next(iter(cache.values())).shape()[1]
        return np.stack(np.divmod(origin, beams))


def open_graphs(
    encoder: ort.InferenceSession, decoder: ort.InferenceSession
) -> tuple[Graph, Graph]:
    """Return the graphs of a model of any format."""
    if any(value.name == "input_ids" for value in decoder.get_inputs()):
        return Graph(encoder), Graph(decoder)
    old_decoder = _Format1Decoder(decoder)
    return _Format1Encoder(encoder, old_decoder), old_decoder


class _Format1Graph(Graph):
    """A graph of format 1 under the names of format 2."""

    def __init__(self, session: ort.InferenceSession, cache: Sequence[str]) -> None:
        super().__init__(session)
        self._cache = cache
        self._names = {self._renamed(name): name for name in (*self.inputs, *self.outputs)}
        self.inputs, self.outputs = (
            {self._renamed(name): shape for name, shape in shapes.items()}
            for shapes in (self.inputs, self.outputs)
        )

    def _renamed(self, name: str) -> str:
        if name in _FORMAT_1_NAMES:
            return _FORMAT_1_NAMES[name]
        kind, _, layer = name.partition(".")
        parts = {
            "attention": "weights",
            "raw_attention": "raw_weights",
            "correction": "refinement",
        }
        if kind in parts:
            return f"attention.{layer}.{parts[kind]}"
        if name.startswith("new_"):
            return f"new_cache.{name.removeprefix('new_')}"
        if name in self._cache:
            return f"cache.{name.removeprefix('past_')}"
        return f"memory.{name}"

    def run(self, outputs: Sequence[str], inputs: Values) -> list[ort.OrtValue]:
        """Return some outputs, in this order."""
        given = {self._names[name]: value for name, value in inputs.items() if name in self._names}
        return super().run([self._names[name] for name in outputs], given)


class _Format1Decoder(_Format1Graph):
    """A decoder of format 1: all beams of all images are one axis of its cache."""

    def __init__(self, session: ort.InferenceSession) -> None:
        names = {value.name for value in session.get_inputs()}
        cache = []
        for output in session.get_outputs():
            name = output.name.removeprefix("new_")
            if name != output.name:
                cache.append(f"past_{name}" if f"past_{name}" in names else name)
        super().__init__(session, cache)

    def origin_input(self, origin: np.ndarray, cache: Values) -> np.ndarray:
        """Return the input `origin`, int64 (batch · beams,)."""
        return origin.reshape(-1)


class _Format1Encoder(_Format1Graph):
    """An encoder of format 1, with the initial cache and the padding that it does not output."""

    def __init__(self, session: ort.InferenceSession, decoder: _Format1Decoder) -> None:
        super().__init__(session, decoder._cache)
        self._given = list(self.outputs)
        needed = {
            name: shape
            for name, shape in decoder.inputs.items()
            if name.startswith(("cache.", "memory.")) and name not in self._given
        }
        self.outputs |= needed

    def encode(self, image: np.ndarray) -> Arrays:
        """Return all outputs for one image, float32 (1, 1, height, width)."""
        values = self._session.run(None, {self._names["images"]: image})
        arrays = dict(zip(self._given, values, strict=True))
        height, width = (-(-side // STRIDE) for side in image.shape[2:])
        sizes = {"past": 0, "cells": height * width, "height": height, "width": width}
        for name, axes in self.outputs.items():
            if name not in arrays:
                shape = [axis if isinstance(axis, int) else sizes.get(axis, 1) for axis in axes]
                kind = bool if name == "memory.padding" else np.float32
                arrays[name] = np.zeros(shape, kind)
        return arrays
