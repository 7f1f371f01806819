"""SAN: a GRU decoder over the symbol layout tree, guided by a grammar (Yuan et al. 2022).

A row is decoded symbol by symbol. At `struct`, seven sigmoids tell which branches open; each is
put on a stack with its relation and continues from the hidden state and the coverage of that step.
In training only, a second decoder predicts the parent of every symbol from the symbol and its
relation, from the last step to the first (loss `parent`), and has to look where the parent was
found (loss `attention_agreement`, a Kullback-Leibler divergence).

Where the publication leaves a choice, or its program differs from it:

- `struct` and its relations are one decision, so that the search compares complete alternatives:
  the probability of a set of relations is the product of the sigmoids, over all sets that are not
  empty. The program of the authors takes the best symbol first and cuts the sigmoids at 0.5. In
  training, the cross-entropy of this decision is that of the symbol plus that of the relations.
- Embedded symbol and relation are added, not concatenated, as input of the second decoder.
- The stack is kept as the states of all steps and a mark for each branch that is still open. So a
  step is a fixed computation that can be batched over beams and exported to ONNX.
"""

from collections.abc import Mapping
from functools import partial
from typing import ClassVar, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from posformer.latex import Vocabulary
from posformer.latex.layout_tree import RELATIONS, RIGHT
from posformer.models.base import RecognitionModel, StepOutput, SummedLoss, TrainingOutput
from posformer.models.encoder import Features, MapEncoder
from posformer.models.model_config import ModelConfig, RecurrentDecoderConfig, SanDecoderConfig
from posformer.models.pytree import Pytree, map_tensors, tensors
from posformer.models.recurrent import RecurrentMemory, RecurrentStack
from posformer.models.san_targets import SanTargets
from posformer.models.tree_parts import (
    NEVER,
    StructHead,
    SymbolEmbedding,
    check_tree_settings,
    relation_bits,
)


class SanCache(NamedTuple):
    """The states of all steps so far, and the branches that are still open."""

    states: (
        Pytree  # like the cache of the recurrence, with an axis of steps: (batch, beams, past, …)
    )
    # Branches of the state before each step, 1 while open: float (batch, beams, past, relations)
    branches: Tensor


class Route(NamedTuple):
    """Where a step continues."""

    inputs: Tensor  # int64 (batch, beams): what is read; relations follow the symbols
    origin: Tensor  # int64 (batch, beams): state to continue; 0 is the start, i the one of step i-1
    branches: Tensor  # float (batch, beams, 1 + past, relations)
    has_open: Tensor  # bool (batch, beams): whether branches are left for later


class DecodedTree(NamedTuple):
    """Output of the decoder over some steps."""

    log_probs: Tensor  # float (batch, beams, steps, ids)
    attention: Tensor  # float (batch, beams, steps, 1, cells)
    inputs: Tensor  # int64 (batch, beams, steps)
    origins: Tensor  # int64 (batch, beams, steps)
    cache: SanCache


