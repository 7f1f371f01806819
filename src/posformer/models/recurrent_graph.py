"""DWAP, ABM and CAN as ONNX graphs; see `decoder_graph` for the contract of the step.

Steps of a recurrence depend on each other, so this decoder takes one at a time: the last axis of
`tokens` is 1, and who runs it feeds sequences step by step.
"""

from pathlib import Path
from typing import cast

from torch import nn

from posformer.models.can import Can, CountingBranch
from posformer.models.dwap import Dwap
from posformer.models.encoder_graph import cell_positions, dense_net
from posformer.models.graph import Description, Graph, Value
from posformer.models.recurrent import CoverageAttention

__all__ = ["write_decoder", "write_encoder"]


def write_encoder(model: Dwap, path: Path, half: bool = False) -> None:
    """Write `encoder.onnx`.

    Input: `images` float (images, 1, height, width), 1 is ink; sides in multiples of 16, or of
    any length where the model does without masks.
    Outputs: `keys` float (images, width of the attention, cells); `values` float (images,
    cells, width); `hidden` float (images, width), the state before the first symbol; with counts
    `counted` float (images, width).
    """
    graph = Graph(half)
    stack, settings = model.decoder.stack, model.settings
    maps = dense_net(graph, model.encoder.net, "images")
    cells = graph("Transpose", maps, perm=[0, 2, 3, 1])
    flat = graph("Reshape", cells, graph.ints(-1, model.encoder.width))
    mean = graph("ReduceMean", cells, axes=[1, 2], keepdims=0)
    outputs: dict[str, tuple[Value, Description]] = {
        "keys": (
            _keys(graph, model, cells, flat),
            ("float", ("images", settings.attention, "cells")),
        ),
        "values": (
            _by_image(graph, graph.linear(stack.values, flat), settings.width),
            ("float", ("images", "cells", settings.width)),
        ),
        "hidden": (
            graph("Tanh", graph.linear(stack.start, mean)),
            ("float", ("images", settings.width)),
        ),
    }
    if isinstance(model, Can):
        assert stack.counted is not None
        counted = graph.linear(stack.counted, _counts(graph, model, maps))
        outputs["counted"] = counted, ("float", ("images", settings.width))
    graph.save(path, {"images": ("float", ("images", 1, "height", "width"))}, outputs)


def _by_image(graph: Graph, cells: Value, width: int) -> Value:
    """From one list of cells to (images, cells, width)."""
    images = graph("Shape", "images", start=0, end=1)
    return graph("Reshape", cells, graph("Concat", images, graph.ints(-1, width), axis=0))


def _keys(graph: Graph, model: Dwap, cells: Value, flat: Value) -> Value:
    width = model.settings.attention
    keys = _by_image(graph, graph.linear(model.decoder.stack.keys, flat), width)
    if model.settings.positions:
        places = cell_positions(graph, cells, width)
        keys = graph("Add", keys, graph("Reshape", places, graph.ints(1, -1, width)))
    return graph("Transpose", keys, perm=[0, 2, 1])


def _counts(graph: Graph, model: Can, maps: Value) -> Value:
    """The mean count of all branches, (images, words)."""
    branches = cast(list[CountingBranch], model.counting.branches)
    counts = [_branch(graph, branch, maps) for branch in branches]
    return graph("Mean", *counts)


def _branch(graph: Graph, branch: CountingBranch, maps: Value) -> Value:
    shown = graph.batch_norm(branch.norm, graph.convolution(branch.look, maps))
    mean = graph("ReduceMean", shown, axes=[2, 3], keepdims=0)
    hidden = graph("Relu", graph.linear(branch.channels.squeeze, mean))
    weights = graph("Sigmoid", graph.linear(branch.channels.excite, hidden))
    shown = graph("Mul", shown, graph("Unsqueeze", weights, graph.ints(2, 3)))
    shares = graph("Sigmoid", graph.convolution(branch.predict, shown))
    return graph("ReduceSum", shares, graph.ints(2, 3), keepdims=0)


def write_decoder(model: Dwap, path: Path, half: bool = False) -> None:
    """Write `decoder.onnx`.

    Inputs:
        `tokens` int64 (images, rows, 1); `origin` int64 (images · rows), for each row the old
        row it goes on from; `padding` bool (images, height, width) of the feature map; `keys`,
        `values` and `counted` as the encoder gives them; `hidden` float (old rows, width), at the
        start as the encoder gives it, and `coverage` float (old rows, cells), at the start zero.

    Outputs:
        `scores` float (images, rows, 1, words), log-probabilities; `new_hidden` and
        `new_coverage`; `attention.0` float (images, rows, 1, 1, cells), the weights used.
    """
    graph = Graph(half)
    writer = _Writer(graph, model)
    stack, settings = model.decoder.stack, model.settings
    first = writer.cell(stack.read, writer.fed, writer.old("hidden", settings.width))
    coverage = writer.old("coverage", "cells")
    weights = writer.attend(stack.attention, first, coverage)
    context = graph("MatMul", weights, "values")
    context = graph("Reshape", context, graph.ints(-1, settings.width))
    hidden = writer.cell(stack.look, context, first)
    scores = graph("LogSoftmax", writer.logits(hidden, context), axis=-1)
    covered = graph("Add", coverage, graph("Reshape", weights, graph("Shape", coverage)))
    words = len(model.vocabulary)
    outputs: dict[str, tuple[Value, Description]] = {
        "scores": (writer.by_row(scores, words), ("float", ("images", "rows", 1, words))),
        "new_hidden": (hidden, ("float", ("all rows", settings.width))),
        "new_coverage": (covered, ("float", ("all rows", "cells"))),
        "attention.0": (
            graph("Unsqueeze", weights, graph.ints(2, 3)),
            ("float", ("images", "rows", 1, 1, "cells")),
        ),
    }
    graph.save(path, writer.inputs, outputs)


