"""SSAN: DWAP that also predicts where the symbols are (Zhang et al. 2025).

The encoder learns a distribution map: how much of a symbol each cell shows, a Gaussian around every
symbol. SSAN derives the places from printed formulas and finds the parts of symbols to mask by the
attention of the decoder. Here both use the boxes of the ink: the map in `training.collate`, masking
in `training.symbol_masking` (`batch.masking`). The symbol distribution needs `data.source: ink`;
without boxes the model trains as DWAP. Inference is DWAP's.
"""

from typing import ClassVar

from torch import Tensor, nn

from posformer.latex import Vocabulary
from posformer.models.base import TrainingOutput
from posformer.models.dwap import Dwap
from posformer.models.encoder import Features
from posformer.models.model_config import (
    DistributionDecoderConfig,
    ModelConfig,
    RecurrentDecoderConfig,
)


class Ssan(Dwap):
    """SSAN, with the additional loss `distribution`."""

    training_only: ClassVar[tuple[str, ...]] = (*Dwap.training_only, "distribution")
    settings_class: ClassVar[type[RecurrentDecoderConfig]] = DistributionDecoderConfig

    def __init__(self, config: ModelConfig, vocabulary: Vocabulary) -> None:
        super().__init__(config, vocabulary)
        hidden = config.decoder_as(DistributionDecoderConfig).distribution_hidden
        self.distribution: nn.Module | None = nn.Sequential(
            nn.Linear(self.encoder.width, hidden), nn.ReLU(), nn.Linear(hidden, 1)
        )

    def forward_decoder(
        self,
        features: Features,
        input_ids: Tensor,
        identifiers: Tensor | None = None,
        target_ids: Tensor | None = None,
    ) -> TrainingOutput:
        """Run the part of `forward` after the encoder."""
        output = super().forward_decoder(features, input_ids, identifiers, target_ids)
        if self.distribution is None:
            return output
        return output._replace(distribution=self.distribution(features.cells)[..., 0])
