"""PosFormer, put together; with other settings it is CoMER, BTTR or the plain Transformer."""

from collections.abc import Mapping
from pathlib import Path

import torch
from torch import Tensor, nn

from posformer.errors import ConfigError
from posformer.latex import Vocabulary
from posformer.models.base import Look, RecognitionModel, TrainingOutput
from posformer.models.decoder import Decoder, DecoderStack, ImageMemory, LayerState
from posformer.models.encoder import Encoder, Features
from posformer.models.model_config import DecoderConfig, ModelConfig
from posformer.models.model_folder import DECODER, ENCODER
from posformer.models.position_head import PositionHead, PositionLogits

__all__ = ["PosFormer"]


class PosFormer(RecognitionModel):
    """A DenseNet and a Transformer decoder with attention refinement; see `RecognitionModel`."""

    encoder: Encoder
    entity: Tensor  # float (words): 1 where a word's attention counts as coverage

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
        self.register_buffer("entity", _entities(settings, vocabulary), persistent=False)

    @property
    def word_axes(self) -> Mapping[str, int]:
        """Parameters with an entry for each word, and along which axis."""
        rows = ("decoder.embed.weight", "decoder.head.weight", "decoder.head.bias")
        return {**super().word_axes, **dict.fromkeys(rows, 0)}

    def remember(self, features: Features) -> ImageMemory:
        """Keys and values of the images for every layer."""
        return self.decoder.stack.remember(features)

    def step(
        self, tokens: Tensor, memory: ImageMemory, past: list[LayerState] | None
    ) -> tuple[Tensor, list[LayerState]]:
        """Log-probabilities (images, rows, steps, words) of what follows tokens (… steps)."""
        logits, output = self.decoder(tokens, self._keep(tokens), memory, past)
        return logits.log_softmax(-1), output.kept

    def forward_decoder(
        self,
        features: Features,
        tokens: Tensor,
        identifiers: Tensor | None = None,
        targets: Tensor | None = None,
    ) -> TrainingOutput:
        """See `RecognitionModel.forward`."""
        memory = self.remember(features)
        keep = self._keep(tokens)
        logits, output = self.decoder(tokens, keep, memory)
        position = self._position(output.states, identifiers, keep, memory, features)
        symbols = self.symbol_map(features.cells) if self.symbol_map is not None else None
        return TrainingOutput(logits, position, symbols, output.attention, features)

    def _position(
        self,
        states: Tensor,
        identifiers: Tensor | None,
        keep: Tensor,
        memory: ImageMemory,
        features: Features,
    ) -> PositionLogits | None:
        if self.position is None:
            return None
        if self.position.form != "heads":
            assert identifiers is not None, "this form of the position forest reads identifiers"
            embedded = self.position.embed(identifiers)
            own = self.position.stack
            if own is None:
                states = self.decoder.stack(embedded, keep, memory).states
            else:
                assert isinstance(own, DecoderStack)
                states = own(embedded, keep, own.remember(features)).states
        return self.position(states)

    def _keep(self, tokens: Tensor) -> Tensor:
        return self.entity[tokens]

    def looks(self, tokens: Tensor, memory: ImageMemory) -> list[Look]:
        """Where each layer looks, before and after refinement."""
        keep = self._keep(tokens)
        _, output = self.decoder(tokens, keep, memory)
        refinement = self.decoder.stack.refinement
        found = []
        for number, weights in enumerate(output.attention):
            raw, correction = output.raw_attention[number], None
            if refinement is not None and number > 0:
                maps = torch.cat((output.attention[number - 1], raw), dim=3)
                total, _ = refinement.accumulate(maps, keep, None)
                correction = refinement(total, memory.padding)
            found.append(Look(weights, raw, correction))
        return found

    def write_onnx(self, folder: Path, half: bool = False) -> dict[str, Path]:
        """Write `encoder.onnx` and `decoder.onnx`."""
        from posformer.models.decoder_graph import write_decoder
        from posformer.models.encoder_graph import write_encoder

        files = {ENCODER: folder / ENCODER, DECODER: folder / DECODER}
        write_encoder(self, files[ENCODER], half)
        write_decoder(self, files[DECODER], half)
        return files


def _entities(decoder: DecoderConfig, vocabulary: Vocabulary) -> Tensor:
    """1 for words whose attention counts as coverage, 0 for structure; float (words)."""
    refinement = decoder.refinement
    structure = [
        refinement is not None and refinement.leaves_out(word) for word in vocabulary.tokens
    ]
    special = [False] * (len(vocabulary) - len(structure))
    return 1.0 - torch.tensor(special + structure, dtype=torch.float32)
