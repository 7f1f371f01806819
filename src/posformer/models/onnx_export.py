"""Export of any recognition model to ONNX: an encoder graph and a decoder graph.

`encoder.onnx` maps one image, `images` float (1, 1, height, width), to its memory and its initial
cache. `decoder.onnx` runs `RecognitionModel.step`. Tensors are named by their path in the pytrees
of the model (`memory.keys.0`, `cache.1.coverage.total`), dynamic axes by their meaning: `batch`,
`beams`, `steps`, `cells`, `height`, `width`, `past`. `posformer.runtime.onnx_runtime` runs the
graphs by these names alone.

Weights are not stored in the graphs. They refer to the safetensors file of the model folder (ONNX
external data), so that ONNX Runtime and PyTorch read the same file.
"""

import copy
import json
import logging
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import onnx
import onnx_ir
import torch
from onnx import TensorProto, helper
from onnx_ir.passes import common as passes
from onnxscript import optimizer, rewriter
from onnxscript.rewriter.rules import common as rules
from torch import Tensor, nn
from torch.export import Dim

from posformer.errors import ModelError
from posformer.models.base import RecognitionModel, StepOutput
from posformer.models.encoder import DenseNet
from posformer.models.model_config import STRIDE
from posformer.models.model_folder import DECODER, ENCODER
from posformer.models.pytree import Pytree, map_tensors, named_tensors, tensors

_OPSET, _IR_VERSION = 18, 8  # later versions would exclude older releases of ONNX Runtime
_TYPES = {"F32": TensorProto.FLOAT, "F16": TensorProto.FLOAT16}

_Shape = list[int | str]  # dynamic axes are named
# Axes whose sizes do not depend on each other; `cells` is height times width.
_DIMENSIONS = {
    name: Dim(name) for name in ("batch", "beams", "steps", "past", "old_batch", "old_beams")
}
# The default rules of onnxscript also fold parameters, such as batch norm into convolutions.
_REWRITE_RULES = (
    rules.collapse_slice_rule,
    rules.collapse_slice2_rule,
    rules.materialize_reshape_shape_rule,
    rules.no_op_expand_rule,
    rules.no_op_transpose_rule,
    rules.remove_optional_bias_from_conv_rule,
    rules.reshape_reshape_rule,
    rules.squeeze_reshape_1d_rule,
    rules.transpose_transpose_rule,
    rules.unsqueeze_unsqueeze_rule,
)
# Sizes of the dynamic axes in two trial runs. An axis is dynamic if its size differs between the
# trials; the pair of sizes tells its name.
_TRIALS = {
    "batch": (2, 3),
    "beams": (3, 5),
    "steps": (4, 7),
    "past": (5, 9),
    "grown": (9, 16),  # past + steps
    "grown_by_one": (6, 10),
    "height": (3, 4),
    "width": (7, 11),
    "cells": (21, 44),  # height · width
}


@torch.no_grad()
def export_onnx(model: RecognitionModel, folder: Path, weights: Path) -> dict[str, Path]:
    """Write `encoder.onnx` and `decoder.onnx`.

    Args:
        model: a model in float32, without its training-only parts.
        folder: folder of the new files.
        weights: safetensors file with the parameters of the model, in full or half precision. The
            graphs refer to it by its name and expect it in their own folder.

    Returns:
        The paths by file name.

    Raises:
        ModelError: If the model cannot be exported.
    """
    if model.pytorch_only:
        raise ModelError(f"{model.config.name}: runs on PyTorch only: {model.pytorch_only}")
    model = copy.deepcopy(model).eval()
    for module in model.modules():
        if isinstance(module, DenseNet):
            module.mask_padding = False  # every image is encoded alone, without padding
    trials = [_Trial(model, number) for number in range(2)]
    stored = _stored_tensors(weights)
    files = {}
    for name, export in ((ENCODER, _export_encoder), (DECODER, _export_decoder)):
        try:
            graph = export(model, trials)
        except torch.onnx.OnnxExporterError as error:
            reason = str(error.__cause__ or error).strip().splitlines()[0]
            raise ModelError(f"cannot be exported to ONNX: {name}: {reason}") from error
        _use_stored_weights(graph.graph, stored)
        files[name] = folder / name
        onnx.save(graph, files[name])
    return files


