"""ICAL: CoMER with a module that predicts implicit characters (Zhu et al. 2024).

Implicit characters are the tokens without ink. One causal Transformer layer on top of the decoder
predicts their sequence: structure tokens as they are, and one class for everything else, for which
the id of `<pad>` stands. A gate fuses its states with those of the decoder. Decoder, implicit
characters and the fused states have a cross-entropy each (`explicit`, `implicit`, recognition).

The authors' program treats `^ _ { }` as implicit and weights the classes by their frequency. Here
all tokens without ink are implicit, as in implicit attention correction, and classes have equal
weights.
"""

from collections.abc import Mapping
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from posformer.latex import Vocabulary
from posformer.models.base import StepOutput, SummedLoss, cross_entropy
from posformer.models.decoder import CausalLayer, ImageMemory, LayerCache
from posformer.models.gated_fusion import GatedFusion
from posformer.models.model_config import ModelConfig
from posformer.models.posformer import PosFormer
from posformer.models.pytree import Pytree
from posformer.models.symbol_classifier import tokens_with_ink


class IcalCache(NamedTuple):
    """Cache of the decoder and of the layer on top of it."""

    decoder: list[LayerCache]
    implicit: LayerCache


class Ical(PosFormer):
    """ICAL, with the additional losses `explicit` and `implicit`."""

    visible: Tensor  # bool (vocab_size): tokens with ink

    def __init__(self, config: ModelConfig, vocabulary: Vocabulary) -> None:
        super().__init__(config, vocabulary)
        width = self.settings.width
        self.implicit = CausalLayer(self.settings)
        self.implicit_head = nn.Linear(width, len(vocabulary))
        self.fusion = GatedFusion(width)
        self.fused_head = nn.Linear(width, len(vocabulary))
        self.register_buffer("visible", tokens_with_ink(vocabulary), persistent=False)

    @property
    def vocabulary_axes(self) -> Mapping[str, int]:
        """Names of parameters with one entry per token, and the axis of the tokens."""
        heads = ("implicit_head.weight", "implicit_head.bias", "fused_head.weight")
        return {**super().vocabulary_axes, **dict.fromkeys((*heads, "fused_head.bias"), 0)}

    def initial_cache(self, memory: ImageMemory, beams: int = 1) -> Pytree:
        """Return the cache before the first token."""
        layer = self.implicit.initial_cache(memory.values[0], beams)
        return IcalCache(super().initial_cache(memory, beams), layer)

    def step(self, input_ids: Tensor, memory: ImageMemory, cache: Pytree) -> StepOutput:
        """Return the log-probabilities of the tokens that follow `input_ids`."""
        mask = self.entity[input_ids]
        _, output = self.decoder(input_ids, mask, memory, cache.decoder)
        implicit, layer = self.implicit(output.states, cache.implicit)
        log_probs = self._fuse(output.states, implicit).log_softmax(-1)
        return StepOutput(log_probs, IcalCache(output.cache, layer), output.attention)

    def _fuse(self, states: Tensor, implicit: Tensor) -> Tensor:
        """Return the logits of the fused states."""
        logits: Tensor = self.fused_head(F.relu(self.fusion(implicit, states)))
        return logits

    def _predict(
        self, logits: Tensor, states: Tensor, target_ids: Tensor | None
    ) -> tuple[Tensor, dict[str, SummedLoss]]:
        implicit, _ = self.implicit(states)
        losses = {}
        if target_ids is not None:
            seen = self.visible[target_ids.clamp(min=0)] & (target_ids >= 0)
            targets = torch.where(seen, self.vocabulary.pad, target_ids)
            losses["explicit"] = cross_entropy(logits, target_ids)
            losses["implicit"] = cross_entropy(self.implicit_head(F.relu(implicit)), targets)
        return self._fuse(states, implicit), losses
