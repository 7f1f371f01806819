"""PosFormer, put together; with other settings it is CoMER, BTTR or the plain Transformer."""

from typing import NamedTuple

import torch
from torch import Tensor, nn

from posformer.latex import Vocabulary
from posformer.model.config import ConfigError, ModelConfig
from posformer.model.decoder import Decoder, ImageMemory, LayerState
from posformer.model.encoder import Encoder, Features
from posformer.model.position import PositionHead, PositionLogits

__all__ = ["PosFormer", "TrainingOutput"]


class TrainingOutput(NamedTuple):
    """What the losses are made of."""

    logits: Tensor  # float (pictures, rows, steps, words)
    position: PositionLogits | None
    symbol_map: Tensor | None  # float (pictures, height, width, words): the symbol of each cell
    attention: list[Tensor]  # a layer: float (pictures, rows, steps, heads, cells)
    features: Features


class PosFormer(nn.Module):
    """A picture to tokens. `encode` and `step` are inference; `forward` is training."""

    entity: Tensor  # float (words): 1 where a word's attention counts as coverage

    def __init__(self, config: ModelConfig, vocabulary: Vocabulary) -> None:
        super().__init__()
        self.config, self.vocabulary = config, vocabulary
        width = config.decoder.width
        if width % 4 or width % config.decoder.heads:
            raise ConfigError(f"decoder.width {width} is not a multiple of 4 and of decoder.heads")
        self.encoder = Encoder(config.encoder, width)
        self.decoder = Decoder(config.decoder, len(vocabulary))
        self.position = PositionHead(config.position, config.decoder) if config.position else None
        self.symbol_map = nn.Linear(width, len(vocabulary)) if config.symbol_map else None
        self.register_buffer("entity", _entities(config, vocabulary), persistent=False)

    def encode(self, pictures: Tensor, padding: Tensor) -> ImageMemory:
        """The memory of pictures (pictures, 1, height, width); `padding` is true outside."""
        return self.decoder.stack.remember(self.encoder(pictures, padding))

    def step(
        self, tokens: Tensor, memory: ImageMemory, past: list[LayerState] | None
    ) -> tuple[Tensor, list[LayerState]]:
        """Log-probabilities (pictures, rows, steps, words) of what follows tokens (… steps)."""
        logits, output = self.decoder(tokens, self._keep(tokens), memory, past)
        return logits.log_softmax(-1), output.kept

    def forward(
        self, pictures: Tensor, padding: Tensor, tokens: Tensor, identifiers: Tensor | None = None
    ) -> TrainingOutput:
        """One pass with the true tokens fed in.

        Args:
            pictures: float (pictures, 1, height, width).
            padding: bool (pictures, height, width), true outside the picture.
            tokens: int64 (pictures, rows, steps), each row a direction.
            identifiers: float (pictures, rows, steps, letters) of the tokens fed in, for the
                forms of the position forest that take them.
        """
        features = self.encoder(pictures, padding)
        memory = self.decoder.stack.remember(features)
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
                states = own(embedded, keep, own.remember(features)).states
        return self.position(states)

    def _keep(self, tokens: Tensor) -> Tensor:
        return self.entity[tokens]

    @torch.no_grad()
    def for_inference(self) -> "PosFormer":
        """This model without its training-only parts, sharing the weights."""
        self.position = self.symbol_map = None
        return self.eval()


def _entities(config: ModelConfig, vocabulary: Vocabulary) -> Tensor:
    """1 for words whose attention counts as coverage, 0 for structure; float (words)."""
    refinement = config.decoder.refinement
    structure = [
        refinement is not None and refinement.leaves_out(word) for word in vocabulary.words
    ]
    special = [False] * (len(vocabulary) - len(structure))
    return 1.0 - torch.tensor(special + structure, dtype=torch.float32)
