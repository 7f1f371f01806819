"""DWAP: a DenseNet that watches, and a GRU with coverage attention that parses (Zhang et al. 2018).

Widths are those of the publication and its successors. Two products that can be one are one here:
coverage goes straight from the convolution into the width of the attention, and what the attention
picks is projected once an image instead of at every step.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar

from torch import Tensor, nn

from posformer.latex import Vocabulary
from posformer.models.base import Look, RecognitionModel, TrainingOutput
from posformer.models.encoder import Features
from posformer.models.model_config import ModelConfig, RecurrentDecoderConfig
from posformer.models.model_folder import DECODER, ENCODER
from posformer.models.position_head import PositionHead, PositionLogits
from posformer.models.recurrent import (
    MapEncoder,
    RecurrentDecoder,
    RecurrentMemory,
    RecurrentStack,
    RecurrentState,
)

__all__ = ["Dwap"]


class Dwap(RecognitionModel):
    """See `RecognitionModel`; decodes from left to right."""

    settings_kind: ClassVar[type[RecurrentDecoderConfig]] = RecurrentDecoderConfig
    counts_symbols: ClassVar[bool] = False  # whether the decoder is told how often symbols occur

    encoder: MapEncoder

    def __init__(self, config: ModelConfig, vocabulary: Vocabulary) -> None:
        super().__init__(config, vocabulary)
        self.settings = config.decoder_as(self.settings_kind)
        self.encoder = MapEncoder(config.encoder)
        self.decoder = self._new_decoder()
        self.position: PositionHead | None = None
        if config.position is not None:
            own = self._new_stack() if config.position.form == "separate" else None
            width, fed = self.settings.width, self.settings.embedding
            self.position = PositionHead(config.position, width, own, fed)
        words = len(vocabulary)
        self.symbol_map = nn.Linear(self.encoder.width, words) if config.symbol_map else None

    @property
    def word_axes(self) -> Mapping[str, int]:
        """Parameters with an entry for each word, and along which axis."""
        rows = ("decoder.symbols.weight", "decoder.classify.weight", "decoder.classify.bias")
        return {**super().word_axes, **dict.fromkeys(rows, 0)}

    def _new_decoder(self) -> RecurrentDecoder:
        words = len(self.vocabulary)
        counts = words if self.counts_symbols else None
        return RecurrentDecoder(self.settings, self.encoder.width, words, counts)

    def _new_stack(self) -> RecurrentStack:
        counts = len(self.vocabulary) if self.counts_symbols else None
        return RecurrentStack(self.settings, self.encoder.width, counts)

    def remember(self, features: Features) -> RecurrentMemory:
        """What the decoder needs of the images."""
        return self.decoder.stack.remember(features)

    def step(
        self, tokens: Tensor, memory: RecurrentMemory, past: RecurrentState | None
    ) -> tuple[Tensor, RecurrentState]:
        """Log-probabilities (images, rows, steps, words) of what follows tokens (… steps)."""
        logits, output = self.decoder(tokens, memory, past)
        return logits.log_softmax(-1), output.kept

    def forward_decoder(
        self,
        features: Features,
        tokens: Tensor,
        identifiers: Tensor | None = None,
        targets: Tensor | None = None,
    ) -> TrainingOutput:
        """See `RecognitionModel.forward`."""
        return self._teach(features, None, tokens, identifiers)

    def _teach(
        self,
        features: Features,
        counts: Tensor | None,
        tokens: Tensor,
        identifiers: Tensor | None,
    ) -> TrainingOutput:
        """The training output without losses of the model's own."""
        memory = self.decoder.stack.remember(features, counts)
        logits, output = self.decoder(tokens, memory)
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
            memory = stack.remember(features, counts)
            states = stack(self.position.embed(identifiers), memory).states
        return self.position(states)

    def looks(self, tokens: Tensor, memory: RecurrentMemory) -> list[Look]:
        """Where the one attention looks."""
        _, output = self.decoder(tokens, memory)
        return [Look(output.attention, output.attention, None)]

    def write_onnx(self, folder: Path, half: bool = False) -> dict[str, Path]:
        """Write `encoder.onnx` and `decoder.onnx`."""
        from posformer.models.recurrent_graph import write_decoder, write_encoder

        files = {ENCODER: folder / ENCODER, DECODER: folder / DECODER}
        write_encoder(self, files[ENCODER], half)
        write_decoder(self, files[DECODER], half)
        return files
