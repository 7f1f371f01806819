"""The recurrent decoder: two GRU cells around an attention that knows what it has covered.

DWAP, ABM and CAN share it. Rows of an image (its hypotheses in search) share what is projected
from the image. Steps depend on each other, so they are taken one by one, in training too.
"""

from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from posformer.models.encoder import DenseNet, Features
from posformer.models.model_config import EncoderConfig, RecurrentDecoderConfig
from posformer.models.positional_encoding import cell_positions

__all__ = [
    "CoverageAttention",
    "MapEncoder",
    "RecurrentDecoder",
    "RecurrentMemory",
    "RecurrentOutput",
    "RecurrentStack",
    "RecurrentState",
    "mean_inside",
]


class RecurrentMemory(NamedTuple):
    """What the decoder needs of the images, projected once."""

    keys: Tensor  # float (images, width of the attention, cells)
    values: Tensor  # float (images, cells, width)
    start: Tensor  # float (images, width): the state before the first symbol
    counted: Tensor | None  # float (images, width): what was counted, for every step
    padding: Tensor  # bool (images, height, width) of the feature map


class RecurrentState(NamedTuple):
    """What is kept of the steps behind."""

    hidden: Tensor  # float (images, rows, width)
    coverage: Tensor  # float (images, rows, cells): the attention so far, summed


class RecurrentOutput(NamedTuple):
    """What the decoder gives for a number of steps."""

    states: Tensor  # float (images, rows, steps, width)
    attention: Tensor  # float (images, rows, steps, 1, cells)
    kept: RecurrentState


class MapEncoder(nn.Module):
    """DenseNet alone: its maps are the features."""

    def __init__(self, config: EncoderConfig) -> None:
        super().__init__()
        self.net = DenseNet(config)
        self.width = self.net.channels

    def forward(self, images: Tensor, padding: Tensor) -> Features:
        """Features of a batch; see `DenseNet.forward` for the arguments."""
        maps, padding = self.net(images, padding)
        return Features(maps.permute(0, 2, 3, 1), padding)


def mean_inside(cells: Tensor, padding: Tensor) -> Tensor:
    """The mean (images, width) over the cells (images, rows, columns, width) of an image."""
    inside = (~padding)[..., None].to(cells.dtype)
    return (cells * inside).sum((1, 2)) / inside.sum((1, 2))


class CoverageAttention(nn.Module):
    """Additive attention over cells that compares states, cells and what was looked at before.

    With several kernels, coverage is seen near and far: ABM's attention aggregation.
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
        """Weights (images, rows, cells) of hidden (images, rows, width)."""
        images, rows, cells = coverage.shape
        seen = coverage.reshape(images * rows, 1, *memory.padding.shape[1:])
        energy = memory.keys[:, None] + self.query(hidden)[..., None]
        for look in self.cover:
            energy = energy + self._covered(look, seen).view(images, rows, -1, cells)
        energy = torch.tanh(energy)
        scores = (self.score.weight @ energy)[:, :, 0]
        return scores.masked_fill(memory.padding.flatten(1)[:, None], float("-inf")).softmax(-1)

    @staticmethod
    def _covered(look: nn.Module, seen: Tensor) -> Tensor:
        """The convolution of maps (n, 1, height, width) as a product, (n, width, cells).

        With one channel going in, a CPU trains faster this way.
        """
        assert isinstance(look, nn.Conv2d)
        patches = F.unfold(seen, look.kernel_size, padding=look.padding)  # type: ignore[arg-type]
        return look.weight.flatten(1) @ patches


class RecurrentStack(nn.Module):
    """The recurrence over anything that is fed in: symbols, or identifiers of the position forest.

    Args:
        config: settings.
        channels: of the features.
        counts: length of the counting vector; None for a decoder that is told no counts.
    """

    def __init__(
        self, config: RecurrentDecoderConfig, channels: int, counts: int | None = None
    ) -> None:
        super().__init__()
        self.positions = config.positions
        self.keys = nn.Linear(channels, config.attention)
        self.values = nn.Linear(channels, config.width)
        self.start = nn.Linear(channels, config.width)
        self.counted = nn.Linear(counts, config.width) if counts is not None else None
        self.read = nn.GRUCell(config.embedding, config.width)
        self.attention = CoverageAttention(config)
        self.look = nn.GRUCell(config.width, config.width)
        self.state = nn.Linear(config.width, config.width)
        self.fed = nn.Linear(config.embedding, config.width)

    def remember(self, features: Features, counts: Tensor | None = None) -> RecurrentMemory:
        """The memory of images, with the counts (images, words) of their symbols."""
        padding = features.padding
        cells = features.cells.flatten(1, 2)
        keys = self.keys(cells)
        if self.positions:
            keys = keys + cell_positions(padding, keys.shape[-1]).flatten(1, 2).to(keys.dtype)
        start = torch.tanh(self.start(mean_inside(features.cells, padding)))
        counted = None
        if self.counted is not None:
            assert counts is not None, "this decoder is told what was counted"
            counted = self.counted(counts)
        keys = keys.transpose(1, 2).contiguous()
        return RecurrentMemory(keys, self.values(cells), start, counted, padding)

    def forward(
        self, embedded: Tensor, memory: RecurrentMemory, past: RecurrentState | None = None
    ) -> RecurrentOutput:
        """States of new steps.

        Args:
            embedded: float (images, rows, steps, embedding), what is fed in.
            memory: of the images.
            past: what was kept of earlier steps; None at the start.
        """
        images, rows, steps, _ = embedded.shape
        hidden, coverage = past or self._begin(memory, rows)
        every: list[Tensor] = []
        contexts: list[Tensor] = []
        attention: list[Tensor] = []
        for step in range(steps):
            first = self.read(embedded[:, :, step].flatten(0, 1), hidden.flatten(0, 1))
            weights = self.attention(first.view(images, rows, -1), coverage, memory)
            context = weights @ memory.values
            hidden = self.look(context.flatten(0, 1), first).view(images, rows, -1)
            coverage = coverage + weights
            every.append(hidden)
            contexts.append(context)
            attention.append(weights)
        states = self.state(torch.stack(every, 2)) + self.fed(embedded) + torch.stack(contexts, 2)
        if memory.counted is not None:
            states = states + memory.counted[:, None, None]
        looked = torch.stack(attention, 2)[..., None, :]
        return RecurrentOutput(states, looked, RecurrentState(hidden, coverage))

    def _begin(self, memory: RecurrentMemory, rows: int) -> RecurrentState:
        hidden = memory.start[:, None].expand(-1, rows, -1)
        return RecurrentState(
            hidden, memory.values.new_zeros(*hidden.shape[:2], memory.keys.shape[2])
        )


class RecurrentDecoder(nn.Module):
    """Symbol embedding, recurrence, and the linear layer over the vocabulary."""

    def __init__(
        self,
        config: RecurrentDecoderConfig,
        channels: int,
        words: int,
        counts: int | None = None,
    ) -> None:
        super().__init__()
        self.symbols = nn.Embedding(words, config.embedding)
        self.stack = RecurrentStack(config, channels, counts)
        self.classify = nn.Linear(config.width, words)
        self.dropout = config.dropout

    def forward(
        self, tokens: Tensor, memory: RecurrentMemory, past: RecurrentState | None = None
    ) -> tuple[Tensor, RecurrentOutput]:
        """Logits (images, rows, steps, words) of the tokens that follow `tokens` (… steps)."""
        output = self.stack(self.symbols(tokens), memory, past)
        states = F.dropout(output.states, self.dropout, self.training)
        return self.classify(states), output
