"""Small models with random weights, for tests that need a network but not its knowledge."""

from dataclasses import replace
from typing import TypeVar

import numpy as np
import torch

from posformer.latex import Vocabulary
from posformer.models import (
    DecoderConfig,
    EncoderConfig,
    ModelConfig,
    PositionConfig,
    RefinementConfig,
)
from posformer.models.base import RecognitionModel
from posformer.models.posformer import PosFormer
from posformer.models.registry import create_model

Model = TypeVar("Model", bound=RecognitionModel)

# At this size threads that wait for each other cost far more than they give.
torch.set_num_threads(1)

VOCABULARY = Vocabulary(
    ["(", ")", "+", "-", "1", "2", "=", r"\frac", r"\sqrt", "^", "_", "a", "x", "{", "}"]
)


def tiny_config(**changes: object) -> ModelConfig:
    config = ModelConfig(
        encoder=EncoderConfig(growth=4, layers=(1, 2, 1), dropout=0.0),
        decoder=DecoderConfig(
            width=32,
            heads=4,
            layers=3,
            feedforward=48,
            dropout=0.0,
            attention_dropout=0.0,
            refinement=RefinementConfig(channels=6),
        ),
        position=PositionConfig(form="heads"),
    )
    return replace(config, **changes)


def tiny_model(seed: int = 0, config: ModelConfig | None = None) -> PosFormer:
    """A small PosFormer, or a model derived from it, in which no part can hide."""
    torch.manual_seed(seed)
    model = scrambled(create_model(config or tiny_config(), VOCABULARY))
    assert isinstance(model, PosFormer)
    with torch.no_grad():
        if model.decoder.stack.refinement is not None:
            # Enough correction to change what is decoded.
            model.decoder.stack.refinement.norm.weight.mul_(3)
    return model


def tiny_recurrent(
    name: str, settings: dict[str, object] | None = None, **changes: object
) -> RecognitionModel:
    """A small DWAP or a model derived from it in which no part can hide."""
    decoder: dict[str, object] = {"width": 24, "embedding": 20, "attention": 16, "dropout": 0.0}
    decoder["coverage"] = [3, 5] if name == "abm" else [5]
    if name == "can":
        decoder |= {"counting_channels": 12, "counting_reduction": 4}
    if name == "rlfn":
        language = {"width": 16, "heads": 2, "layers": 2, "feedforward": 20, "dropout": 0.0}
        decoder["language"] = language
    decoder |= settings or {}
    encoder = {"growth": 4, "layers": [1, 2, 1], "dropout": 0.0}
    values = {"name": name, "encoder": encoder, "decoder": decoder, **changes}
    torch.manual_seed(0)
    return scrambled(create_model(ModelConfig.from_dict(values), VOCABULARY))


@torch.no_grad()
def scrambled(model: Model) -> Model:
    """A model whose norms, biases and statistics are not the identity."""
    for name, value in model.state_dict().items():
        if name.endswith("running_var"):
            value.uniform_(0.5, 2.0)
        elif name.endswith("running_mean"):
            value.normal_(0, 0.2)
        elif value.ndim == 1 and value.is_floating_point():
            value.add_(torch.randn_like(value) * 0.2)
    return model.eval()


def random_images(seed: int, sizes: list[tuple[int, int]]) -> list[np.ndarray]:
    rng = np.random.default_rng(seed)
    return [((rng.random(size) < 0.2) * 255).astype(np.uint8) for size in sizes]


def tiny_transformer(name: str, **changes: object) -> RecognitionModel:
    """A small model with a Transformer decoder in which no part can hide."""
    decoder: dict[str, object] = {"width": 32, "heads": 4, "layers": 2, "feedforward": 48}
    decoder |= {"dropout": 0.0, "attention_dropout": 0.0}
    encoder = {"growth": 4, "layers": [1, 2, 1], "dropout": 0.0}
    values = {"name": name, "encoder": encoder, "decoder": decoder, **changes}
    torch.manual_seed(0)
    return scrambled(create_model(ModelConfig.from_dict(values), VOCABULARY))
