"""The decoder as an ONNX graph: any number of new steps, going on from what was kept.

States are (rows · steps, width) between attentions, so that every linear layer is one product.
Rows of all images stand in one list, image by image; `origin` names for each row the one it
goes on from, so that choosing among hypotheses costs no pass of its own over what was kept.
"""

from pathlib import Path
from typing import cast

import numpy as np
from torch import nn

from posformer.models.attention import Refinement
from posformer.models.decoder import _ImageAttention, _Layer, _SelfAttention
from posformer.models.encoder_graph import sine_table
from posformer.models.graph import Description, Graph, Value
from posformer.models.posformer import PosFormer

__all__ = ["write_decoder"]


def write_decoder(model: PosFormer, path: Path, half: bool = False) -> None:
    """Write `decoder.onnx`.

    Inputs:
        `tokens` int64 (images, rows, steps); `origin` int64 (images · rows), for each row the
        old row it goes on from; `padding` bool (images, height, width) of the feature map;
        `keys.N`, `values.N` of the images as the encoder gives them; for every layer
        `past_keys.N`, `past_values.N` float (old rows, heads, past, width of a head), and for
        layers with refinement `total.N`, `pending.N` float (old rows, 2 · heads, cells).
        At the start there is one old row an image, with no past, and coverage zero.

    Outputs:
        `scores` float (images, rows, steps, words), log-probabilities; `new_…` of all that is
        kept; `attention.N` float (images, rows, steps, heads, cells), the weights used. For
        layers with refinement, of the same shape: `raw_attention.N`, the weights before it, and
        `correction.N`, what it takes off the scores.
    """
    graph = Graph(half)
    writer = _Writer(graph, model)
    states = writer.embedded()
    for number, layer in enumerate(model.decoder.stack.layers):
        states = writer.layer(cast(_Layer, layer), states, number)
    scores = graph("LogSoftmax", graph.linear(model.decoder.head, states), axis=-1)
    words, heads = len(model.vocabulary), model.settings.heads
    rows = ("images", "rows", "steps")
    outputs: dict[str, tuple[Value, Description]] = {
        "scores": (writer.by_row(scores, words), ("float", (*rows, words))),
        **writer.kept,
    }
    for number, weights in enumerate(writer.attention):
        writer.looks[f"attention.{number}"] = weights
    described = ("float", (*rows, heads, "cells"))
    for name, value in writer.looks.items():
        outputs[name] = writer.by_row(value, heads, -1), described
    graph.save(path, writer.inputs, outputs)


