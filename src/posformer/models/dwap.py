"""DWAP: DenseNet encoder and GRU decoder with coverage attention (Zhang et al. 2018).

Widths are those of the publication and its successors. Two pairs of linear maps that follow each
other are merged: coverage is convolved directly to the attention width, and the values of the
attention are projected once per image instead of at every step.
"""

from collections.abc import Mapping
from typing import ClassVar

from torch import Tensor, nn

from posformer.latex import Vocabulary
from posformer.models.base import RecognitionModel, StepOutput, TrainingOutput
from posformer.models.encoder import Features, MapEncoder
from posformer.models.model_config import ModelConfig, RecurrentDecoderConfig
from posformer.models.position_head import PositionHead, PositionLogits
from posformer.models.recurrent import (
    RecurrentCache,
    RecurrentDecoder,
    RecurrentMemory,
    RecurrentStack,
)


class Dwap(RecognitionModel):
    """DWAP; decodes from left to right."""

    settings_class: ClassVar[type[RecurrentDecoderConfig]] = RecurrentDecoderConfig
    counts_symbols: ClassVar[bool] = False  # whether the decoder reads symbol counts

    encoder: MapEncoder

    def __init__(self, config: ModelConfig, vocabulary: Vocabulary) -> None:
        super().__init__(config, vocabulary)
        self.settings = config.decoder_as(self.settings_class)
        self.encoder = MapEncoder(config.encoder)
        self.decoder = self._new_decoder()
        self.position: PositionHead | None = None
        if config.position is not None:
            own = self._new_stack() if config.position.form == "separate" else None
            width, embedding = self.settings.width, self.settings.embedding
            self.position = PositionHead(config.position, width, own, embedding)
        vocab_size = len(vocabulary)
        self.symbol_map = nn.Linear(self.encoder.width, vocab_size) if config.symbol_map else None

    @property
    def vocabulary_axes(self) -> Mapping[str, int]:
        """Names of parameters with one entry per token, and the axis of the tokens."""
        names = ("decoder.symbols.weight", "decoder.classify.weight", "decoder.classify.bias")
        return {**super().vocabulary_axes, **dict.fromkeys(names, 0)}

    def _new_decoder(self) -> RecurrentDecoder:
        vocab_size = len(self.vocabulary)
        counts = vocab_size if self.counts_symbols else None
        return RecurrentDecoder(self.settings, self.encoder.width, vocab_size, counts)

    def _new_stack(self) -> RecurrentStack:
        counts = len(self.vocabulary) if self.counts_symbols else None
        return RecurrentStack(self.settings, self.encoder.width, counts)

    def prepare_memory(self, features: Features) -> RecurrentMemory:
        """Return the projections of the images that every step uses."""
        return self.decoder.stack.prepare_memory(features)

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
        return self._teacher_forced(features, None, input_ids, identifiers)

    def _teacher_forced(
        self,
        features: Features,
        counts: Tensor | None,
        input_ids: Tensor,
        identifiers: Tensor | None,
    ) -> TrainingOutput:
        """Return the training output without losses of the model itself."""
        memory = self.decoder.stack.prepare_memory(features, counts)
        logits, output = self.decoder(input_ids, memory)
        position = self._position(output.states, identifiers, features, counts)
        return TrainingOutput(
            logits, position, self._symbols(features), [output.attention], features
        )

    def _symbols(self, features: Features) -> Tensor | None:
        return self.symbol_map(features.cells) if self.symbol_map is not None else None

    def _position(
        self,
        states: Tensor,
        identifiers: Tensor | None,
        features: Features,
        counts: Tensor | None = None,
    ) -> PositionLogits | None:
        if self.position is None:
            return None
        if self.position.form != "heads":
            assert identifiers is not None, "this form of the position forest reads identifiers"
            own = self.position.stack
            stack = own if own is not None else self.decoder.stack
            assert isinstance(stack, RecurrentStack)
            memory = stack.prepare_memory(features, counts)
            states = stack(self.position.embed(identifiers), memory).states
        return self.position(states)
