"""Small models of every kind that tests export."""

from collections.abc import Callable
from dataclasses import replace

from posformer.models import ModelConfig, RefinementConfig
from posformer.models.base import RecognitionModel
from tiny import tiny_config, tiny_model, tiny_recurrent


def with_decoder(**changes: object) -> ModelConfig:
    config = tiny_config()
    return replace(config, decoder=replace(config.decoder, **changes))


MODELS: dict[str, Callable[[], RecognitionModel]] = {
    "posformer": lambda: tiny_model(1),
    "masked by input": lambda: tiny_model(
        1, with_decoder(refinement=RefinementConfig(6, masked_by="input"), layers=2)
    ),
    "bttr": lambda: tiny_model(1, with_decoder(refinement=None, directions="forward", layers=1)),
    "dwap": lambda: tiny_recurrent("dwap", position="heads"),
    "abm": lambda: tiny_recurrent("abm", position="heads"),
    "can": lambda: tiny_recurrent("can", position="heads"),
}