class _Trial:
    """Inputs and outputs of the model at certain sizes."""

    def __init__(self, model: RecognitionModel, number: int) -> None:
        size = {name: pair[number] for name, pair in _TRIALS.items()}
        batch, beams = size["batch"], size["beams"]
        random = torch.Generator().manual_seed(0)
        sides = size["height"] * STRIDE, size["width"] * STRIDE
        self.images = torch.rand(batch, 1, *sides, generator=random)
        self.encoded = _EncoderGraph(model).encode(self.images)
        self.memory = self.encoded["memory"]
        past, steps = (
            torch.randint(1, len(model.vocabulary), (batch, beams, count), generator=random)
            for count in (size["past"], size["steps"] if model.parallel_steps else 1)
        )
        cache = model.initial_cache(self.memory, beams)
        self.cache = model.step(past, self.memory, cache).cache
        self.input_ids = steps
        self.outputs = _named_outputs(model.step(steps, self.memory, self.cache))


class _EncoderGraph(nn.Module):
    """Images to memory and initial cache."""

    def __init__(self, model: RecognitionModel) -> None:
        super().__init__()
        self.model = model

    def encode(self, images: Tensor) -> dict[str, Pytree]:
        padding = torch.zeros_like(images[:, 0], dtype=torch.bool)
        memory = self.model.encode(images, padding)
        return {"memory": memory, "cache": self.model.initial_cache(memory)}

    def forward(self, inputs: list[Tensor]) -> tuple[Tensor, ...]:
        return tuple(tensors(self.encode(inputs[0])))


class _DecoderGraph(nn.Module):
    """`RecognitionModel.step` with a choice of beams before it.

    `origin` int64 (2, batch, beams) tells which image and which beam of the cache each beam
    continues. Choosing beams inside the graph saves a copy of the cache.
    """

    def __init__(self, model: RecognitionModel, memory: Pytree, cache: Pytree) -> None:
        super().__init__()
        self.model, self._memory, self._cache = model, memory, cache

    def forward(self, inputs: list[Tensor]) -> tuple[Tensor, ...]:
        input_ids, origin, *rest = inputs
        leaves = iter(rest)
        memory = map_tensors(lambda _: next(leaves), self._memory)
        cache = map_tensors(lambda _: next(leaves)[origin[0], origin[1]], self._cache)
        return tuple(_named_outputs(self.model.step(input_ids, memory, cache)).values())


def _named_outputs(output: StepOutput) -> dict[str, Tensor]:
    layers = [
        # Without refinement, raw weights are the weights.
        {"weights": weights, "raw_weights": None if raw is weights else raw, "refinement": term}
        for weights, raw, term in output.attention
    ]
    return named_tensors(
        {"log_probs": output.log_probs, "new_cache": output.cache, "attention": layers}
    )


def _export_encoder(model: RecognitionModel, trials: list[_Trial]) -> onnx.ModelProto:
    outputs = _shapes(*(named_tensors(trial.encoded) for trial in trials))
    return _export(
        _EncoderGraph(model),
        [trials[0].images[:1]],
        {"images": [1, 1, "pixel_height", "pixel_width"]},
        {name: [1, *shape[1:]] for name, shape in outputs.items()},
    )


def _export_decoder(model: RecognitionModel, trials: list[_Trial]) -> onnx.ModelProto:
    trial = trials[0]
    memory = _shapes(*(named_tensors(each.memory, "memory.") for each in trials))
    cache = _shapes(*(named_tensors(each.cache, "cache.") for each in trials))
    inputs: dict[str, _Shape] = {
        "input_ids": ["batch", "beams", "steps" if model.parallel_steps else 1],
        "origin": [2, "batch", "beams"],
        **memory,
        **{name: ["old_batch", "old_beams", *shape[2:]] for name, shape in cache.items()},
    }
    batch, beams = trial.input_ids.shape[:2]
    # Sizes of their own for the axes of the old beams, which are independent of the new ones.
    old = [torch.cat([values, values[:, :1]], dim=1) for values in tensors(trial.cache)]
    old = [torch.cat([values, values[:1]]) for values in old]
    origin = torch.stack(torch.meshgrid(torch.arange(batch), torch.arange(beams), indexing="ij"))
    return _export(
        _DecoderGraph(model, trial.memory, trial.cache),
        [trial.input_ids, origin, *(values.contiguous() for values in tensors(trial.memory)), *old],
        inputs,
        _shapes(*(each.outputs for each in trials)),
    )