class SanDecoder(nn.Module):
    """Embedding, recurrence over the tree, and the decisions of SAN."""

    id_bits: Tensor  # float (ids, relations): the branches that a decoded id opens
    closes: Tensor  # bool (ids): whether the row goes on elsewhere after a decoded id

    def __init__(self, config: RecurrentDecoderConfig, channels: int, targets: SanTargets) -> None:
        super().__init__()
        self.targets, self.dropout = targets, config.dropout
        vocab_size = len(targets.vocabulary)
        self.embed = SymbolEmbedding(vocab_size, 1 + len(RELATIONS), config.embedding)
        self.stack = RecurrentStack(config, channels, vocab_size)
        self.head = StructHead(vocab_size, len(RELATIONS), config.width)
        none = torch.zeros(targets.first_set, len(RELATIONS))
        id_bits = torch.cat((none, relation_bits(len(RELATIONS))))
        self.register_buffer("id_bits", id_bits, persistent=False)
        closes = torch.arange(targets.size) >= targets.end
        self.register_buffer("closes", closes, persistent=False)

    def initial_cache(self, memory: RecurrentMemory, beams: int) -> SanCache:
        """Return the cache before the first step."""
        start = self.stack.initial_cache(memory, beams)
        states = map_tensors(lambda values: values[:, :, None][:, :, :0], start)
        branches = memory.padding.new_zeros(len(memory.padding), beams, 0, len(RELATIONS))
        return SanCache(states, branches.to(tensors(start)[0].dtype))

    def forward(
        self, input_ids: Tensor, memory: RecurrentMemory, cache: SanCache | None = None
    ) -> DecodedTree:
        """Return the decisions after new steps; see `DecodedTree`."""
        beams, steps = input_ids.shape[1:]
        known, branches = cache or self.initial_cache(memory, beams)
        start = map_tensors(lambda v: v[:, :, None], self.stack.initial_cache(memory, beams))
        read, left = [], []
        for step in range(steps):
            route = self._route(input_ids[:, :, step], branches)
            branches, origin = route.branches, route.origin
            before = map_tensors(partial(_pick, index=origin), _join(start, known))
            embedded = self.embed(route.inputs)[:, :, None]
            output = self.stack(embedded, memory, before)
            known = _join(known, map_tensors(lambda values: values[:, :, None], output.cache))
            read.append((output.states, output.attention[-1]))
            left.append((route.inputs, origin, route.has_open))
        states, attention = (torch.cat(part, 2) for part in zip(*read, strict=True))
        inputs, origins, has_open = (torch.stack(part, 2) for part in zip(*left, strict=True))
        log_probs = self._decide(states, has_open)
        return DecodedTree(log_probs, attention, inputs, origins, SanCache(known, branches))

    def _route(self, ids: Tensor, branches: Tensor) -> Route:
        """Return where the steps that read `ids` (batch, beams) continue."""
        branches = torch.cat((branches, self.id_bits[ids][:, :, None]), 2)
        numbers = torch.arange(1, branches.shape[2] + 1, device=ids.device)
        is_open = branches.amax(-1)
        innermost = (is_open * numbers).amax(-1).long() - 1  # -1 without an open branch
        jumps = self.closes[ids] & (innermost >= 0)
        origin = torch.where(jumps, innermost, torch.full_like(innermost, branches.shape[2] - 1))
        # The first open relation of that state; its mark is removed.
        order = torch.arange(len(RELATIONS), 0, -1, device=ids.device)
        relation = (_pick(branches, origin) * order).argmax(-1)
        taken = F.one_hot(relation, len(RELATIONS)).to(branches.dtype) * jumps[..., None]
        here = (numbers - 1 == origin[..., None]).to(branches.dtype)
        branches = branches - here[..., None] * taken[:, :, None]
        symbols = self.targets.blank + 1
        inputs = torch.where(jumps, symbols + relation, ids.clamp(max=symbols - 1))
        return Route(inputs, origin, branches, branches.amax((-2, -1)) > 0)

    def _decide(self, states: Tensor, has_open: Tensor) -> Tensor:
        """Return the log-probabilities of all ids for states (batch, beams, steps, width)."""
        symbols, sets = self.head(F.dropout(states, self.dropout, self.training))
        eos = self.targets.vocabulary.eos
        end = symbols[..., eos : eos + 1]
        is_open = has_open[..., None]
        parts = (
            symbols[..., :eos],
            end.masked_fill(is_open, NEVER),  # the end of the expression
            symbols[..., eos + 1 :],
            end.masked_fill(~is_open, NEVER),  # the end of a row
            sets,
        )
        return torch.cat(parts, -1)


class ChildToParent(nn.Module):
    """Predicts the parent of each symbol from the symbol and its relation; training only."""

    def __init__(self, config: RecurrentDecoderConfig, channels: int, symbols: int) -> None:
        super().__init__()
        self.symbols = nn.Embedding(symbols, config.embedding)
        self.relations = nn.Embedding(len(RELATIONS), config.embedding)
        self.stack = RecurrentStack(config, channels, symbols)
        self.classify = nn.Linear(config.width, symbols)

    def forward(
        self, symbols: Tensor, relations: Tensor, lengths: Tensor, features: Features
    ) -> tuple[Tensor, Tensor]:
        """Return logits (batch, 1, steps, symbols) and attention (batch, 1, steps, cells).

        Args:
            symbols: int64 (batch, 1, steps).
            relations: int64 (batch, 1, steps), of the symbols to their parents.
            lengths: int64 (batch, 1), number of steps; they are read from the last to the first.
            features: of the images.
        """
        steps = torch.arange(symbols.shape[-1], device=symbols.device)
        backward = torch.where(steps < lengths, lengths - 1 - steps, steps)[:, None]
        embedded = self.symbols(symbols) + self.relations(relations)
        output = self.stack(_reorder(embedded, backward), self.stack.prepare_memory(features))
        logits = _reorder(self.classify(output.states), backward)
        return logits, _reorder(output.attention[-1][..., 0, :], backward)


