"""RLFN: DWAP whose output a language model corrects (EMNLP 2023).

The language model reads the distributions that the recognizer puts out, predicts every token from
them, and a gate fuses its states with those of the recognizer. Recognizer, language model and the
fused states have a cross-entropy each (`recognizer`, `language`, recognition).

Decisions where the publication leaves room:

* The mask of the language model hides a token and all tokens after it, so that decoding stays step
  by step and beam search works as for every other model.
* What the language model reads at a step is the mean of the recognizer's distribution and the token
  that was decoded. Without the token, all beams would look alike to it; in training it is the token
  of the caption.
* No gradient passes from the language model to the recognizer.
* `language_model` in the config names a language model trained on formula texts to start from.
"""

from collections.abc import Mapping
from typing import ClassVar, NamedTuple, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from posformer.latex import Vocabulary
from posformer.models.decoder import LayerCache
from posformer.models.dwap import Dwap
from posformer.models.gated_fusion import GatedFusion
from posformer.models.language_model import LanguageModel
from posformer.models.model_config import FusionDecoderConfig, RecurrentDecoderConfig
from posformer.models.pytree import Pytree
from posformer.models.recurrent import Decoded, RecurrentCache, RecurrentDecoder


class FusionCache(NamedTuple):
    """Cache of the recognizer and the language model."""

    recurrent: list[RecurrentCache]
    language: list[LayerCache]
    distribution: Tensor  # float (batch, beams, vocab_size): output of the step before


class FusionDecoder(RecurrentDecoder):
    """DWAP's decoder with a language model."""

    def __init__(self, config: RecurrentDecoderConfig, channels: int, vocab_size: int) -> None:
        super().__init__(config, channels, vocab_size)
        assert isinstance(config, FusionDecoderConfig)
        self.language = LanguageModel(config.language, vocab_size)
        self.adapt = nn.Linear(config.language.width, config.width)
        self.fusion = GatedFusion(config.width)
        self.fused = nn.Linear(config.width, vocab_size)

    def initial_cache(self, memory: Pytree, beams: int) -> FusionCache:
        """Return the cache before the first token."""
        like = memory.layers[0].start
        certain = F.one_hot(torch.tensor(Vocabulary.sos), self.fused.out_features)
        distribution = certain.to(like).expand(len(like), beams, -1)
        recurrent = self.stack.initial_cache(memory, beams)
        return FusionCache(recurrent, self.language.initial_cache(like, beams), distribution)

    def forward(self, input_ids: Tensor, memory: Pytree, cache: Pytree = None) -> Decoded:
        """Decode new steps; see `RecurrentDecoder.forward`."""
        known = cast(FusionCache, cache or self.initial_cache(memory, input_ids.shape[1]))
        output = self.stack(self.symbols(input_ids), memory, known.recurrent)
        recognized = self.classify(F.dropout(output.states, self.dropout, self.training))
        seen = recognized.detach().softmax(-1)
        earlier = torch.cat((known.distribution[:, :, None], seen[:, :, :-1]), dim=2)
        embed = self.language.embed
        language = self.language((embed(input_ids) + earlier @ embed.weight) / 2, known.language)
        fused = self.fusion(output.states, self.adapt(language.states))
        logits = self.fused(F.dropout(fused, self.dropout, self.training))
        new_cache = FusionCache(output.cache, language.cache, seen[:, :, -1])
        further = {"recognizer": recognized, "language": language.logits}
        return Decoded(logits, fused, output.attention, new_cache, further)


class Rlfn(Dwap):
    """RLFN, with the additional losses `recognizer` and `language`."""

    settings_class: ClassVar[type[RecurrentDecoderConfig]] = FusionDecoderConfig
    decoder_class: ClassVar[type[RecurrentDecoder]] = FusionDecoder

    @property
    def language(self) -> LanguageModel:
        """The language model."""
        return cast(FusionDecoder, self.decoder).language

    @property
    def vocabulary_axes(self) -> Mapping[str, int]:
        """Names of parameters with one entry per token, and the axis of the tokens."""
        names = [f"decoder.language.{name}" for name in LanguageModel.by_token]
        names += ["decoder.fused.weight", "decoder.fused.bias"]
        return {**super().vocabulary_axes, **dict.fromkeys(names, 0)}