def _shapes(first: Mapping[str, Tensor], second: Mapping[str, Tensor]) -> dict[str, _Shape]:
    """Return the shapes of tensors, with names for axes that differ between the trials."""
    names = {pair: name for name, pair in _TRIALS.items()}
    shapes: dict[str, _Shape] = {}
    for name, values in first.items():
        pairs = list(zip(values.shape, second[name].shape, strict=True))
        if any(pair[0] != pair[1] and pair not in names for pair in pairs):
            raise ModelError(f"cannot be exported to ONNX: {name} has an axis of unknown meaning")
        shapes[name] = [names.get(pair, pair[0]) for pair in pairs]
    return shapes


def _dynamic(shape: _Shape) -> dict[int, Any]:
    return {
        axis: _DIMENSIONS.get(size, Dim.DYNAMIC)
        for axis, size in enumerate(shape)
        if isinstance(size, str)
    }


def _export(
    module: nn.Module,
    arguments: list[Tensor],
    inputs: Mapping[str, _Shape],
    outputs: Mapping[str, _Shape],
) -> onnx.ModelProto:
    """Return the graph of a module, with the given names of inputs, outputs and axes."""
    with _quiet():
        program = torch.onnx.export(
            module.eval(),
            (arguments,),
            dynamo=True,
            dynamic_shapes=([_dynamic(shape) for shape in inputs.values()],),
            input_names=list(inputs),
            output_names=list(outputs),
            opset_version=_OPSET,
            optimize=False,
            verbose=False,
        )
    assert program is not None
    _simplify(program.model)
    proto = program.model_proto
    proto.ir_version = _IR_VERSION
    _rename(proto.graph, dict(zip((o.name for o in proto.graph.output), outputs, strict=True)))
    for values, shapes in ((proto.graph.input, inputs), (proto.graph.output, outputs)):
        for value in values:
            kind = value.type.tensor_type.elem_type
            value.CopyFrom(helper.make_tensor_value_info(value.name, kind, shapes[value.name]))
    return proto


def _simplify(model: onnx_ir.Model) -> None:
    """Remove redundant nodes; parameters keep their names and values."""
    optimizer.inline(model)
    for _ in range(2):
        optimizer.fold_constants(model)
        rewriter.rewrite(model, _REWRITE_RULES)
        passes.CommonSubexpressionEliminationPass()(model)
        optimizer.remove_unused_nodes(model)
    for step in (
        passes.LiftConstantsToInitializersPass(lift_all_constants=True, size_limit=0),
        passes.DeduplicateInitializersPass(size_limit=64),
        passes.OutputFixPass(),
        passes.ClearMetadataAndDocStringPass(),
    ):
        step(model)


def _rename(graph: onnx.GraphProto, names: Mapping[str, str]) -> None:
    """Rename values of a graph."""
    for node in graph.node:
        for values in (node.input, node.output):
            values[:] = [names.get(name, name) for name in values]
    for output in graph.output:
        output.name = names[output.name]
    del graph.value_info[:]


def _stored_tensors(weights: Path) -> dict[str, TensorProto]:
    """Return every tensor of a safetensors file as external data of a graph, by its name."""
    with weights.open("rb") as file:
        size = int.from_bytes(file.read(8), "little")
        header = json.loads(file.read(size))
    header.pop("__metadata__", None)
    stored = {}
    for name, entry in header.items():
        if entry["dtype"] in _TYPES:
            start, end = entry["data_offsets"]
            tensor = TensorProto(name=f"{name}.stored", data_location=TensorProto.EXTERNAL)
            tensor.data_type, tensor.dims[:] = _TYPES[entry["dtype"]], entry["shape"]
            places = {"location": weights.name, "offset": 8 + size + start, "length": end - start}
            for key, value in places.items():
                tensor.external_data.add(key=key, value=str(value))
            stored[name] = tensor
    return stored


def _use_stored_weights(graph: onnx.GraphProto, stored: Mapping[str, TensorProto]) -> None:
    """Replace the parameters in a graph by references to a file.

    Parameters in half precision are cast; ONNX Runtime does so once, while it loads the graph.
    """
    casts = []
    for initializer in graph.initializer:
        name, kind = initializer.name, initializer.data_type
        reference = stored.get(name.removeprefix("model."))
        if reference is not None:
            initializer.CopyFrom(reference)
            if reference.data_type == kind:
                initializer.name = name
            else:
                casts.append(helper.make_node("Cast", [reference.name], [name], to=kind))
    nodes = [*casts, *graph.node]
    del graph.node[:]
    graph.node.extend(nodes)


@contextmanager
def _quiet() -> Iterator[None]:
    """Hide messages about the internals of the exporter."""
    logger = logging.getLogger("torch.onnx")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.setLevel(level)
