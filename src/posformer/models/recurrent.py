"""Recurrent decoder: GRU cells around an attention with coverage, in one layer or several.

DWAP and all models derived from it share this decoder. All beams of an image share the projections
of the image. Every step depends on the one before, so training runs step by step too.
"""

from collections.abc import Mapping
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from posformer.errors import ConfigError
from posformer.models.encoder import Features
from posformer.models.model_config import CountingDecoderConfig, RecurrentDecoderConfig
from posformer.models.positional_encoding import cell_positions
from posformer.models.pytree import Pytree


class LayerMemory(NamedTuple):
    """Projections of the images that every step of a layer uses."""

    keys: Tensor  # float (batch, attention width, cells)
    values: Tensor  # float (batch, heads, cells, head width)
    start: Tensor  # float (batch, width): hidden state before the first token


class RecurrentMemory(NamedTuple):
    """Projections of the images for all layers."""

    layers: list[LayerMemory]
    counted: Tensor | None  # float (batch, width): projected symbol counts
    padding: Tensor  # bool (batch, height, width) of the feature map


class RecurrentCache(NamedTuple):
    """State of one layer after a step."""

    hidden: Tensor  # float (batch, beams, width)
    coverage: Tensor  # float (batch, beams, heads, cells): sum of the attention weights so far


class RecurrentOutput(NamedTuple):
    """Output of the recurrence."""

    states: Tensor  # float (batch, beams, steps, width)
    attention: list[Tensor]  # per layer: float (batch, beams, steps, heads, cells)
    cache: list[RecurrentCache]  # per layer


class Decoded(NamedTuple):
    """Output of a decoder."""

    logits: Tensor  # float (batch, beams, steps, vocab_size)
    states: Tensor  # float (batch, beams, steps, width)
    attention: list[Tensor]  # per layer: float (batch, beams, steps, heads, cells)
    cache: Pytree
    # Logits of parts of the model by name; training adds a cross-entropy for each.
    further: Mapping[str, Tensor] = {}


def mean_inside(cells: Tensor, padding: Tensor) -> Tensor:
    """Return the mean (batch, channels) over the cells (batch, height, width, channels)."""
    inside = (~padding)[..., None].to(cells.dtype)
    return (cells * inside).sum((1, 2)) / inside.sum((1, 2))


