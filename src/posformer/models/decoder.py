"""The Transformer decoder: reads the image memory and writes tokens, one step or many at a time.

Training, decoding with caches and rescoring are the same function: it takes any number of new steps
and what was kept from the steps before them. Rows of an image (its two directions in training, its
hypotheses in search) share the image's keys and values.
"""

from collections.abc import Iterator
from typing import NamedTuple, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from posformer.models.attention import Coverage, Refinement
from posformer.models.encoder import Features
from posformer.models.model_config import DecoderConfig
from posformer.models.positional_encoding import symbol_positions

__all__ = ["Decoder", "DecoderStack", "ImageMemory", "LayerState", "StackOutput"]


class ImageMemory(NamedTuple):
    """Keys and values of the images for every layer, projected once."""

    keys: list[Tensor]  # a layer: float (images, heads, cells, width of a head)
    values: list[Tensor]
    padding: Tensor  # bool (images, height, width) of the feature map


class LayerState(NamedTuple):
    """What a layer keeps of the steps behind it."""

    keys: Tensor  # float (images, rows, heads, steps, width of a head)
    values: Tensor
    coverage: Coverage | None  # of the refinement; None in layers without it


class StackOutput(NamedTuple):
    """What the layers give for a number of steps."""

    states: Tensor  # float (images, rows, steps, width)
    attention: list[Tensor]  # a layer: weights used, float (images, rows, steps, heads, cells)
    raw_attention: list[Tensor]  # the same before refinement
    kept: list[LayerState]


class _SelfAttention(nn.Module):
    def __init__(self, config: DecoderConfig) -> None:
        super().__init__()
        self.heads, self.dropout = config.heads, config.attention_dropout
        self.query_key_value = nn.Linear(config.width, 3 * config.width)
        self.out = nn.Linear(config.width, config.width)

    def forward(self, states: Tensor, past: LayerState | None) -> tuple[Tensor, Tensor, Tensor]:
        images, rows, steps, _ = states.shape
        split = self.query_key_value(states).view(images, rows, steps, 3, self.heads, -1)
        query, key, value = split.permute(3, 0, 1, 4, 2, 5)
        if past is not None:
            key = torch.cat((past.keys, key), dim=3)
            value = torch.cat((past.values, value), dim=3)
        old = key.shape[3] - steps
        visible = torch.ones(steps, old + steps, dtype=torch.bool, device=states.device).tril(old)
        mixed = F.scaled_dot_product_attention(
            query, key, value, visible, self.dropout if self.training else 0.0
        )
        return self.out(mixed.transpose(2, 3).reshape(states.shape)), key, value


