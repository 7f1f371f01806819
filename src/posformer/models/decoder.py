"""Transformer decoder with attention refinement.

Training, cached decoding and rescoring use the same function: it takes any number of new steps and
the cache of the steps before them. All beams of an image share its keys and values. Between
attentions, states are one matrix (batch · beams · steps, width).
"""

from collections.abc import Iterator
from typing import NamedTuple, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from posformer.models.attention_refinement import AttentionRefinement, Coverage, TreeCoverage
from posformer.models.base import LayerAttention
from posformer.models.encoder import Features
from posformer.models.model_config import DecoderConfig
from posformer.models.positional_encoding import token_positions


class ImageMemory(NamedTuple):
    """Keys and values of the images for every layer."""

    keys: list[Tensor]  # per layer: float (batch, heads, head width, cells), scaled
    values: list[Tensor]  # per layer: float (batch, heads, cells, head width)
    padding: Tensor  # bool (batch, height, width) of the feature map


class LayerCache(NamedTuple):
    """Cache of one layer."""

    keys: Tensor  # float (batch, beams, heads, steps, head width)
    values: Tensor
    coverage: Coverage | TreeCoverage | None  # None in layers without refinement


class DecoderOutput(NamedTuple):
    """Output of the decoder layers."""

    states: Tensor  # float (batch, beams, steps, width)
    attention: list[LayerAttention]
    cache: list[LayerCache]


class StepLayout(NamedTuple):
    """Where steps belong that are not one sequence from left to right; see `models.last`."""

    positions: Tensor  # float (batch, beams, steps, width), positional encoding
    hidden: Tensor  # bool (batch, beams, steps, earlier and new steps): steps that are not attended
    # Added to the scores of the self-attention: float (batch, beams, heads, steps, all steps)
    bias: Tensor | None = None
    # The steps whose attention a step counts as coverage, 1 or 0: float (batch, beams, steps, all
    # steps); None: all earlier steps
    ancestors: Tensor | None = None


