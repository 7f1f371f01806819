"""Writes ONNX graphs node by node."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from torch import Tensor, nn

__all__ = ["Description", "Graph", "Value"]

OPSET = 17
IR_VERSION = 8  # goes with the opset; later versions would shut out older runtimes

_TYPES = {"float": TensorProto.FLOAT, "int64": TensorProto.INT64, "bool": TensorProto.BOOL}

Value = str  # the name of what a node gives
Description = tuple[str, Sequence[str | int]]  # type and shape; dynamic sizes are named


class Graph:
    """An ONNX graph in the making.

    Args:
        half: Store weights in half precision; a cast, which runtimes compute once while loading,
            brings them back. Nothing is lost where they are half-precision numbers already.
    """

    def __init__(self, half: bool = False) -> None:
        self._half = half
        self._nodes: list[onnx.NodeProto] = []
        self._weights: list[onnx.TensorProto] = []
        self._known: dict[object, Value] = {}
        self._count = 0

    def __call__(self, operator: str, *inputs: Value, **attributes: Any) -> Value:
        """Add a node with one output, and give its name."""
        return self.several(operator, 1, *inputs, **attributes)[0]

    def several(
        self, operator: str, outputs: int, *inputs: Value, **attributes: Any
    ) -> list[Value]:
        """Add a node with a number of outputs, and give their names."""
        names = [self._name(operator) for _ in range(outputs)]
        self._nodes.append(helper.make_node(operator, inputs, names, **attributes))
        return names

    def weight(self, values: Tensor) -> Value:
        """A parameter; asked for twice it is stored once."""
        key = (values.data_ptr(), values.shape)
        if key not in self._known:
            array = values.detach().cpu().numpy()
            if self._half:
                small = self._store(array.astype(np.float16))
                self._known[key] = self("Cast", small, to=TensorProto.FLOAT)
            else:
                self._known[key] = self._store(array.astype(np.float32))
        return self._known[key]

    def numbers(self, values: np.ndarray) -> Value:
        """A table of numbers that is no parameter."""
        return self._store(values)

    def ints(self, *values: int) -> Value:
        """A list of integers, such as a shape or axes."""
        if values not in self._known:
            self._known[values] = self._store(np.array(values, np.int64))
        return self._known[values]

    def scalar(self, value: float | int) -> Value:
        """A number: float32 or int64 by its Python type."""
        key = ("scalar", type(value), value)
        if key not in self._known:
            kind = np.int64 if isinstance(value, int) else np.float32
            self._known[key] = self._store(np.array(value, kind))
        return self._known[key]

    def floats(self, values: Value) -> Value:
        """The same numbers as float32."""
        return self("Cast", values, to=TensorProto.FLOAT)

    def linear(self, layer: nn.Linear, states: Value) -> Value:
        """A linear layer over states (rows, width)."""
        return self("Gemm", states, self.weight(layer.weight), self.weight(layer.bias), transB=1)

    def layer_norm(self, norm: nn.LayerNorm, states: Value) -> Value:
        """Normalize over the last axis."""
        weight, bias = self.weight(norm.weight), self.weight(norm.bias)
        return self("LayerNormalization", states, weight, bias, axis=-1, epsilon=norm.eps)

    def convolution(self, layer: nn.Conv2d, maps: Value) -> Value:
        """A convolution over maps (images, channels, height, width)."""
        above, left = (int(side) for side in layer.padding)
        inputs = [maps, self.weight(layer.weight)]
        if layer.bias is not None:
            inputs.append(self.weight(layer.bias))
        return self("Conv", *inputs, pads=[above, left, above, left], strides=list(layer.stride))

    def batch_norm(self, norm: nn.modules.batchnorm._BatchNorm, maps: Value) -> Value:
        """Batch norm by its running statistics; runtimes fold it into a convolution before it."""
        assert norm.running_mean is not None and norm.running_var is not None
        tables = (norm.weight, norm.bias, norm.running_mean, norm.running_var)
        weights = [self.weight(table) for table in tables]
        return self("BatchNormalization", maps, *weights, epsilon=norm.eps)

    def save(
        self,
        path: Path,
        inputs: Mapping[Value, Description],
        outputs: Mapping[str, tuple[Value, Description]],
    ) -> None:
        """Check the graph and write it.

        Args:
            path: of the file.
            inputs: by name.
            outputs: by the name outside: the value and what it is.
        """
        self._rename({value: name for name, (value, _) in outputs.items()})
        graph = helper.make_graph(
            self._nodes,
            path.stem,
            [_described(name, what) for name, what in inputs.items()],
            [_described(name, what) for name, (_, what) in outputs.items()],
            self._weights,
        )
        model = helper.make_model(
            graph,
            opset_imports=[helper.make_opsetid("", OPSET)],
            ir_version=IR_VERSION,
            producer_name="posformer",
        )
        onnx.checker.check_model(model, full_check=True)
        onnx.save(model, path)

    def _rename(self, names: Mapping[Value, str]) -> None:
        # Identity nodes would do, but runtimes copy through those whose input is used elsewhere.
        for node in self._nodes:
            for ends in (node.input, node.output):
                for place, name in enumerate(ends):
                    ends[place] = names.get(name, name)

    def _store(self, array: np.ndarray) -> Value:
        name = self._name("table")
        self._weights.append(numpy_helper.from_array(np.ascontiguousarray(array), name))
        return name

    def _name(self, stem: str) -> str:
        self._count += 1
        return f"{stem.lower()}_{self._count}"


def _described(name: str, what: Description) -> onnx.ValueInfoProto:
    kind, shape = what
    return helper.make_tensor_value_info(name, _TYPES[kind], list(shape))