class _ImageAttention(nn.Module):
    """Attention to the image, refined by what was looked at before."""

    def __init__(self, config: DecoderConfig) -> None:
        super().__init__()
        self.heads = config.heads
        self.query = nn.Linear(config.width, config.width)
        self.key_value = nn.Linear(config.width, 2 * config.width)
        self.out = nn.Linear(config.width, config.width)
        self.dropout = nn.Dropout(config.attention_dropout)

    def remember(self, cells: Tensor) -> tuple[Tensor, Tensor]:
        """Keys and values (images, heads, cells, …) of cells (images, cells, width)."""
        split = self.key_value(cells).view(*cells.shape[:2], 2, self.heads, -1)
        keys, values = split.permute(2, 0, 3, 1, 4)
        return keys, values

    def scores(self, states: Tensor, keys: Tensor, padding: Tensor) -> Tensor:
        """Raw attention E: (images, rows, steps, heads, cells), minus infinity on padding."""
        images, rows, steps, width = states.shape
        query = self.query(states).view(images, rows * steps, self.heads, -1).transpose(1, 2)
        scores = query @ keys.transpose(2, 3) * (width // self.heads) ** -0.5
        scores = scores.masked_fill(padding.flatten(1)[:, None, None], float("-inf"))
        return scores.view(images, self.heads, rows, steps, -1).permute(0, 2, 3, 1, 4)

    def mix(self, weights: Tensor, values: Tensor) -> Tensor:
        """What the weights (images, rows, steps, heads, cells) pick from the values."""
        images, rows, steps, heads, cells = weights.shape
        weights = self.dropout(weights).permute(0, 3, 1, 2, 4)
        mixed = weights.reshape(images, heads, rows * steps, cells) @ values
        return self.out(mixed.transpose(1, 2).reshape(images, rows, steps, -1))


class _Layer(nn.Module):
    def __init__(self, config: DecoderConfig) -> None:
        super().__init__()
        self.self_attention = _SelfAttention(config)
        self.image_attention = _ImageAttention(config)
        self.expand = nn.Linear(config.width, config.feedforward)
        self.contract = nn.Linear(config.feedforward, config.width)
        self.self_norm = nn.LayerNorm(config.width)
        self.image_norm = nn.LayerNorm(config.width)
        self.final_norm = nn.LayerNorm(config.width)
        self.dropout = nn.Dropout(config.dropout)

    def feed_forward(self, states: Tensor) -> Tensor:
        hidden = self.dropout(F.relu(self.expand(states), inplace=True))
        return self.final_norm(states + self.dropout(self.contract(hidden)))


class DecoderStack(nn.Module):
    """Positions, layer norm, layers, and one refinement for all layers but the first."""

    def __init__(self, config: DecoderConfig) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(config.width)
        self.layers = nn.ModuleList(_Layer(config) for _ in range(config.layers))
        refinement = config.refinement
        self.refinement = Refinement(config.heads, refinement) if refinement else None

    def _layers(self) -> Iterator[_Layer]:
        return cast(Iterator[_Layer], iter(self.layers))

    def remember(self, features: Features) -> ImageMemory:
        """The image memory of a batch of images."""
        cells = features.cells.flatten(1, 2)
        pairs = [layer.image_attention.remember(cells) for layer in self._layers()]
        return ImageMemory([k for k, _ in pairs], [v for _, v in pairs], features.padding)

    def forward(
        self,
        embedded: Tensor,
        keep: Tensor,
        memory: ImageMemory,
        past: list[LayerState] | None = None,
    ) -> StackOutput:
        """States of new steps.

        Args:
            embedded: float (images, rows, steps, width), what is fed in.
            keep: float (images, rows, steps), 0 where the token fed in is a structure token.
            memory: of the images.
            past: what was kept of earlier steps; None at the start.
        """
        start = past[0].keys.shape[3] if past else 0
        steps, width = embedded.shape[2:]
        states = self.norm(embedded + symbol_positions(start, steps, width, embedded))
        attention: list[Tensor] = []
        raw_attention: list[Tensor] = []
        kept: list[LayerState] = []
        for number, layer in enumerate(self._layers()):
            behind = past[number] if past else None
            mixed, keys, values = layer.self_attention(states, behind)
            states = layer.self_norm(states + layer.dropout(mixed))
            look = layer.image_attention
            raw = look.scores(states, memory.keys[number], memory.padding)
            weights = raw.softmax(-1)
            raw_attention.append(weights)
            coverage = None
            if self.refinement is not None and number > 0:
                maps = torch.cat((attention[-1], weights), dim=3)
                total, coverage = self.refinement.accumulate(
                    maps, keep, behind.coverage if behind else None
                )
                weights = (raw - self.refinement(total, memory.padding)).softmax(-1)
            attention.append(weights)
            kept.append(LayerState(keys, values, coverage))
            mixed = look.mix(weights, memory.values[number])
            states = layer.feed_forward(layer.image_norm(states + layer.dropout(mixed)))
        return StackOutput(states, attention, raw_attention, kept)


class Decoder(nn.Module):
    """Symbol embedding, layers, and the linear head over the vocabulary."""

    def __init__(self, config: DecoderConfig, words: int) -> None:
        super().__init__()
        self.embed = nn.Embedding(words, config.width)
        self.embed_norm = nn.LayerNorm(config.width)
        self.stack = DecoderStack(config)
        self.head = nn.Linear(config.width, words)

    def forward(
        self,
        tokens: Tensor,
        keep: Tensor,
        memory: ImageMemory,
        past: list[LayerState] | None = None,
    ) -> tuple[Tensor, StackOutput]:
        """Logits (images, rows, steps, words) of the tokens that follow `tokens` (… steps)."""
        output = self.stack(self.embed_norm(self.embed(tokens)), keep, memory, past)
        return self.head(output.states), output