class _SelfAttention(nn.Module):
    def __init__(self, config: DecoderConfig) -> None:
        super().__init__()
        self.heads, self.dropout = config.heads, nn.Dropout(config.attention_dropout)
        self.query_key_value = nn.Linear(config.width, 3 * config.width)
        self.out = nn.Linear(config.width, config.width)

    def forward(
        self,
        states: Tensor,
        shape: torch.Size,
        cache: LayerCache | None,
        layout: StepLayout | None = None,
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Return new states and the keys and values of all steps so far.

        Args:
            states: float (batch · beams · steps, width).
            shape: batch, beams, steps.
            cache: of the steps before; None at the start.
            layout: which steps are attended; None: all but those that follow.
        """
        parts = self.query_key_value(states).chunk(3, dim=1)
        query, key, value = (part.view(*shape, self.heads, -1).transpose(2, 3) for part in parts)
        if cache is not None:
            key = torch.cat((cache.keys, key), dim=3)
            value = torch.cat((cache.values, value), dim=3)
        scores = query * query.shape[-1] ** -0.5 @ key.transpose(3, 4)
        if layout is None:
            steps, total = shape[2], key.shape[3]
            positions = torch.arange(total, device=states.device)
            hidden = positions > positions[total - steps :, None]
        else:
            hidden = layout.hidden[:, :, None]
            scores = scores if layout.bias is None else scores + layout.bias
        weights = scores.masked_fill(hidden, float("-inf")).softmax(-1)
        mixed = self.dropout(weights) @ value
        return self.out(mixed.transpose(2, 3).reshape(states.shape)), key, value


class CausalLayer(nn.Module):
    """Post-norm Transformer layer over a sequence alone: self-attention and feed-forward part."""

    def __init__(self, config: DecoderConfig) -> None:
        super().__init__()
        self.self_attention = _SelfAttention(config)
        self.expand = nn.Linear(config.width, config.feedforward)
        self.contract = nn.Linear(config.feedforward, config.width)
        self.self_norm = nn.LayerNorm(config.width)
        self.final_norm = nn.LayerNorm(config.width)
        self.dropout = nn.Dropout(config.dropout)

    def initial_cache(self, like: Tensor, beams: int) -> LayerCache:
        """Return the cache before the first token, for tensors like one with an axis batch."""
        heads, width = self.self_attention.heads, self.expand.in_features
        shape = len(like), beams, heads, 0, width // heads
        # Two tensors: the ONNX exporter cannot merge equal outputs that are used twice.
        return LayerCache(like.new_zeros(shape), like.new_zeros(shape), None)

    def forward(self, states: Tensor, cache: LayerCache | None = None) -> tuple[Tensor, LayerCache]:
        """Return new states (batch, beams, steps, width) and the cache."""
        shape = states.shape[:3]
        flat = states.flatten(0, 2)
        mixed, keys, values = self.self_attention(flat, shape, cache)
        flat = self.self_norm(flat + self.dropout(mixed))
        hidden = self.dropout(F.relu(self.expand(flat), inplace=True))
        flat = self.final_norm(flat + self.dropout(self.contract(hidden)))
        return flat.unflatten(0, shape), LayerCache(keys, values, None)


class _ImageAttention(nn.Module):
    """Cross-attention to the cells of the feature map."""

    def __init__(self, config: DecoderConfig) -> None:
        super().__init__()
        self.heads = config.heads
        self.query = nn.Linear(config.width, config.width)
        self.key_value = nn.Linear(config.width, 2 * config.width)
        self.out = nn.Linear(config.width, config.width)
        self.dropout = nn.Dropout(config.attention_dropout)

    def prepare_memory(self, cells: Tensor) -> tuple[Tensor, Tensor]:
        """Return keys and values of cells (batch, cells, width); see `ImageMemory`."""
        batch, count, width = cells.shape
        parts = self.key_value(cells.flatten(0, 1)).chunk(2, dim=1)
        keys, values = (part.reshape(batch, count, self.heads, -1) for part in parts)
        scale = (width // self.heads) ** -0.5
        return (keys * scale).permute(0, 2, 3, 1), values.transpose(1, 2)

    def scores(self, states: Tensor, shape: torch.Size, keys: Tensor, padding: Tensor) -> Tensor:
        """Return scores (batch, beams, steps, heads, cells), minus infinity on padding."""
        batch, beams, steps = shape
        query = self.query(states).view(batch, beams * steps, self.heads, -1)
        scores = query.transpose(1, 2) @ keys
        scores = scores.masked_fill(padding.flatten(1)[:, None, None], float("-inf"))
        return scores.transpose(1, 2).unflatten(1, (beams, steps))

    def mix(self, weights: Tensor, values: Tensor) -> Tensor:
        """Return new states from weights (batch, beams, steps, heads, cells)."""
        weights = self.dropout(weights).flatten(1, 2).transpose(1, 2)
        mixed = (weights @ values).transpose(1, 2)
        return self.out(mixed.reshape(-1, self.out.in_features))


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
    """Token positions, layer norm, layers, and one refinement for all layers but the first."""

    def __init__(self, config: DecoderConfig) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(config.width)
        self.layers = nn.ModuleList(_Layer(config) for _ in range(config.layers))
        refinement = config.refinement
        self.refinement = AttentionRefinement(config.heads, refinement) if refinement else None

    def _layers(self) -> Iterator[_Layer]:
        return cast(Iterator[_Layer], iter(self.layers))

    def prepare_memory(self, features: Features) -> ImageMemory:
        """Return the keys and values of a batch of images."""
        cells = features.cells.flatten(1, 2)
        pairs = [layer.image_attention.prepare_memory(cells) for layer in self._layers()]
        return ImageMemory([k for k, _ in pairs], [v for _, v in pairs], features.padding)

    def initial_cache(self, memory: ImageMemory, beams: int) -> list[LayerCache]:
        """Return the cache before the first token: no steps, no coverage."""
        values = memory.values[0]
        batch, heads, cells, head_width = values.shape
        no_steps = values.new_zeros(batch, beams, heads, 0, head_width)
        coverage = None
        if self.refinement is not None:
            nothing = values.new_zeros(batch, beams, 2 * heads, cells)
            coverage = Coverage(nothing, nothing)
        return [
            LayerCache(no_steps, no_steps, coverage if number > 0 else None)
            for number in range(len(self.layers))
        ]

    def forward(
        self,
        embedded: Tensor,
        coverage_mask: Tensor,
        memory: ImageMemory,
        cache: list[LayerCache] | None = None,
        layout: StepLayout | None = None,
    ) -> DecoderOutput:
        """Return the states of new steps.

        Args:
            embedded: float (batch, beams, steps, width), embedded input tokens.
            coverage_mask: float (batch, beams, steps), 0 where the input is a structure token.
            memory: of the images.
            cache: of earlier steps; None at the start.
            layout: of the new steps; None: one sequence.
        """
        shape, width = embedded.shape[:3], embedded.shape[3]
        start = cache[0].keys.shape[3] if cache else 0
        positions = token_positions(start, shape[2], width, embedded)
        if layout is not None:
            positions = layout.positions
        states = self.norm(embedded + positions).flatten(0, 2)
        attention: list[LayerAttention] = []
        new_cache: list[LayerCache] = []
        for number, layer in enumerate(self._layers()):
            layer_cache = cache[number] if cache else None
            mixed, keys, values = layer.self_attention(states, shape, layer_cache, layout)
            states = layer.self_norm(states + layer.dropout(mixed))
            cross = layer.image_attention
            scores = cross.scores(states, shape, memory.keys[number], memory.padding)
            # In mixed precision, attention is summed to coverage: 8 bits would not do.
            scores = scores.float()
            weights = raw = scores.softmax(-1)
            coverage, term = None, None
            if self.refinement is not None and number > 0:
                maps = torch.cat((attention[-1][0], raw), dim=3)
                coverage = layer_cache.coverage if layer_cache else None
                ancestors = layout.ancestors if layout is not None else None
                term, coverage = self.refinement(
                    maps, coverage_mask, coverage, memory.padding, ancestors
                )
                weights = (scores - term).softmax(-1)
            attention.append((weights, raw, term))
            new_cache.append(LayerCache(keys, values, coverage))
            mixed = cross.mix(weights, memory.values[number])
            states = layer.feed_forward(layer.image_norm(states + layer.dropout(mixed)))
        return DecoderOutput(states.unflatten(0, shape), attention, new_cache)


class Decoder(nn.Module):
    """Token embedding, layers, and the linear head over the vocabulary."""

    def __init__(self, config: DecoderConfig, vocab_size: int) -> None:
        super().__init__()
        self.embed = nn.Embedding(vocab_size, config.width)
        self.embed_norm = nn.LayerNorm(config.width)
        self.stack = DecoderStack(config)
        self.head = nn.Linear(config.width, vocab_size)

    def forward(
        self,
        input_ids: Tensor,
        coverage_mask: Tensor,
        memory: ImageMemory,
        cache: list[LayerCache] | None = None,
        layout: StepLayout | None = None,
    ) -> tuple[Tensor, DecoderOutput]:
        """Return logits float (batch, beams, steps, vocab_size) and the output of the layers."""
        embedded = self.embed_norm(self.embed(input_ids))
        output = self.stack(embedded, coverage_mask, memory, cache, layout)
        logits = self.head(output.states.flatten(0, 2))
        return logits.unflatten(0, input_ids.shape), output
