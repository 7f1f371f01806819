"""PosFormer; with other settings it is CoMER, BTTR or the plain Transformer."""

from collections.abc import Mapping
from typing import ClassVar

import torch
from torch import Tensor, nn

from posformer.errors import ConfigError
from posformer.latex import Vocabulary
from posformer.models.base import RecognitionModel, StepOutput, SummedLoss, TrainingOutput
from posformer.models.decoder import (
    Decoder,
    DecoderStack,
    ImageMemory,
    LayerCache,
    StepLayout,
)
from posformer.models.encoder import Encoder, Features
from posformer.models.model_config import DecoderConfig, ModelConfig, RefinementConfig
from posformer.models.position_head import PositionHead, PositionLogits


class PosFormer(RecognitionModel):
    """DenseNet encoder and Transformer decoder with attention refinement."""

    parallel_steps: ClassVar[bool] = True

    encoder: Encoder
    entity: Tensor  # float (vocab_size): 1 where the attention of a token counts as coverage

    def __init__(self, config: ModelConfig, vocabulary: Vocabulary) -> None:
        super().__init__(config, vocabulary)
        self.settings = settings = config.decoder_as(DecoderConfig)
        width = settings.width
        if width % 4 or width % settings.heads:
            raise ConfigError(f"decoder.width {width} is not a multiple of 4 and of decoder.heads")
        self.encoder = Encoder(config.encoder, width)
        self.decoder = Decoder(settings, len(vocabulary))
        self.position: PositionHead | None = None
        if config.position is not None:
            own = DecoderStack(settings) if config.position.form == "separate" else None
            self.position = PositionHead(config.position, width, own)
        self.symbol_map = nn.Linear(width, len(vocabulary)) if config.symbol_map else None
        self.register_buffer("entity", _entities(settings.refinement, vocabulary), persistent=False)

    @property
    def vocabulary_axes(self) -> Mapping[str, int]:
        """Names of parameters with one entry per token, and the axis of the tokens."""
        names = ("decoder.embed.weight", "decoder.head.weight", "decoder.head.bias")
        return {**super().vocabulary_axes, **dict.fromkeys(names, 0)}

    def prepare_memory(self, features: Features) -> ImageMemory:
        """Return the keys and values of the images for every layer."""
        return self.decoder.stack.prepare_memory(features)

    def initial_cache(self, memory: ImageMemory, beams: int = 1) -> list[LayerCache]:
        """Return the cache before the first token."""
        return self.decoder.stack.initial_cache(memory, beams)

    def step(self, input_ids: Tensor, memory: ImageMemory, cache: list[LayerCache]) -> StepOutput:
        """Return the log-probabilities of the tokens that follow `input_ids`."""
        logits, output = self.decoder(input_ids, self.entity[input_ids], memory, cache)
        return StepOutput(logits.log_softmax(-1), output.cache, output.attention)

    def forward_decoder(
        self,
        features: Features,
        input_ids: Tensor,
        identifiers: Tensor | None = None,
        target_ids: Tensor | None = None,
    ) -> TrainingOutput:
        """Run the part of `forward` after the encoder."""
        memory = self.prepare_memory(features)
        coverage_mask = self.entity[input_ids]
        logits, output = self.decoder(input_ids, coverage_mask, memory)
        logits, losses = self._predict(logits, output.states, target_ids)
        position = self._positions_of(features, memory, output.states, identifiers, coverage_mask)
        symbols = self.symbol_map(features.cells) if self.symbol_map is not None else None
        attention = [weights for weights, _, _ in output.attention]
        return TrainingOutput(logits, position, symbols, attention, features, losses)

    def _positions_of(
        self,
        features: Features,
        memory: ImageMemory,
        states: Tensor,
        identifiers: Tensor | None,
        coverage_mask: Tensor,
        layout: StepLayout | None = None,
    ) -> PositionLogits | None:
        """Return the logits of the position forest, if there is one.

        Args:
            features: of the images.
            memory: of the images, for the recognition decoder.
            states: float (batch, directions, steps, width), of the recognition decoder.
            identifiers: see `RecognitionModel.forward`.
            coverage_mask: float (batch, directions, steps).
            layout: of the steps; None: one sequence.
        """
        if self.position is None:
            return None
        own = self.position.stack
        stack = own if own is not None else self.decoder.stack
        read = own.prepare_memory(features) if own is not None else memory
        logits: PositionLogits = self.position(
            states, identifiers, lambda ids: stack(ids, coverage_mask, read, None, layout).states
        )
        return logits

    def _predict(
        self, logits: Tensor, states: Tensor, target_ids: Tensor | None
    ) -> tuple[Tensor, dict[str, SummedLoss]]:
        """Return final logits and the losses of the model itself.

        Args:
            logits: float (batch, directions, steps, vocab_size), of the decoder.
            states: float (batch, directions, steps, width), of the decoder.
            target_ids: int64 (batch, directions, steps), negative where there is none.
        """
        return logits, {}


def _entities(refinement: RefinementConfig | None, vocabulary: Vocabulary) -> Tensor:
    """Return 0 for structure tokens and 1 for all others, float (vocab_size)."""
    structure = [
        refinement is not None and refinement.leaves_out(token) for token in vocabulary.tokens
    ]
    special = [False] * (len(vocabulary) - len(structure))
    return 1.0 - torch.tensor(special + structure, dtype=torch.float32)
