"""ABM: two decoders in opposite directions that learn from each other (Bian et al. 2022).

Both read coverage with a small and a large kernel (attention aggregation). Only training uses the
decoder from right to left.
"""

from collections.abc import Mapping
from typing import ClassVar, cast

import torch
from torch import Tensor

from posformer.errors import ConfigError
from posformer.latex import Vocabulary
from posformer.models.base import SummedLoss
from posformer.models.dwap import Dwap, Losses
from posformer.models.encoder import Features
from posformer.models.model_config import ModelConfig, MutualDecoderConfig, RecurrentDecoderConfig
from posformer.models.recurrent import Decoded, RecurrentDecoder


class Abm(Dwap):
    """ABM, with the additional loss `mutual`."""

    training_only: ClassVar[tuple[str, ...]] = (*Dwap.training_only, "backward_decoder")
    settings_class: ClassVar[type[RecurrentDecoderConfig]] = MutualDecoderConfig

    def __init__(self, config: ModelConfig, vocabulary: Vocabulary) -> None:
        super().__init__(config, vocabulary)
        decoder = RecurrentDecoder(self.settings, self.encoder.width, len(vocabulary))
        self.backward_decoder: RecurrentDecoder | None = decoder

    @property
    def vocabulary_axes(self) -> Mapping[str, int]:
        """Names of parameters with one entry per token, and the axis of the tokens."""
        axes = super().vocabulary_axes
        mirrored = {
            f"backward_{name}": axis for name, axis in axes.items() if name.startswith("decoder.")
        }
        return {**axes, **mirrored}

    def _decode(self, input_ids: Tensor, features: Features, counts: Tensor | None) -> Decoded:
        """Return logits, states and attention of both directions, or of the first in validation."""
        if input_ids.shape[1] == 1:
            if self.training or (input_ids[..., 0] != self.vocabulary.sos).any():
                raise ConfigError("abm: training needs both directions (batch.directions: both)")
            return super()._decode(input_ids, features, counts)
        assert self.backward_decoder is not None, "only training decodes from right to left"
        both = (self.decoder, self.backward_decoder)
        forward, backward = (
            decoder(input_ids[:, direction : direction + 1], decoder.prepare_memory(features))
            for direction, decoder in enumerate(both)
        )
        attention = zip(forward.attention, backward.attention, strict=True)
        return Decoded(
            torch.cat((forward.logits, backward.logits), 1),
            torch.cat((forward.states, backward.states), 1),
            [torch.cat(pair, 1) for pair in attention],
            None,
        )

    def _losses(self, decoded: Decoded, counts: Tensor | None, target_ids: Tensor) -> Losses:
        if decoded.logits.shape[1] == 1:
            return {}
        temperature = cast(MutualDecoderConfig, self.settings).temperature
        return {"mutual": mutual_loss(decoded.logits, target_ids, temperature)}


def mutual_loss(logits: Tensor, target_ids: Tensor, temperature: float) -> SummedLoss:
    """Return the divergence of the two directions over the same symbols.

    Args:
        logits: float (batch, 2, steps, vocab_size), left to right and right to left.
        target_ids: int64 (batch, 2, steps), negative after the end.
        temperature: the higher, the more weight unlikely tokens have.

    Returns:
        The mean of the two Kullback-Leibler divergences, times the squared temperature so that
        the size of the gradients does not depend on it. Steps that predict the end are left out.
    """
    lengths = (target_ids[:, 0] >= 0).sum(-1, keepdim=True) - 1
    steps = torch.arange(target_ids.shape[2], device=target_ids.device)
    shared = steps < lengths
    mirrored = (lengths - 1 - steps).clamp(min=0)[..., None].expand(-1, -1, logits.shape[-1])
    forward = (logits[:, 0] / temperature).log_softmax(-1)
    backward = (logits[:, 1].gather(1, mirrored) / temperature).log_softmax(-1)
    divergence = ((forward.exp() - backward.exp()) * (forward - backward)).sum(-1)
    return SummedLoss((divergence * shared).sum() * temperature**2 / 2, shared.sum().float())
