"""DWAP: DenseNet encoder and GRU decoder with coverage attention (Zhang et al. 2018).

Widths are those of the publication and its successors. Two pairs of linear maps that follow each
other are merged: coverage is convolved directly to the attention width, and the values of the
attention are projected once per image instead of at every step.
"""

from collections.abc import Mapping
from typing import ClassVar

from torch import Tensor, nn

from posformer.latex import Vocabulary
from posformer.models.base import RecognitionModel, StepOutput, SummedLoss, TrainingOutput
from posformer.models.encoder import Features, MapEncoder
from posformer.models.model_config import ModelConfig, RecurrentDecoderConfig
from posformer.models.position_head import PositionHead
from posformer.models.recurrent import (
    RecurrentCache,
    RecurrentDecoder,
    RecurrentMemory,
    RecurrentStack,
)

Decoded = tuple[Tensor, Tensor, Tensor]  # logits, states and attention
Losses = dict[str, SummedLoss]


class Dwap(RecognitionModel):
    """DWAP; decodes from left to right."""

    settings_class: ClassVar[type[RecurrentDecoderConfig]] = RecurrentDecoderConfig

    encoder: MapEncoder

    def __init__(self, config: ModelConfig, vocabulary: Vocabulary) -> None:
        super().__init__(config, vocabulary)
        self.settings = config.decoder_as(self.settings_class)
        self.encoder = MapEncoder(config.encoder)
        sizes = self.encoder.width, len(vocabulary)
        self.decoder = RecurrentDecoder(self.settings, *sizes)
        self.position: PositionHead | None = None
        if config.position is not None:
            separate = config.position.form == "separate"
            own = RecurrentStack(self.settings, *sizes) if separate else None
            width, embedding = self.settings.width, self.settings.embedding
            self.position = PositionHead(config.position, width, own, embedding)
        self.symbol_map = nn.Linear(*sizes) if config.symbol_map else None

    @property
    def vocabulary_axes(self) -> Mapping[str, int]:
        """Names of parameters with one entry per token, and the axis of the tokens."""
        names = ("decoder.symbols.weight", "decoder.classify.weight", "decoder.classify.bias")
        return {**super().vocabulary_axes, **dict.fromkeys(names, 0)}

    def prepare_memory(self, features: Features) -> RecurrentMemory:
        """Return the projections of the images, and of their symbol counts, if any."""
        return self.decoder.stack.prepare_memory(features, self._counts(features))

    def initial_cache(self, memory: RecurrentMemory, beams: int = 1) -> RecurrentCache:
        """Return the cache before the first token."""
        return self.decoder.stack.initial_cache(memory, beams)

    def step(self, input_ids: Tensor, memory: RecurrentMemory, cache: RecurrentCache) -> StepOutput:
        """Return the log-probabilities of the tokens that follow `input_ids`."""
        logits, output = self.decoder(input_ids, memory, cache)
        attention = output.attention
        return StepOutput(logits.log_softmax(-1), output.cache, [(attention, attention, None)])

    def forward_decoder(
        self,
        features: Features,
        input_ids: Tensor,
        identifiers: Tensor | None = None,
        target_ids: Tensor | None = None,
    ) -> TrainingOutput:
        """Run the part of `forward` after the encoder."""
        counts = self._counts(features)
        logits, states, attention = self._decode(input_ids, features, counts)
        position = None
        if self.position is not None:
            own = self.position.stack
            stack = own if own is not None else self.decoder.stack
            memory = stack.prepare_memory(features, counts)
            position = self.position(states, identifiers, lambda ids: stack(ids, memory).states)
        symbols = self.symbol_map(features.cells) if self.symbol_map is not None else None
        losses = self._losses(logits, counts, target_ids) if target_ids is not None else {}
        return TrainingOutput(logits, position, symbols, [attention], features, losses)

    def _counts(self, features: Features) -> Tensor | None:
        """Return symbol counts (branches, batch, vocab_size) of a model that counts."""
        return None

    def _decode(self, input_ids: Tensor, features: Features, counts: Tensor | None) -> Decoded:
        """Return logits, states and attention of all steps."""
        memory = self.decoder.stack.prepare_memory(features, counts)
        logits, output = self.decoder(input_ids, memory)
        return logits, output.states, output.attention

    def _losses(self, logits: Tensor, counts: Tensor | None, target_ids: Tensor) -> Losses:
        """Return the losses of the model itself."""
        return {}
