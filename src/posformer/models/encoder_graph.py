"""The encoder as an ONNX graph.

It reads images of one size, so it needs no masks: a group of images of different sizes is
encoded one by one, which wastes nothing on padding and gives each the answer it gets alone.
"""

import math
from pathlib import Path
from typing import cast

import numpy as np

from posformer.models.decoder import _ImageAttention, _Layer
from posformer.models.encoder import DenseNet, _Bottleneck, _Transition
from posformer.models.graph import Description, Graph, Value
from posformer.models.posformer import PosFormer

__all__ = ["cell_positions", "dense_net", "sine_table", "write_encoder"]

_TEMPERATURE = 10000.0


def write_encoder(model: PosFormer, path: Path, half: bool = False) -> None:
    """Write `encoder.onnx`.

    Input: `images` float (images, 1, height, width), 1 is ink; sides in multiples of 16, or of
    any length where the model does without masks.
    Outputs for every layer of the decoder: `keys.N` float (images, heads, width of a head,
    cells), scaled and laid out so that a query needs no more than a product, and `values.N`
    float (images, heads, cells, width of a head).
    """
    graph = Graph(half)
    cells = _cells(graph, model)
    outputs: dict[str, tuple[Value, Description]] = {}
    for number, layer in enumerate(model.decoder.stack.layers):
        attention = cast(_Layer, layer).image_attention
        outputs |= _keys_and_values(graph, attention, cells, number)
    graph.save(path, {"images": ("float", ("images", 1, "height", "width"))}, outputs)


def _cells(graph: Graph, model: PosFormer) -> Value:
    """Features of all cells of all images, (images · cells, width)."""
    encoder, width = model.encoder, model.settings.width
    maps = graph.convolution(encoder.project, dense_net(graph, encoder.net, "images"))
    cells = graph("Transpose", maps, perm=[0, 2, 3, 1])
    cells = graph("Add", cells, cell_positions(graph, cells, width))
    return graph("Reshape", graph.layer_norm(encoder.norm, cells), graph.ints(-1, width))


def dense_net(graph: Graph, net: DenseNet, images: Value) -> Value:
    """Maps (images, channels, rows, columns) of images (images, 1, height, width)."""
    maps = graph("Relu", graph.batch_norm(net.stem_norm, graph.convolution(net.stem, images)))
    halving = {"kernel_shape": [2, 2], "strides": [2, 2], "ceil_mode": int(not net.mask_padding)}
    maps = graph("MaxPool", maps, **halving)
    for number, block in enumerate(net.blocks):
        for layer in cast(list[_Bottleneck], block):
            new = graph.convolution(layer.squeeze, maps)
            new = graph("Relu", graph.batch_norm(layer.squeeze_norm, new))
            new = graph.convolution(layer.look, new)
            new = graph("Relu", graph.batch_norm(layer.look_norm, new))
            maps = graph("Concat", maps, new, axis=1)
        if number < len(net.transitions):
            transition = cast(_Transition, net.transitions[number])
            maps = graph.convolution(transition.squeeze, maps)
            maps = graph("Relu", graph.batch_norm(transition.norm, maps))
            maps = graph("AveragePool", maps, **halving)
    return graph.batch_norm(net.final_norm, maps)


def cell_positions(graph: Graph, cells: Value, width: int) -> Value:
    """Positions (rows, columns, width) of cells (images, rows, columns, width)."""
    frequencies, phases = sine_table(width // 2)
    nothing = np.zeros_like(frequencies)
    shape = graph("Shape", cells)
    row, column = (_places(graph, graph("Gather", shape, graph.scalar(axis))) for axis in (1, 2))
    rows = _sines(
        graph, row, np.concatenate([nothing, frequencies]), np.concatenate([nothing, phases])
    )
    columns = _sines(
        graph, column, np.concatenate([frequencies, nothing]), np.concatenate([phases, nothing])
    )
    return graph("Add", graph("Unsqueeze", rows, graph.ints(1)), columns)


def _sines(graph: Graph, places: Value, frequencies: np.ndarray, phases: np.ndarray) -> Value:
    angles = graph("Mul", places, graph.numbers(frequencies))
    return graph("Sin", graph("Add", angles, graph.numbers(phases)))


def _places(graph: Graph, count: Value) -> Value:
    """1 … count over count, in full turns, (count, 1)."""
    one = graph.scalar(1)
    places = graph("Range", one, graph("Add", count, one), one)
    whole = graph("Add", graph.floats(count), graph.scalar(1e-6))
    places = graph("Div", graph.floats(places), whole)
    places = graph("Mul", places, graph.scalar(2 * math.pi))
    return graph("Unsqueeze", places, graph.ints(1))


def sine_table(width: int) -> tuple[np.ndarray, np.ndarray]:
    """Frequencies and phases (width,) whose sines are sine and cosine side by side."""
    steps = np.arange(0, width, 2, dtype=np.float32)
    frequencies = np.exp(steps * np.float32(-math.log(_TEMPERATURE) / width))
    phases = np.tile(np.array([0, math.pi / 2], np.float32), len(steps))
    return np.repeat(frequencies, 2), phases


def _keys_and_values(
    graph: Graph, attention: _ImageAttention, cells: Value, number: int
) -> dict[str, tuple[Value, Description]]:
    heads, width = attention.heads, attention.query.in_features
    head = width // heads
    images = graph("Shape", "images", start=0, end=1)
    shape = graph("Concat", images, graph.ints(-1, heads, head), axis=0)
    projected = graph.linear(attention.key_value, cells)
    keys, values = graph.several("Split", 2, projected, graph.ints(width, width), axis=1)
    keys = graph("Reshape", graph("Mul", keys, graph.scalar(head**-0.5)), shape)
    values = graph("Reshape", values, shape)
    return {
        f"keys.{number}": (
            graph("Transpose", keys, perm=[0, 2, 3, 1]),
            ("float", ("images", heads, head, "cells")),
        ),
        f"values.{number}": (
            graph("Transpose", values, perm=[0, 2, 1, 3]),
            ("float", ("images", heads, "cells", head)),
        ),
    }
