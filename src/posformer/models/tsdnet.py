"""TSDNet: a Transformer decoder over the nodes of the symbol layout tree (Zhong et al. 2022).

At every step, a child decoder predicts the symbol of the next node and its relation, and then a
parent decoder points at the node that this one hangs on. Self-attention is restricted to nodes
that are near each other in the tree, with a learned bias for every distance and head.

Decisions where the publication leaves a choice:

- The parent decoder reads the embedded new node and the state of the child decoder. The pointer is
  the scaled product of its state with the states of the child decoder for all earlier nodes.
- A new node is not yet part of the tree, so the parent decoder takes it for a child of the latest
  node.
- Symbol and relation are independent given the state; both are one step of the search, the pointer
  is the next one. Their cross-entropies are averaged over all steps.
- The parent loss, with weight 0.1, is the cross-entropy of the parent's symbol, predicted from the
  state of the parent decoder. Only training needs it.
"""

from collections.abc import Mapping
from typing import ClassVar, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from posformer.latex import Vocabulary
from posformer.latex.layout_tree import RELATIONS, RIGHT
from posformer.models.base import (
    LayerAttention,
    RecognitionModel,
    StepOutput,
    SummedLoss,
    TrainingOutput,
)
from posformer.models.decoder import (
    DecoderOutput,
    DecoderStack,
    ImageMemory,
    LayerCache,
    StepLayout,
)
from posformer.models.encoder import Encoder, Features
from posformer.models.model_config import ModelConfig, TsdnetDecoderConfig
from posformer.models.positional_encoding import sinusoids
from posformer.models.tree_parts import (
    NEVER,
    SymbolClassifier,
    SymbolEmbedding,
    check_tree_settings,
)
from posformer.models.tsdnet_targets import MAX_NODES, TsdnetTargets


class TsdnetMemory(NamedTuple):
    """The images for both decoders."""

    child: ImageMemory
    parent: ImageMemory


class TsdnetCache(NamedTuple):
    """What was decoded so far."""

    ids: Tensor  # int64 (batch, beams, past)
    nodes: Tensor  # float (batch, beams, nodes, width): states of the child decoder
    child: list[LayerCache]
    parent: list[LayerCache]


class PartialTree(NamedTuple):
    """The nodes of a tree that is being decoded; node 0 is the root."""

    symbols: Tensor  # int64 (batch, beams, nodes + new): also of a node without a parent yet
    relations: Tensor  # int64 (batch, beams, nodes + new)
    parents: Tensor  # int64 (batch, beams, nodes)
    distances: Tensor  # int64 (batch, beams, nodes, nodes): hops, at most `hops + 1`


def tree_distances(parents: Tensor, hops: int) -> Tensor:
    """Return the number of edges between any two nodes, or `hops + 1` if there are more.

    Args:
        parents: int64 (…, nodes); the root comes first, its own parent is ignored.
        hops: largest distance of interest.
    """
    count = parents.shape[-1]
    links = F.one_hot(parents, count).float()
    links[..., 0, :] = 0
    links = links + links.transpose(-2, -1)
    reached = torch.eye(count, device=parents.device).expand_as(links)
    distances = torch.full(links.shape, hops + 1, device=parents.device)
    for distance in range(hops + 1):
        distances = torch.where((reached > 0) & (distances > hops), distance, distances)
        reached = reached @ links
    return distances


class TreeBias(nn.Module):
    """A bias of the attention scores for every distance and head."""

    def __init__(self, hops: int, heads: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(hops + 1, heads))

    def forward(self, distances: Tensor, first: int, width: int) -> StepLayout:
        """Return how rows from `first` on see all rows.

        Args:
            distances: int64 (batch, beams, rows, rows); nodes beyond the largest are hidden.
            first: the first row of interest.
            width: of the positional encoding, which counts rows.
        """
        distances = distances[:, :, first:]
        rows = torch.arange(distances.shape[-1], device=distances.device)
        hidden = (distances >= len(self.weight)) | (rows > rows[first:, None])
        bias = self.weight[distances.clamp(max=len(self.weight) - 1)].permute(0, 1, 4, 2, 3)
        positions = sinusoids(rows[first:].float(), width).expand(*distances.shape[:3], -1)
        return StepLayout(positions, hidden, bias)