class _Writer:
    """Writes the parts of one step, and remembers what they take in. Rows stand in one list."""

    def __init__(self, graph: Graph, model: Dwap) -> None:
        self.graph, self.model = graph, model
        attention, width = model.settings.attention, model.settings.width
        self.inputs: dict[Value, Description] = {
            "tokens": ("int64", ("images", "rows", 1)),
            "origin": ("int64", ("all rows",)),
            "padding": ("bool", ("images", "height", "width")),
            "keys": ("float", ("images", attention, "cells")),
            "values": ("float", ("images", "cells", width)),
        }
        if model.counts_symbols:
            self.inputs["counted"] = "float", ("images", width)
        tokens = graph("Reshape", "tokens", graph.ints(-1))
        self.fed = graph("Gather", graph.weight(model.decoder.symbols.weight), tokens)

    def old(self, name: str, size: int | str) -> Value:
        """What was kept under a name, of the rows gone on from: (rows, size)."""
        self.inputs[name] = "float", ("old rows", size)
        return self.graph("Gather", name, "origin", axis=0)

    def by_row(self, values: Value, *sizes: int) -> Value:
        """From one list of rows to (images, rows, 1, …)."""
        shape = self.graph("Concat", self.graph("Shape", "tokens"), self.graph.ints(*sizes), axis=0)
        return self.graph("Reshape", values, shape)

    def cell(self, cell: nn.GRUCell, fed: Value, hidden: Value) -> Value:
        """A GRU cell over fed (rows, …) and hidden (rows, width)."""
        graph, width = self.graph, cell.hidden_size
        sides = [
            graph("Gemm", values, graph.weight(weight), graph.weight(bias), transB=1)
            for values, weight, bias in (
                (fed, cell.weight_ih, cell.bias_ih),
                (hidden, cell.weight_hh, cell.bias_hh),
            )
        ]
        new, old = (
            graph.several("Split", 3, side, graph.ints(width, width, width), axis=1)
            for side in sides
        )
        reset, update = (graph("Sigmoid", graph("Add", new[i], old[i])) for i in (0, 1))
        candidate = graph("Tanh", graph("Add", new[2], graph("Mul", reset, old[2])))
        kept = graph("Mul", update, graph("Sub", hidden, candidate))
        return graph("Add", candidate, kept)

    def attend(self, attention: CoverageAttention, hidden: Value, coverage: Value) -> Value:
        """Weights (images, rows, cells) from hidden (rows, width) and coverage (rows, cells)."""
        graph, width = self.graph, self.model.settings.attention
        size = graph("Shape", "padding", start=1, end=3)
        maps = graph("Reshape", coverage, graph("Concat", graph.ints(-1, 1), size, axis=0))
        seen = [graph.convolution(cast(nn.Conv2d, look), maps) for look in attention.cover]
        covered = graph("Sum", *seen) if len(seen) > 1 else seen[0]
        rows = graph("Shape", "tokens", start=0, end=2)
        query, covered = (
            graph("Reshape", part, graph("Concat", rows, graph.ints(width, -1), axis=0))
            for part in (graph.linear(attention.query, hidden), covered)
        )
        keys = graph("Unsqueeze", "keys", graph.ints(1))
        energy = graph("Tanh", graph("Add", graph("Add", covered, keys), query))
        scores = graph("MatMul", graph.weight(attention.score.weight), energy)
        padding = graph("Reshape", "padding", graph.ints(0, 1, 1, -1))
        forbidden, allowed = graph.scalar(float("-inf")), graph.scalar(0.0)
        scores = graph("Add", scores, graph("Where", padding, forbidden, allowed))
        return graph("Squeeze", graph("Softmax", scores, axis=-1), graph.ints(2))

    def logits(self, hidden: Value, context: Value) -> Value:
        """Scores (rows, words) of the symbol to write."""
        graph, stack = self.graph, self.model.decoder.stack
        states = graph("Add", graph.linear(stack.state, hidden), graph.linear(stack.fed, self.fed))
        states = graph("Add", states, context)
        if self.model.counts_symbols:
            width = self.model.settings.width
            counted = graph("Unsqueeze", "counted", graph.ints(1, 2))
            states = graph("Add", self.by_row(states, width), counted)
            states = graph("Reshape", states, graph.ints(-1, width))
        return graph.linear(self.model.decoder.classify, states)