class CoverageAttention(nn.Module):
    """Additive attention over the hidden state, the cells and the coverage.

    Several kernels see the coverage at several scales: the attention aggregation of ABM. Several
    heads divide the attention width among them; each has its own coverage.
    """

    def __init__(self, config: RecurrentDecoderConfig) -> None:
        super().__init__()
        width, self.heads = config.attention, config.heads
        self.query = nn.Linear(config.width, width)
        self.cover = nn.ModuleList(
            nn.Conv2d(self.heads, width, kernel, padding=kernel // 2, groups=self.heads, bias=False)
            for kernel in config.coverage
        )
        self.score = nn.Linear(width, 1, bias=False)

    def forward(self, hidden: Tensor, coverage: Tensor, keys: Tensor, padding: Tensor) -> Tensor:
        """Return weights (batch, beams, heads, cells).

        Args:
            hidden: float (batch, beams, width), hidden states.
            coverage: float (batch, beams, heads, cells).
            keys: see `LayerMemory`.
            padding: bool (batch, height, width) of the feature map.
        """
        batch, beams, heads, cells = coverage.shape
        maps = coverage.reshape(batch * beams, heads, *padding.shape[1:])
        energy = keys[:, None] + self.query(hidden)[..., None]
        for convolution in self.cover:
            energy = energy + self._cover(convolution, maps).view(batch, beams, -1, cells)
        energy = torch.tanh(energy).view(batch, beams, heads, -1, cells)
        scores = (self.score.weight.view(heads, 1, -1) @ energy)[..., 0, :]
        outside = padding.flatten(1)[:, None, None]
        return scores.masked_fill(outside, float("-inf")).softmax(-1)

    def _cover(self, convolution: nn.Module, maps: Tensor) -> Tensor:
        """Return the convolution of maps (n, heads, height, width) as (n, width, cells)."""
        if not self.training:
            features: Tensor = convolution(maps)
            return features.flatten(2)
        # With a single input channel per group, a CPU trains faster with a matrix product.
        assert isinstance(convolution, nn.Conv2d)
        kernel, padding = convolution.kernel_size, convolution.padding
        patches = F.unfold(maps, kernel, padding=padding)  # type: ignore[arg-type]
        patches = patches.unflatten(1, (self.heads, -1))
        weight = convolution.weight.flatten(1).unflatten(0, (self.heads, -1))
        return (weight @ patches).flatten(1, 2)


class RecurrentLayer(nn.Module):
    """A GRU cell that reads the input, the attention, and a GRU cell that reads what it found.

    Args:
        config: settings.
        inputs: width of the inputs.
        channels: channels of the features.
    """

    def __init__(self, config: RecurrentDecoderConfig, inputs: int, channels: int) -> None:
        super().__init__()
        self.positions, self.heads = config.positions, config.heads
        self.dropped = config.drop_attention
        self.keys = nn.Linear(channels, config.attention)
        self.values = nn.Linear(channels, config.width)
        self.start = nn.Linear(channels, config.width)
        self.read = nn.GRUCell(inputs, config.width)
        self.attention = CoverageAttention(config)
        self.look = nn.GRUCell(config.width, config.width)

    def prepare_layer(self, features: Features) -> LayerMemory:
        """Return the memory of the images."""
        padding = features.padding
        cells = features.cells.flatten(1, 2)
        keys = self.keys(cells)
        if self.positions:
            keys = keys + cell_positions(padding, keys.shape[-1]).flatten(1, 2).to(keys.dtype)
        start = torch.tanh(self.start(mean_inside(features.cells, padding)))
        values = self.values(cells).unflatten(-1, (self.heads, -1)).transpose(1, 2)
        return LayerMemory(keys.transpose(1, 2).contiguous(), values.contiguous(), start)

    def initial_layer_cache(self, memory: LayerMemory, beams: int) -> RecurrentCache:
        """Return the cache before the first token."""
        hidden = memory.start[:, None].expand(-1, beams, -1)
        batch, heads, cells, _ = memory.values.shape
        return RecurrentCache(hidden, memory.values.new_zeros(batch, beams, heads, cells))

    def advance(
        self, inputs: Tensor, memory: LayerMemory, padding: Tensor, cache: RecurrentCache
    ) -> tuple[Tensor, Tensor, RecurrentCache]:
        """Return context (batch, beams, width), attention weights and cache after one step.

        Args:
            inputs: float (batch, beams, inputs).
            memory: of the images.
            padding: bool (batch, height, width) of the feature map.
            cache: of the step before.
        """
        batch, beams = inputs.shape[:2]
        first = self.read(inputs.flatten(0, 1), cache.hidden.flatten(0, 1))
        weights = self.attention(first.view(batch, beams, -1), cache.coverage, memory.keys, padding)
        used = drop_attention(weights, self.dropped) if self.training and self.dropped else weights
        context = (used.transpose(1, 2) @ memory.values).transpose(1, 2).flatten(2)
        hidden = self.look(context.flatten(0, 1), first).view(batch, beams, -1)
        return context, weights, RecurrentCache(hidden, cache.coverage + weights)


def drop_attention(weights: Tensor, probability: float) -> Tensor:
    """Set the most attended cells to zero at random.

    Args:
        weights: float (…, cells), attention weights.
        probability: of each distribution. In those that are chosen, all cells with at least half
            of the highest weight are dropped, so that the rest of a symbol has to be used.
    """
    peak = weights.amax(-1, keepdim=True)
    chosen = torch.rand(peak.shape, device=weights.device) < probability
    return weights.masked_fill(chosen & (weights >= peak / 2), 0.0)


class RecurrentStack(RecurrentLayer):
    """The recurrence over embedded inputs: tokens, or identifiers of the position forest.

    It is the first layer itself, and has further ones on top; each reads the hidden state of the
    one below.

    Args:
        config: settings.
        channels: channels of the features.
        vocab_size: length of the counting vector, for a decoder that counts.
    """

    def __init__(self, config: RecurrentDecoderConfig, channels: int, vocab_size: int) -> None:
        if config.layers < 1 or config.width % config.heads or config.attention % config.heads:
            raise ConfigError("decoder: layers < 1, or heads does not divide width and attention")
        super().__init__(config, config.embedding, channels)
        self.upper = nn.ModuleList(
            RecurrentLayer(config, config.width, channels) for _ in range(config.layers - 1)
        )
        counts = isinstance(config, CountingDecoderConfig)
        self.counted = nn.Linear(vocab_size, config.width) if counts else None
        self.state = nn.Linear(config.width, config.width)
        self.fed = nn.Linear(config.embedding, config.width)  # named so in stored weights

    def _layers(self) -> list[RecurrentLayer]:
        return [self, *self.upper]

    def prepare_memory(self, features: Features, counts: Tensor | None = None) -> RecurrentMemory:
        """Return the memory of the images, with symbol counts (branches, batch, vocab_size)."""
        counted = None
        if self.counted is not None:
            assert counts is not None, "this decoder needs symbol counts"
            counted = self.counted(counts.mean(0))
        layers = [layer.prepare_layer(features) for layer in self._layers()]
        return RecurrentMemory(layers, counted, features.padding)

    def initial_cache(self, memory: RecurrentMemory, beams: int) -> list[RecurrentCache]:
        """Return the cache before the first token."""
        pairs = zip(self._layers(), memory.layers, strict=True)
        return [layer.initial_layer_cache(part, beams) for layer, part in pairs]

    def forward(
        self, embedded: Tensor, memory: RecurrentMemory, cache: list[RecurrentCache] | None = None
    ) -> RecurrentOutput:
        """Return the states of new steps.

        Args:
            embedded: float (batch, beams, steps, embedding), embedded inputs.
            memory: of the images.
            cache: of earlier steps; None at the start.
        """
        cache = list(cache or self.initial_cache(memory, embedded.shape[1]))
        hiddens: list[Tensor] = []
        contexts: list[Tensor] = []
        attention: list[list[Tensor]] = [[] for _ in cache]
        for step in range(embedded.shape[2]):
            inputs = embedded[:, :, step]
            for number, layer in enumerate(self._layers()):
                context, weights, cache[number] = layer.advance(
                    inputs, memory.layers[number], memory.padding, cache[number]
                )
                inputs = cache[number].hidden
                attention[number].append(weights)
            hiddens.append(inputs)
            contexts.append(context)
        states = self.state(torch.stack(hiddens, 2)) + self.fed(embedded) + torch.stack(contexts, 2)
        if memory.counted is not None:
            states = states + memory.counted[:, None, None]
        return RecurrentOutput(states, [torch.stack(steps, 2) for steps in attention], cache)


class RecurrentDecoder(nn.Module):
    """Token embedding, recurrence, and the linear layer over the vocabulary."""

    def __init__(self, config: RecurrentDecoderConfig, channels: int, vocab_size: int) -> None:
        super().__init__()
        self.symbols = nn.Embedding(vocab_size, config.embedding)
        self.stack = RecurrentStack(config, channels, vocab_size)
        self.classify = nn.Linear(config.width, vocab_size)
        self.dropout = config.dropout

    def prepare_memory(self, features: Features, counts: Tensor | None = None) -> Pytree:
        """Return what `forward` needs to know about the images."""
        return self.stack.prepare_memory(features, counts)

    def initial_cache(self, memory: Pytree, beams: int) -> Pytree:
        """Return the cache before the first token."""
        return self.stack.initial_cache(memory, beams)

    def forward(self, input_ids: Tensor, memory: Pytree, cache: Pytree = None) -> Decoded:
        """Decode new steps.

        Args:
            input_ids: int64 (batch, beams, steps).
            memory: from `prepare_memory`.
            cache: of earlier steps; None at the start.
        """
        states, attention, cache = self.stack(self.symbols(input_ids), memory, cache)
        logits = self.classify(F.dropout(states, self.dropout, self.training))
        return Decoded(logits, states, attention, cache)
