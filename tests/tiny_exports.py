"""Small models of every kind that tests export."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace

import torch

from posformer.models import ModelConfig, RefinementConfig
from posformer.models.base import RecognitionModel
from posformer.models.posformer import PosFormer
from tiny import tiny_config, tiny_model, tiny_recurrent, tiny_transformer


def with_decoder(**changes: object) -> ModelConfig:
    config = tiny_config()
    return replace(config, decoder=replace(config.decoder, **changes))


@torch.no_grad()
def decisive_model() -> PosFormer:
    """A model whose random answers soon come to an end."""
    model = tiny_model(3)
    model.decoder.head.weight.mul_(3)
    model.decoder.head.bias[[model.vocabulary.sos, model.vocabulary.eos]] += 2.5
    return model


MODELS: dict[str, Callable[[], RecognitionModel]] = {
    "tiny": decisive_model,
    "masked by input": lambda: tiny_model(
        1, with_decoder(refinement=RefinementConfig(6, masked_by="input"), layers=2)
    ),
    "bttr": lambda: tiny_model(1, with_decoder(refinement=None, directions="forward", layers=1)),
    "dwap": lambda: tiny_recurrent("dwap", position="heads"),
    "abm": lambda: tiny_recurrent("abm", position="heads"),
    "can": lambda: tiny_recurrent("can", position="heads"),
    "san": lambda: tiny_recurrent("san"),
    "dwap_san": lambda: tiny_recurrent("dwap_san"),
    "tamer": lambda: tiny_transformer("tamer"),
}


@contextmanager
def without_coverage() -> Iterator[None]:
    """Pause the measurement of coverage, which nearly doubles the time of an ONNX export."""
    trace = sys.gettrace()
    sys.settrace(None)
    try:
        yield
    finally:
        sys.settrace(trace)
