"""ABM: two decoders in opposite directions that learn from each other (Bian et al. 2022).

Each reads coverage with a small and a large kernel (attention aggregation). The one from right to
left is there for training alone.
"""

from collections.abc import Mapping
from typing import ClassVar, cast

import torch
from torch import Tensor

from posformer.errors import ConfigError
from posformer.latex import Vocabulary
from posformer.models.base import SummedLoss, TrainingOutput
from posformer.models.dwap import Dwap
from posformer.models.encoder import Features
from posformer.models.model_config import ModelConfig, MutualDecoderConfig, RecurrentDecoderConfig
from posformer.models.recurrent import RecurrentDecoder

__all__ = ["Abm", "mutual_loss"]


class Abm(Dwap):
    """See `RecognitionModel`; brings the loss `mutual`."""

    training_only: ClassVar[tuple[str, ...]] = (*Dwap.training_only, "backward_decoder")
    settings_kind: ClassVar[type[RecurrentDecoderConfig]] = MutualDecoderConfig

    def __init__(self, config: ModelConfig, vocabulary: Vocabulary) -> None:
        super().__init__(config, vocabulary)
        self.backward_decoder: RecurrentDecoder | None = self._new_decoder()

    @property
    def word_axes(self) -> Mapping[str, int]:
        """Parameters with an entry for each word, and along which axis."""
        known = super().word_axes
        mirrored = {
            f"backward_{name}": axis for name, axis in known.items() if name.startswith("decoder.")
        }
        return {**known, **mirrored}

    def forward_decoder(
        self,
        features: Features,
        tokens: Tensor,
        identifiers: Tensor | None = None,
        targets: Tensor | None = None,
    ) -> TrainingOutput:
        """See `RecognitionModel.forward`; both directions, or left to right alone."""
        if tokens.shape[1] == 1:
            return self._one_way(features, tokens, identifiers)
        assert self.backward_decoder is not None, "only a model in training reads backwards"
        found = []
        for row, decoder in enumerate((self.decoder, self.backward_decoder)):
            memory = decoder.stack.remember(features)
            found.append(decoder(tokens[:, row : row + 1], memory))
        logits = torch.cat([scores for scores, _ in found], dim=1)
        states = torch.cat([output.states for _, output in found], dim=1)
        attention = torch.cat([output.attention for _, output in found], dim=1)
        losses = {}
        if targets is not None:
            settings = cast(MutualDecoderConfig, self.settings)
            losses["mutual"] = mutual_loss(logits, targets, settings.temperature)
        position = self._position(states, identifiers, features)
        symbols = self._symbols(features)
        return TrainingOutput(logits, position, symbols, [attention], features, losses)

    def _one_way(
        self, features: Features, tokens: Tensor, identifiers: Tensor | None
    ) -> TrainingOutput:
        if self.training or (tokens[..., 0] != self.vocabulary.sos).any():
            raise ConfigError("abm: trains in both directions at once (batch.directions: both)")
        return self._teach(features, None, tokens, identifiers)


def mutual_loss(logits: Tensor, targets: Tensor, temperature: float) -> SummedLoss:
    """How far the two directions are apart about the same symbols.

    Args:
        logits: float (images, 2, steps, words), left to right and right to left.
        targets: int64 (images, 2, steps), negative behind the end.
        temperature: the greater, the more the unlikely words count.

    Returns:
        The mean of the two Kullback-Leibler divergences times the temperature squared, which keeps
        gradients as large as without it; the steps that write the end are left out.
    """
    lengths = (targets[:, 0] >= 0).sum(-1, keepdim=True) - 1
    steps = torch.arange(targets.shape[2], device=targets.device)
    shared = steps < lengths
    mirrored = (lengths - 1 - steps).clamp(min=0)[..., None].expand(-1, -1, logits.shape[-1])
    forward = (logits[:, 0] / temperature).log_softmax(-1)
    backward = (logits[:, 1].gather(1, mirrored) / temperature).log_softmax(-1)
    apart = ((forward.exp() - backward.exp()) * (forward - backward)).sum(-1)
    return SummedLoss((apart * shared).sum() * temperature**2 / 2, shared.sum().float())