class _Writer:
    """Writes the layers, and remembers what they share, take in and give out."""

    def __init__(self, graph: Graph, model: PosFormer) -> None:
        self.graph, self.model = graph, model
        self.heads = model.settings.heads
        self.head = model.settings.width // self.heads
        self.inputs: dict[Value, Description] = {
            "tokens": ("int64", ("images", "rows", "steps")),
            "origin": ("int64", ("all rows",)),
            "padding": ("bool", ("images", "height", "width")),
        }
        self.kept: dict[str, tuple[Value, Description]] = {}
        self.attention: list[Value] = []  # a layer: (images, rows · steps, heads, cells)
        self.looks: dict[str, Value] = {}  # given out for people to see, of the same shape

        self.images = graph("Shape", "tokens", start=0, end=1)
        self.steps = graph("Shape", "tokens", start=2, end=3)
        self.map_size = graph("Shape", "padding", start=1, end=3)
        # Which steps of their sequences are new, (steps,), and whom they may not see.
        past = graph("Shape", "past_keys.0", start=2, end=3)
        end = graph("Add", past, self.steps)
        nothing, one = graph.scalar(0), graph.scalar(1)
        self.places = graph("Range", self._number(past), self._number(end), one)
        everything = graph("Range", nothing, self._number(end), one)
        asking = graph("Unsqueeze", self.places, graph.ints(1))
        self.future = self._forbidden(graph("Greater", everything, asking))
        padding = graph("Reshape", "padding", graph.ints(0, 1, 1, -1))
        self.outside = self._forbidden(padding)  # (images, 1, 1, cells)
        self.keep = self._keep()

    def _number(self, values: Value) -> Value:
        """A number out of a list of one."""
        return self.graph("Squeeze", values, self.graph.ints(0))

    def _forbidden(self, where: Value) -> Value:
        """Minus infinity where true, else 0."""
        return self.graph("Where", where, self.graph.scalar(float("-inf")), self.graph.scalar(0.0))

    def _keep(self) -> Value:
        """1 where attention counts as coverage, (rows, steps, 1, 1)."""
        entity = self.graph.numbers(self.model.entity.numpy())
        shape = self._shape(-1, self.steps, 1, 1)
        return self.graph("Reshape", self.graph("Gather", entity, "tokens"), shape)

    def _shape(self, *parts: int | Value) -> Value:
        """A shape of known sizes and of sizes that come out of the graph."""
        values = [self.graph.ints(part) if isinstance(part, int) else part for part in parts]
        return self.graph("Concat", *values, axis=0)

    def by_row(self, values: Value, *sizes: int) -> Value:
        """From one list of rows and steps to (images, rows, steps, …)."""
        shape = self.graph("Concat", self.graph("Shape", "tokens"), self.graph.ints(*sizes), axis=0)
        return self.graph("Reshape", values, shape)

    def embedded(self) -> Value:
        """What is fed to the first layer, (rows · steps, width)."""
        graph, decoder = self.graph, self.model.decoder
        symbols = graph("Gather", graph.weight(decoder.embed.weight), "tokens")
        symbols = graph.layer_norm(decoder.embed_norm, symbols)
        width = self.model.settings.width
        frequencies, phases = (graph.numbers(table) for table in sine_table(width))
        places = graph("Unsqueeze", graph.floats(self.places), graph.ints(1))
        positions = graph("Sin", graph("Add", graph("Mul", places, frequencies), phases))
        states = graph.layer_norm(decoder.stack.norm, graph("Add", symbols, positions))
        return graph("Reshape", states, graph.ints(-1, width))

    def layer(self, layer: _Layer, states: Value, number: int) -> Value:
        """One layer over states (rows · steps, width)."""
        graph = self.graph
        mixed = self._attend_symbols(layer.self_attention, states, number)
        states = self._added(layer.self_norm, states, mixed)
        mixed = self._attend_image(layer.image_attention, states, number)
        states = self._added(layer.image_norm, states, mixed)
        hidden = graph("Relu", graph.linear(layer.expand, states))
        return self._added(layer.final_norm, states, graph.linear(layer.contract, hidden))

    def _added(self, norm: nn.LayerNorm, states: Value, new: Value) -> Value:
        return self.graph.layer_norm(norm, self.graph("Add", states, new))

    def _attend_symbols(self, attention: _SelfAttention, states: Value, number: int) -> Value:
        graph, width = self.graph, self.heads * self.head
        joint = graph.linear(attention.query_key_value, states)
        split = graph.several("Split", 3, joint, graph.ints(width, width, width), axis=1)
        shape = self._shape(-1, self.steps, self.heads, self.head)
        query, key, value = (
            graph("Transpose", graph("Reshape", part, shape), perm=[0, 2, 1, 3]) for part in split
        )
        keys = self._grown(f"keys.{number}", key)
        values = self._grown(f"values.{number}", value)
        query = graph("Mul", query, graph.scalar(self.head**-0.5))
        scores = graph("MatMul", query, graph("Transpose", keys, perm=[0, 1, 3, 2]))
        weights = graph("Softmax", graph("Add", scores, self.future), axis=-1)
        return graph.linear(attention.out, self._joined(graph("MatMul", weights, values)))

    def _joined(self, mixed: Value) -> Value:
        """From (…, heads, some, width of a head) to (rows · steps, width)."""
        mixed = self.graph("Transpose", mixed, perm=[0, 2, 1, 3])
        return self.graph("Reshape", mixed, self.graph.ints(-1, self.heads * self.head))

    def _grown(self, name: str, new: Value) -> Value:
        """What was kept of the rows gone on from, with the new steps behind it."""
        self.inputs[f"past_{name}"] = "float", ("old rows", self.heads, "past", self.head)
        past = self.graph("Gather", f"past_{name}", "origin", axis=0)
        grown = self.graph("Concat", past, new, axis=2)
        self.kept[f"new_{name}"] = grown, ("float", ("all rows", self.heads, "grown", self.head))
        return grown

    def _attend_image(self, attention: _ImageAttention, states: Value, number: int) -> Value:
        graph = self.graph
        self.inputs[f"keys.{number}"] = "float", ("images", self.heads, self.head, "cells")
        self.inputs[f"values.{number}"] = "float", ("images", self.heads, "cells", self.head)
        shape = self._shape(self.images, -1, self.heads, self.head)
        query = graph("Reshape", graph.linear(attention.query, states), shape)
        query = graph("Transpose", query, perm=[0, 2, 1, 3])
        raw = graph("Add", graph("MatMul", query, f"keys.{number}"), self.outside)
        raw = graph("Transpose", raw, perm=[0, 2, 1, 3])
        weights = graph("Softmax", raw, axis=-1)
        refinement = self.model.decoder.stack.refinement
        if refinement is not None and number > 0:
            correction = self._refine(refinement, weights, number)
            correction = graph("Reshape", correction, graph("Shape", raw))
            self.looks[f"raw_attention.{number}"] = weights
            self.looks[f"correction.{number}"] = correction
            weights = graph("Softmax", graph("Sub", raw, correction), axis=-1)
        self.attention.append(weights)
        by_head = graph("Transpose", weights, perm=[0, 2, 1, 3])
        mixed = graph("MatMul", by_head, f"values.{number}")
        return graph.linear(attention.out, self._joined(mixed))

    def _refine(self, refinement: Refinement, weights: Value, number: int) -> Value:
        """What to take off the raw attention, (rows · steps, heads, height, width).

        Padding needs no care here: raw attention is minus infinity there, whatever is taken off.
        """
        graph = self.graph
        maps = graph("Concat", self.attention[-1], weights, axis=2)
        maps = graph("Reshape", maps, self._shape(-1, self.steps, 2 * self.heads, self._cells()))
        coverage = self._accumulate(refinement, maps, number)
        coverage = graph("Reshape", coverage, self._shape(-1, 2 * self.heads, self.map_size))
        seen = graph("Relu", graph.convolution(refinement.look, coverage))
        return graph.batch_norm(refinement.norm, graph.convolution(refinement.project, seen))

    def _cells(self) -> Value:
        return self.graph("ReduceProd", self.map_size, axes=[0], keepdims=1)

    def _accumulate(self, refinement: Refinement, maps: Value, number: int) -> Value:
        """Coverage before each step, shaped like maps (rows, steps, 2 · heads, cells)."""
        graph = self.graph
        described = "float", ("old rows", 2 * self.heads, "cells")
        self.inputs[f"total.{number}"] = self.inputs[f"pending.{number}"] = described
        total, pending = (
            graph("Unsqueeze", graph("Gather", f"{name}.{number}", "origin", axis=0), graph.ints(1))
            for name in ("total", "pending")
        )
        if refinement.masked_by == "fed":
            maps = graph("Mul", maps, self.keep)
        before = graph("Concat", pending, self._between(maps, 0, -1), axis=1)
        if refinement.masked_by == "decoded":
            before = graph("Mul", before, self.keep)
        coverage = graph("Add", graph("CumSum", before, graph.scalar(1)), total)
        for name, value in (("total", coverage), ("pending", maps)):
            last = graph("Squeeze", self._between(value, -1, np.iinfo(np.int64).max), graph.ints(1))
            described = "float", ("all rows", 2 * self.heads, "cells")
            self.kept[f"new_{name}.{number}"] = last, described
        return coverage

    def _between(self, values: Value, start: int, end: int) -> Value:
        """Some steps of values (rows, steps, …)."""
        ints = self.graph.ints
        return self.graph("Slice", values, ints(start), ints(int(end)), ints(1))
