"""Recurrent decoder: two GRU cells around an attention with coverage.

DWAP, ABM and CAN share it. All beams of an image share the projections of the image. Every step
depends on the one before, so training runs step by step too.
"""

from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from posformer.models.encoder import Features
from posformer.models.model_config import CountingDecoderConfig, RecurrentDecoderConfig
from posformer.models.positional_encoding import cell_positions


class RecurrentMemory(NamedTuple):
    """Projections of the images that every step uses."""

    keys: Tensor  # float (batch, attention width, cells)
    values: Tensor  # float (batch, cells, width)
    start: Tensor  # float (batch, width): hidden state before the first token
    counted: Tensor | None  # float (batch, width): projected symbol counts
    padding: Tensor  # bool (batch, height, width) of the feature map


class RecurrentCache(NamedTuple):
    """State after a step."""

    hidden: Tensor  # float (batch, beams, width)
    coverage: Tensor  # float (batch, beams, cells): sum of the attention weights so far


class RecurrentOutput(NamedTuple):
    """Output of the recurrence."""

    states: Tensor  # float (batch, beams, steps, width)
    attention: Tensor  # float (batch, beams, steps, 1, cells)
    cache: RecurrentCache


def mean_inside(cells: Tensor, padding: Tensor) -> Tensor:
    """Return the mean (batch, channels) over the cells (batch, height, width, channels)."""
    inside = (~padding)[..., None].to(cells.dtype)
    return (cells * inside).sum((1, 2)) / inside.sum((1, 2))


class CoverageAttention(nn.Module):
    """Additive attention over the hidden state, the cells and the coverage.

    Several kernels see the coverage at several scales: the attention aggregation of ABM.
    """

    def __init__(self, config: RecurrentDecoderConfig) -> None:
        super().__init__()
        width = config.attention
        self.query = nn.Linear(config.width, width)
        self.cover = nn.ModuleList(
            nn.Conv2d(1, width, kernel, padding=kernel // 2, bias=False)
            for kernel in config.coverage
        )
        self.score = nn.Linear(width, 1, bias=False)

    def forward(self, hidden: Tensor, coverage: Tensor, memory: RecurrentMemory) -> Tensor:
        """Return weights (batch, beams, cells) for hidden states (batch, beams, width)."""
        batch, beams, cells = coverage.shape
        maps = coverage.reshape(batch * beams, 1, *memory.padding.shape[1:])
        energy = memory.keys[:, None] + self.query(hidden)[..., None]
        for convolution in self.cover:
            energy = energy + self._cover(convolution, maps).view(batch, beams, -1, cells)
        energy = torch.tanh(energy)
        scores = (self.score.weight @ energy)[:, :, 0]
        return scores.masked_fill(memory.padding.flatten(1)[:, None], float("-inf")).softmax(-1)

    def _cover(self, convolution: nn.Module, maps: Tensor) -> Tensor:
        """Return the convolution of maps (n, 1, height, width) as (n, attention width, cells)."""
        if not self.training:
            features: Tensor = convolution(maps)
            return features.flatten(2)
        # With a single input channel, a CPU trains faster with a matrix product.
        assert isinstance(convolution, nn.Conv2d)
        kernel, padding = convolution.kernel_size, convolution.padding
        patches = F.unfold(maps, kernel, padding=padding)  # type: ignore[arg-type]
        return convolution.weight.flatten(1) @ patches


class RecurrentStack(nn.Module):
    """The recurrence over embedded inputs: tokens, or identifiers of the position forest.

    Args:
        config: settings.
        channels: channels of the features.
        vocab_size: length of the counting vector, for a decoder that counts.
    """

    def __init__(self, config: RecurrentDecoderConfig, channels: int, vocab_size: int) -> None:
        super().__init__()
        self.positions = config.positions
        self.keys = nn.Linear(channels, config.attention)
        self.values = nn.Linear(channels, config.width)
        self.start = nn.Linear(channels, config.width)
        counts = isinstance(config, CountingDecoderConfig)
        self.counted = nn.Linear(vocab_size, config.width) if counts else None
        self.read = nn.GRUCell(config.embedding, config.width)
        self.attention = CoverageAttention(config)
        self.look = nn.GRUCell(config.width, config.width)
        self.state = nn.Linear(config.width, config.width)
        self.fed = nn.Linear(config.embedding, config.width)  # named so in stored weights

    def prepare_memory(self, features: Features, counts: Tensor | None = None) -> RecurrentMemory:
        """Return the memory of the images, with symbol counts (branches, batch, vocab_size)."""
        padding = features.padding
        cells = features.cells.flatten(1, 2)
        keys = self.keys(cells)
        if self.positions:
            keys = keys + cell_positions(padding, keys.shape[-1]).flatten(1, 2).to(keys.dtype)
        start = torch.tanh(self.start(mean_inside(features.cells, padding)))
        counted = None
        if self.counted is not None:
            assert counts is not None, "this decoder needs symbol counts"
            counted = self.counted(counts.mean(0))
        keys = keys.transpose(1, 2).contiguous()
        return RecurrentMemory(keys, self.values(cells), start, counted, padding)

    def initial_cache(self, memory: RecurrentMemory, beams: int) -> RecurrentCache:
        """Return the cache before the first token."""
        hidden = memory.start[:, None].expand(-1, beams, -1)
        batch, cells = memory.keys.shape[0], memory.keys.shape[2]
        return RecurrentCache(hidden, memory.values.new_zeros(batch, beams, cells))

    def forward(
        self, embedded: Tensor, memory: RecurrentMemory, cache: RecurrentCache | None = None
    ) -> RecurrentOutput:
        """Return the states of new steps.

        Args:
            embedded: float (batch, beams, steps, embedding), embedded inputs.
            memory: of the images.
            cache: of earlier steps; None at the start.
        """
        batch, beams, steps, _ = embedded.shape
        hidden, coverage = cache or self.initial_cache(memory, beams)
        hiddens: list[Tensor] = []
        contexts: list[Tensor] = []
        attention: list[Tensor] = []
        for step in range(steps):
            first = self.read(embedded[:, :, step].flatten(0, 1), hidden.flatten(0, 1))
            weights = self.attention(first.view(batch, beams, -1), coverage, memory)
            context = weights @ memory.values
            hidden = self.look(context.flatten(0, 1), first).view(batch, beams, -1)
            coverage = coverage + weights
            hiddens.append(hidden)
            contexts.append(context)
            attention.append(weights)
        states = self.state(torch.stack(hiddens, 2)) + self.fed(embedded) + torch.stack(contexts, 2)
        if memory.counted is not None:
            states = states + memory.counted[:, None, None]
        maps = torch.stack(attention, 2)[..., None, :]
        return RecurrentOutput(states, maps, RecurrentCache(hidden, coverage))


class RecurrentDecoder(nn.Module):
    """Token embedding, recurrence, and the linear layer over the vocabulary."""

    def __init__(self, config: RecurrentDecoderConfig, channels: int, vocab_size: int) -> None:
        super().__init__()
        self.symbols = nn.Embedding(vocab_size, config.embedding)
        self.stack = RecurrentStack(config, channels, vocab_size)
        self.classify = nn.Linear(config.width, vocab_size)
        self.dropout = config.dropout

    def forward(
        self, input_ids: Tensor, memory: RecurrentMemory, cache: RecurrentCache | None = None
    ) -> tuple[Tensor, RecurrentOutput]:
        """Return logits float (batch, beams, steps, vocab_size) and the recurrent output."""
        output = self.stack(self.symbols(input_ids), memory, cache)
        states = F.dropout(output.states, self.dropout, self.training)
        return self.classify(states), output
