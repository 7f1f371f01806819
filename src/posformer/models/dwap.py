"""DWAP: DenseNet encoder and GRU decoder with coverage attention (Zhang et al. 2018).

Widths are those of the publication and its successors. Two pairs of linear maps that follow each
other are merged: coverage is convolved directly to the attention width, and the values of the
attention are projected once per image instead of at every step.

Its settings also cover three published variants:

* WS-WAP (Truong et al. 2020), `symbol_classifier`: see `posformer.models.symbol_classifier`.
* Li et al. (2020), `drop_attention`: the most attended cells are dropped at random in training. The
  remaining weights are not rescaled, and coverage counts all of them.
* Ding et al. (2021), `heads` and `layers`: every head has its own coverage, and every layer reads
  the hidden state of the one below.
"""

from collections.abc import Mapping
from typing import ClassVar

from torch import Tensor, nn

from posformer.latex import Vocabulary
from posformer.models.base import (
    LayerAttention,
    RecognitionModel,
    StepOutput,
    SummedLoss,
    TrainingOutput,
    cross_entropy,
)
from posformer.models.encoder import Features, MapEncoder
from posformer.models.model_config import ModelConfig, RecurrentDecoderConfig
from posformer.models.position_head import PositionHead
from posformer.models.pytree import Pytree
from posformer.models.recurrent import Decoded, RecurrentDecoder, RecurrentStack
from posformer.models.symbol_classifier import SymbolClassifier

Losses = dict[str, SummedLoss]


class Dwap(RecognitionModel):
    """DWAP; decodes from left to right."""

    training_only: ClassVar[tuple[str, ...]] = (*RecognitionModel.training_only, "classifier")
    settings_class: ClassVar[type[RecurrentDecoderConfig]] = RecurrentDecoderConfig
    decoder_class: ClassVar[type[RecurrentDecoder]] = RecurrentDecoder

    encoder: MapEncoder

    def __init__(self, config: ModelConfig, vocabulary: Vocabulary) -> None:
        super().__init__(config, vocabulary)
        self.settings = config.decoder_as(self.settings_class)
        self.encoder = MapEncoder(config.encoder)
        sizes = self.encoder.width, len(vocabulary)
        self.decoder = self.decoder_class(self.settings, *sizes)
        self.position: PositionHead | None = None
        if config.position is not None:
            separate = config.position.form == "separate"
            own = RecurrentStack(self.settings, *sizes) if separate else None
            width, embedding = self.settings.width, self.settings.embedding
            self.position = PositionHead(config.position, width, own, embedding)
        self.symbol_map = nn.Linear(*sizes) if config.symbol_map else None
        self.classifier: SymbolClassifier | None = None
        if self.settings.symbol_classifier:
            self.classifier = SymbolClassifier(self.encoder.width, vocabulary)

    @property
    def vocabulary_axes(self) -> Mapping[str, int]:
        """Names of parameters with one entry per token, and the axis of the tokens."""
        names = ["decoder.symbols.weight", "decoder.classify.weight", "decoder.classify.bias"]
        names += ["classifier.predict.weight", "classifier.predict.bias"]
        return {**super().vocabulary_axes, **dict.fromkeys(names, 0)}

    def prepare_memory(self, features: Features) -> Pytree:
        """Return the projections of the images, and of their symbol counts, if any."""
        return self.decoder.prepare_memory(features, self._counts(features))

    def initial_cache(self, memory: Pytree, beams: int = 1) -> Pytree:
        """Return the cache before the first token."""
        return self.decoder.initial_cache(memory, beams)

    def step(self, input_ids: Tensor, memory: Pytree, cache: Pytree) -> StepOutput:
        """Return the log-probabilities of the tokens that follow `input_ids`."""
        decoded = self.decoder(input_ids, memory, cache)
        attention: list[LayerAttention] = [
            (weights, weights, None) for weights in decoded.attention
        ]
        return StepOutput(decoded.logits.log_softmax(-1), decoded.cache, attention)

    def forward_decoder(
        self,
        features: Features,
        input_ids: Tensor,
        identifiers: Tensor | None = None,
        target_ids: Tensor | None = None,
    ) -> TrainingOutput:
        """Run the part of `forward` after the encoder."""
        counts = self._counts(features)
        decoded = self._decode(input_ids, features, counts)
        position = None
        if self.position is not None:
            own = self.position.stack
            stack = own if own is not None else self.decoder.stack
            memory = stack.prepare_memory(features, counts)
            position = self.position(
                decoded.states, identifiers, lambda ids: stack(ids, memory).states
            )
        symbols = self.symbol_map(features.cells) if self.symbol_map is not None else None
        losses: Losses = {}
        if target_ids is not None:
            losses = self._losses(decoded, counts, target_ids)
            losses |= {
                name: cross_entropy(logits, target_ids) for name, logits in decoded.further.items()
            }
            if self.classifier is not None:
                losses["symbols"] = self.classifier.loss(features, target_ids)
        return TrainingOutput(
            decoded.logits, position, symbols, decoded.attention, features, losses
        )

    def _counts(self, features: Features) -> Tensor | None:
        """Return symbol counts (branches, batch, vocab_size) of a model that counts."""
        return None

    def _decode(self, input_ids: Tensor, features: Features, counts: Tensor | None) -> Decoded:
        """Decode all steps."""
        return self.decoder(input_ids, self.decoder.prepare_memory(features, counts))

    def _losses(self, decoded: Decoded, counts: Tensor | None, target_ids: Tensor) -> Losses:
        """Return the losses of the model itself."""
        return {}