class Tsdnet(RecognitionModel):
    """TSDNet, with the additional loss `parent`."""

    training_only: ClassVar[tuple[str, ...]] = (*RecognitionModel.training_only, "parent_symbol")
    pytorch_only: ClassVar[str] = "its two decoders take turns, which a single graph cannot do"

    encoder: Encoder

    def __init__(self, config: ModelConfig, vocabulary: Vocabulary) -> None:
        super().__init__(config, vocabulary)
        settings = config.decoder_as(TsdnetDecoderConfig)
        check_tree_settings(config)
        self.settings, self.targets = settings, TsdnetTargets(vocabulary)
        width, vocab_size = settings.width, len(vocabulary)
        self.encoder = Encoder(config.encoder, width)
        self.embed = SymbolEmbedding(vocab_size, 1, width)
        self.relations = nn.Embedding(len(RELATIONS), width)
        self.of_parent, self.of_state = nn.Linear(width, width), nn.Linear(width, width)
        self.child_norm, self.parent_norm = nn.LayerNorm(width), nn.LayerNorm(width)
        self.child, self.parent = DecoderStack(settings), DecoderStack(settings)
        self.child_bias = TreeBias(settings.hops, settings.heads)
        self.parent_bias = TreeBias(settings.hops, settings.heads)
        self.classify = SymbolClassifier(vocab_size, 1, width)
        self.relate = nn.Linear(width, len(RELATIONS))
        self.query, self.key = nn.Linear(width, width), nn.Linear(width, width)
        self.parent_symbol: nn.Linear | None = nn.Linear(width, vocab_size + 1)
        self.symbol_map = nn.Linear(width, vocab_size) if config.symbol_map else None

    @property
    def vocabulary_axes(self) -> Mapping[str, int]:
        """Names of parameters with one entry per token, and the axis of the tokens."""
        names = ("embed.tokens.weight", "classify.tokens.weight", "classify.tokens.bias")
        return {**super().vocabulary_axes, **dict.fromkeys(names, 0)}

    def prepare_memory(self, features: Features) -> TsdnetMemory:
        """Return the keys and values of the images for both decoders."""
        return TsdnetMemory(
            self.child.prepare_memory(features), self.parent.prepare_memory(features)
        )

    def initial_cache(self, memory: TsdnetMemory, beams: int = 1) -> TsdnetCache:
        """Return the cache before the first step."""
        batch, values = len(memory.child.padding), memory.child.values[0]
        ids = torch.zeros(batch, beams, 0, dtype=torch.long, device=values.device)
        nodes = values.new_zeros(batch, beams, 0, self.settings.width)
        caches = (
            stack.initial_cache(part, beams)
            for stack, part in ((self.child, memory.child), (self.parent, memory.parent))
        )
        return TsdnetCache(ids, nodes, *caches)

    def step(self, input_ids: Tensor, memory: TsdnetMemory, cache: TsdnetCache) -> StepOutput:
        """Return the log-probabilities of the ids that follow `input_ids`; see `TsdnetTargets`."""
        parts, attention = [], []
        for one in input_ids.split(1, -1):
            output, cache = self._advance(one, memory, cache)
            attention.append(output.attention)
            parts.append(output.log_probs)
        layers = [_joined(list(maps)) for maps in zip(*attention, strict=True)]
        log_probs = torch.cat(parts, 2)
        eos = self.vocabulary.eos
        # Nothing but the end, which a search may force, is decoded where it cannot follow.
        end = log_probs[..., eos : eos + 1]
        log_probs = log_probs.masked_fill(log_probs <= NEVER, float("-inf"))
        log_probs = torch.cat((log_probs[..., :eos], end, log_probs[..., eos + 1 :]), -1)
        return StepOutput(log_probs, cache, layers)

    def forward_decoder(
        self,
        features: Features,
        input_ids: Tensor,
        identifiers: Tensor | None = None,
        target_ids: Tensor | None = None,
    ) -> TrainingOutput:
        """Run the part of `forward` after the encoder."""
        memory, tree = self.prepare_memory(features), self._tree(input_ids)
        child = self._run_child(tree, 0, memory)
        log_probs, attention = self._decide_child(child.states), child.attention
        losses: Mapping[str, SummedLoss] = {}
        if input_ids.shape[2] > 1:
            parent = self._run_parent(tree, child.states, 0, memory)
            pointers = self._decide_parent(parent.states, child.states, 0)
            log_probs = _interleave(log_probs, pointers)
            attention = [
                (_interleave(one[0], other[0]),) * 2 + (None,)
                for one, other in zip(attention, parent.attention, strict=True)
            ]
            if target_ids is not None and self.parent_symbol is not None:
                losses = {"parent": self._parent_loss(parent.states, tree, target_ids)}
        symbols = self.symbol_map(features.cells) if self.symbol_map is not None else None
        weights = [layer[0] for layer in attention]
        return TrainingOutput(log_probs, None, symbols, weights, features, losses)

    def _tree(self, ids: Tensor) -> PartialTree:
        """Return the tree of steps (batch, beams, steps), the start first."""
        pairs = (ids[..., 1::2] - self.targets.first_pair).clamp(0, None)
        pairs = pairs.clamp(max=(self.targets.blank + 1) * len(RELATIONS) - 1)
        root = torch.full_like(ids[..., :1], self.vocabulary.sos)
        symbols = torch.cat((root, pairs // len(RELATIONS)), -1)
        relations = torch.cat((torch.full_like(root, RIGHT), pairs % len(RELATIONS)), -1)
        pointers = ids[..., 2::2] - self.targets.first_pointer
        earlier = torch.arange(pointers.shape[-1], device=ids.device)
        pointers = torch.minimum(pointers.clamp(min=0), earlier)
        parents = torch.cat((torch.zeros_like(root), pointers), -1)
        return PartialTree(symbols, relations, parents, tree_distances(parents, self.settings.hops))

    def _advance(
        self, ids: Tensor, memory: TsdnetMemory, cache: TsdnetCache
    ) -> tuple[StepOutput, TsdnetCache]:
        """Return the output of one step, (batch, beams, 1), of the decoder whose turn it is."""
        ids = torch.cat((cache.ids, ids), -1)
        tree, nodes = self._tree(ids), cache.nodes
        cache = cache._replace(ids=ids)
        if ids.shape[-1] % 2:
            output = self._run_child(tree, nodes.shape[2], memory, cache.child)
            log_probs = self._decide_child(output.states)
            nodes = torch.cat((nodes, output.states), 2)
            cache = cache._replace(nodes=nodes, child=output.cache)
        else:
            first = nodes.shape[2] - 1
            output = self._run_parent(tree, nodes, first, memory, cache.parent)
            log_probs = self._decide_parent(output.states, nodes, first)
            cache = cache._replace(parent=output.cache)
        return StepOutput(log_probs, None, output.attention), cache

    def _run_child(
        self,
        tree: PartialTree,
        first: int,
        memory: TsdnetMemory,
        cache: list[LayerCache] | None = None,
    ) -> DecoderOutput:
        """Return the states of the nodes from `first` on; each predicts the next node."""
        count = tree.parents.shape[-1]
        symbols = self.embed(tree.symbols[..., :count])
        parents = symbols.gather(2, tree.parents[..., None].expand_as(symbols))
        embedded = symbols + self.relations(tree.relations[..., :count]) + self.of_parent(parents)
        layout = self.child_bias(tree.distances, first, embedded.shape[-1])
        rows = self.child_norm(embedded)[:, :, first:]
        return self._run(self.child, rows, memory.child, cache, layout)

    def _run_parent(
        self,
        tree: PartialTree,
        nodes: Tensor,
        first: int,
        memory: TsdnetMemory,
        cache: list[LayerCache] | None = None,
    ) -> DecoderOutput:
        """Return the states of the new nodes behind the nodes from `first` on."""
        count = tree.symbols.shape[-1] - 1
        embedded = self.embed(tree.symbols[..., 1:]) + self.relations(tree.relations[..., 1:])
        embedded = self.parent_norm(embedded + self.of_state(nodes[:, :, :count]))
        # Row i is node i + 1, taken for a child of node i.
        far = self.settings.hops + 1
        distances = F.pad(tree.distances[:, :, :count, 1:], (0, 1), value=far)[..., :count]
        distances = (distances + 1).clamp(max=far)
        own = torch.eye(count, dtype=torch.bool, device=nodes.device)
        layout = self.parent_bias(distances.masked_fill(own, 0), first, embedded.shape[-1])
        return self._run(self.parent, embedded[:, :, first:], memory.parent, cache, layout)

    @staticmethod
    def _run(
        stack: DecoderStack,
        embedded: Tensor,
        memory: ImageMemory,
        cache: list[LayerCache] | None,
        layout: StepLayout,
    ) -> DecoderOutput:
        counted = embedded.new_ones(embedded.shape[:3])  # there is no coverage
        output: DecoderOutput = stack(embedded, counted, memory, cache, layout)
        return output

    def _decide_child(self, states: Tensor) -> Tensor:
        """Return the log-probabilities of symbol and relation, or the end."""
        symbols, eos = self.classify(states).log_softmax(-1), self.vocabulary.eos
        end = symbols[..., eos : eos + 1]
        symbols = torch.cat(
            (symbols[..., :eos], torch.full_like(end, NEVER), symbols[..., eos + 1 :]), -1
        )
        pairs = symbols[..., None] + self.relate(states).log_softmax(-1)[..., None, :]
        never = end.new_full((*end.shape[:-1], len(self.vocabulary) + MAX_NODES), NEVER)
        rest = never[..., eos + 1 : len(self.vocabulary)]
        pointers = never[..., len(self.vocabulary) :]
        return torch.cat((never[..., :eos], end, rest, pairs.flatten(-2), pointers), -1)

    def _decide_parent(self, states: Tensor, nodes: Tensor, first: int) -> Tensor:
        """Return the log-probabilities of the pointers of new nodes behind node `first` and on."""
        rows, columns = states.shape[2], nodes.shape[2]
        scores = self.query(states) @ self.key(nodes).transpose(-2, -1)
        scores = scores * states.shape[-1] ** -0.5
        numbers = torch.arange(columns, device=states.device)
        future = numbers > numbers[first : first + rows, None]
        pointers = scores.masked_fill(future, NEVER).log_softmax(-1)
        pointers = F.pad(pointers, (0, MAX_NODES - columns), value=NEVER)
        return F.pad(pointers, (self.targets.first_pointer, 0), value=NEVER)

    def _parent_loss(self, states: Tensor, tree: PartialTree, target_ids: Tensor) -> SummedLoss:
        assert self.parent_symbol is not None
        expected = tree.symbols.gather(2, tree.parents)[..., 1:]
        counts = target_ids[..., 1::2] >= 0
        logits = self.parent_symbol(states)
        expected = torch.where(counts, expected, -100).flatten()
        total = F.cross_entropy(logits.flatten(0, 2), expected, reduction="sum")
        return SummedLoss(total, counts.sum().float())


def _interleave(even: Tensor, odd: Tensor) -> Tensor:
    """Return (batch, beams, 2n + 1, …) of even (batch, beams, n + 1, …) and odd steps."""
    pairs = torch.stack((even[:, :, :-1], odd), 3).flatten(2, 3)
    return torch.cat((pairs, even[:, :, -1:]), 2)


def _joined(maps: list[LayerAttention]) -> LayerAttention:
    weights = torch.cat([one[0] for one in maps], 2)
    return weights, weights, None