class San(RecognitionModel):
    """SAN, with the additional losses `parent` and `attention_agreement`."""

    training_only: ClassVar[tuple[str, ...]] = (*RecognitionModel.training_only, "child_to_parent")

    encoder: MapEncoder

    def __init__(self, config: ModelConfig, vocabulary: Vocabulary) -> None:
        super().__init__(config, vocabulary)
        settings = config.decoder_as(SanDecoderConfig)
        check_tree_settings(config)
        self.targets = SanTargets(vocabulary)
        self.encoder = MapEncoder(config.encoder)
        width = self.encoder.width
        self.decoder = SanDecoder(settings, width, self.targets)
        symbols = self.targets.blank + 1
        self.child_to_parent: ChildToParent | None = ChildToParent(settings, width, symbols)
        self.symbol_map = nn.Linear(width, len(vocabulary)) if config.symbol_map else None

    @property
    def vocabulary_axes(self) -> Mapping[str, int]:
        """Names of parameters with one entry per token, and the axis of the tokens."""
        classify = "decoder.head.classify.tokens"
        names = ("decoder.embed.tokens.weight", f"{classify}.weight", f"{classify}.bias")
        return {**super().vocabulary_axes, **dict.fromkeys(names, 0)}

    def prepare_memory(self, features: Features) -> RecurrentMemory:
        """Return the projections of the images."""
        return self.decoder.stack.prepare_memory(features)

    def initial_cache(self, memory: RecurrentMemory, beams: int = 1) -> SanCache:
        """Return the cache before the first step."""
        return self.decoder.initial_cache(memory, beams)

    def step(self, input_ids: Tensor, memory: RecurrentMemory, cache: SanCache) -> StepOutput:
        """Return the log-probabilities of the ids that follow `input_ids`; see `SanTargets`."""
        output = self.decoder(input_ids, memory, cache)
        return StepOutput(output.log_probs, output.cache, [(output.attention,) * 2 + (None,)])

    def forward_decoder(
        self,
        features: Features,
        input_ids: Tensor,
        identifiers: Tensor | None = None,
        target_ids: Tensor | None = None,
    ) -> TrainingOutput:
        """Run the part of `forward` after the encoder."""
        output = self.decoder(input_ids, self.prepare_memory(features))
        losses: Mapping[str, SummedLoss] = {}
        if target_ids is not None and self.child_to_parent is not None:
            losses = parent_losses(self.child_to_parent, output, target_ids, features)
        symbols = self.symbol_map(features.cells) if self.symbol_map is not None else None
        attention = [output.attention]
        return TrainingOutput(output.log_probs, None, symbols, attention, features, losses)


def parent_losses(
    module: ChildToParent, output: DecodedTree, target_ids: Tensor, features: Features
) -> dict[str, SummedLoss]:
    """Return the losses of the child-to-parent decoder.

    Args:
        module: the decoder.
        output: of the recognition decoder.
        target_ids: int64 (batch, 1, steps), negative after the end.
        features: of the images.
    """
    symbols = module.symbols.num_embeddings
    parents = parent_steps(output, symbols)
    children = target_ids.clamp(0, symbols - 1)
    is_symbol = (target_ids >= 3) & (target_ids < symbols) & (parents >= 0)
    relations = torch.where(output.inputs < symbols, RIGHT, output.inputs - symbols)
    lengths = (target_ids >= 0).sum(-1)
    logits, attention = module(children, relations, lengths, features)
    places = parents.clamp(min=0)
    expected = torch.where(is_symbol, children.gather(2, places), -100)
    count = is_symbol.sum().float()
    entropy = F.cross_entropy(logits.flatten(0, 2), expected.flatten(), reduction="sum")
    seen = _reorder(output.attention[..., 0, :], places).clamp(min=1e-8)
    divergence = (seen * (seen.log() - attention.clamp(min=1e-8).log())).sum(-1)
    return {
        "parent": SummedLoss(entropy, count),
        "attention_agreement": SummedLoss((divergence * is_symbol).sum(), count),
    }


def parent_steps(output: DecodedTree, symbols: int) -> Tensor:
    """Return the step that decoded the parent of what each step decodes, or -1 for none."""
    steps: list[Tensor] = []
    for step in range(output.inputs.shape[2]):
        parent = torch.full_like(output.inputs[:, :, 0], step - 1)
        if step:
            known = torch.stack(steps, 2)
            origin = (output.origins[:, :, step] - 1).clamp(min=0)
            jumped = known.gather(2, origin[..., None])[..., 0]
            parent = torch.where(output.inputs[:, :, step] < symbols, parent, jumped)
        steps.append(parent)
    return torch.stack(steps, 2)


def _pick(values: Tensor, index: Tensor) -> Tensor:
    """Return values (batch, beams, n, …) at index (batch, beams): (batch, beams, …)."""
    wide = index.view(*index.shape, *[1] * (values.ndim - 2))
    return values.gather(2, wide.expand(-1, -1, 1, *values.shape[3:]))[:, :, 0]


def _join(first: Pytree, second: Pytree) -> Pytree:
    """Return two pytrees of the same structure joined along the axis of steps."""
    parts = iter(tensors(second))
    return map_tensors(lambda values: torch.cat((values, next(parts)), 2), first)


def _reorder(values: Tensor, index: Tensor) -> Tensor:
    """Return values (batch, beams, steps, size) at other steps (batch, beams, steps)."""
    return values.gather(2, index[..., None].expand(-1, -1, -1, values.shape[-1]))
