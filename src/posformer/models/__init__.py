"""The recognizer: encoder, attention, decoder and position heads.

Only the settings are imported here; the networks need PyTorch and are imported by name.
"""

from posformer.models.model_config import (
    CountingDecoderConfig,
    DecoderConfig,
    EncoderConfig,
    ImageConfig,
    ModelConfig,
    MutualDecoderConfig,
    OwnDecoderConfig,
    PositionConfig,
    RecurrentDecoderConfig,
    RefinementConfig,
)

__all__ = [
    "CountingDecoderConfig",
    "DecoderConfig",
    "EncoderConfig",
    "ImageConfig",
    "ModelConfig",
    "MutualDecoderConfig",
    "OwnDecoderConfig",
    "PositionConfig",
    "RecurrentDecoderConfig",
    "RefinementConfig",
]
