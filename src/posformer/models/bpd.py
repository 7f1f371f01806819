"""BPD: branch parallel decoding of the symbol layout tree (Li et al. 2024); here BPD-Coverage.

The branches that a symbol opens (numerator and denominator, scripts, the inside of a root) become
queries of their own and are decoded at the same time as each other and as the rest of their row.
An expression takes as many decoder calls as its longest path of symbols. "Coverage" is the
attention refinement of CoMER.

Decisions where the publication leaves a choice:

- A step sees its ancestors: the earlier steps of its branch, and those of the branches around it up
  to where it was opened. It does not see what other branches decode at the same time. So the result
  does not depend on the order of branches, and training takes one pass.
- Positions count ancestors.
- Coverage is the attention of the ancestors, of all tokens as in CoMER.
- Branches are opened by one decision about a set of relations, as in `models.san`.
- The tokens of one step are independent of each other, so the search finds the best combinations
  exactly; see `search.parallel`. A score is averaged over steps, not over tokens.
"""

from collections.abc import Mapping
from typing import ClassVar, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from posformer.latex import Vocabulary
from posformer.models.attention_refinement import Coverage, TreeCoverage
from posformer.models.base import RecognitionModel, StepOutput, TrainingOutput
from posformer.models.bpd_targets import BRANCH_RELATIONS, BpdTargets
from posformer.models.decoder import (
    DecoderOutput,
    DecoderStack,
    ImageMemory,
    LayerCache,
    StepLayout,
)
from posformer.models.encoder import Encoder, Features
from posformer.models.model_config import BpdDecoderConfig, ModelConfig
from posformer.models.positional_encoding import sinusoids
from posformer.models.tree_parts import StructHead, SymbolEmbedding, check_tree_settings


class BpdCache(NamedTuple):
    """What was decoded so far."""

    ids: Tensor  # int64 (batch, beams, past): inputs of all branches
    layers: list[LayerCache]


class Bpd(RecognitionModel):
    """BPD. `step` takes the inputs of one step per call: int64 (batch, beams, open branches)."""

    pytorch_only: ClassVar[str] = "a step decodes one token of every open branch"

    encoder: Encoder

    def __init__(self, config: ModelConfig, vocabulary: Vocabulary) -> None:
        super().__init__(config, vocabulary)
        settings = config.decoder_as(BpdDecoderConfig)
        check_tree_settings(config)
        self.settings, self.targets = settings, BpdTargets(vocabulary)
        width, vocab_size = settings.width, len(vocabulary)
        marks = self.targets.first_start + BRANCH_RELATIONS - vocab_size
        self.encoder = Encoder(config.encoder, width)
        self.embed = SymbolEmbedding(vocab_size, marks, width)
        self.embed_norm = nn.LayerNorm(width)
        self.stack = DecoderStack(settings)
        self.head = StructHead(vocab_size, BRANCH_RELATIONS, width)
        self.symbol_map = nn.Linear(width, vocab_size) if config.symbol_map else None

    @property
    def vocabulary_axes(self) -> Mapping[str, int]:
        """Names of parameters with one entry per token, and the axis of the tokens."""
        classify = "head.classify.tokens"
        names = ("embed.tokens.weight", f"{classify}.weight", f"{classify}.bias")
        return {**super().vocabulary_axes, **dict.fromkeys(names, 0)}

    def prepare_memory(self, features: Features) -> ImageMemory:
        """Return the keys and values of the images."""
        return self.stack.prepare_memory(features)

    def initial_cache(self, memory: ImageMemory, beams: int = 1) -> BpdCache:
        """Return the cache before the first step."""
        layers = []
        for layer in self.stack.initial_cache(memory, beams):
            if isinstance(layer.coverage, Coverage):
                nothing = layer.coverage.total[:, :, None][:, :, :0]
                layer = layer._replace(coverage=TreeCoverage(nothing))
            layers.append(layer)
        ids = torch.zeros(len(memory.padding), beams, 0, dtype=torch.long)
        return BpdCache(ids.to(memory.padding.device), layers)

    def step(self, input_ids: Tensor, memory: ImageMemory, cache: BpdCache) -> StepOutput:
        """Return the log-probabilities of the next token of each branch; see `BpdTargets`.

        A branch that has ended goes on with its end.
        """
        ids = torch.cat((cache.ids, input_ids), -1)
        output = self._run(ids, input_ids.shape[2], memory, cache.layers)
        log_probs = torch.cat(self.head(output.states), -1)
        eos, pad = self.vocabulary.eos, self.vocabulary.pad
        has_ended = ((input_ids == eos) | (input_ids == pad))[..., None]
        is_end = torch.arange(log_probs.shape[-1], device=ids.device) == eos
        log_probs = log_probs.masked_fill(has_ended & is_end, 0.0)
        log_probs = log_probs.masked_fill(has_ended & ~is_end, float("-inf"))
        return StepOutput(log_probs, BpdCache(ids, output.cache), output.attention)

    def forward_decoder(
        self,
        features: Features,
        input_ids: Tensor,
        identifiers: Tensor | None = None,
        target_ids: Tensor | None = None,
    ) -> TrainingOutput:
        """Run the part of `forward` after the encoder."""
        output = self._run(input_ids, input_ids.shape[2], self.prepare_memory(features))
        log_probs = torch.cat(self.head(output.states), -1)
        symbols = self.symbol_map(features.cells) if self.symbol_map is not None else None
        attention = [weights for weights, _, _ in output.attention]
        return TrainingOutput(log_probs, None, symbols, attention, features)

    def _run(
        self, ids: Tensor, count: int, memory: ImageMemory, cache: list[LayerCache] | None = None
    ) -> DecoderOutput:
        """Return the output for the last `count` of all inputs (batch, beams, past + count)."""
        embedded = self.embed_norm(self.embed(ids[..., -count:]))
        layout = self._layout(ids, count, embedded)
        counted = embedded.new_ones(embedded.shape[:3])
        output: DecoderOutput = self.stack(embedded, counted, memory, cache, layout)
        return output

    def _layout(self, ids: Tensor, count: int, like: Tensor) -> StepLayout:
        """Return which steps the last `count` inputs see."""
        batch, beams, total = ids.shape
        rows = ids.flatten(0, 1).tolist()
        seen = np.stack([ancestors(self.targets.predecessors(row)) for row in rows])
        new = torch.from_numpy(seen[:, total - count :]).to(like.device)
        new = new.view(batch, beams, count, total)
        own = torch.eye(total, dtype=torch.bool, device=like.device)[total - count :]
        positions = sinusoids(new.sum(-1).float(), like.shape[-1])
        return StepLayout(positions, ~(new | own), None, new.to(like.dtype))


def ancestors(predecessors: list[int]) -> np.ndarray:
    """Return which steps lead to a step, bool (steps, steps), from the one before each, or -1."""
    seen = np.zeros((len(predecessors),) * 2, bool)
    for index, before in enumerate(predecessors):
        if before >= 0:
            seen[index] = seen[before]
            seen[index, before] = True
    return seen
