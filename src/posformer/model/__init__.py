"""The recogniser: encoder, attention, decoder and position heads.

Only the settings are imported here; the networks need PyTorch and are imported by name.
"""

from posformer.model.config import (
    ConfigError,
    CountingDecoderConfig,
    DecoderConfig,
    EncoderConfig,
    ModelConfig,
    MutualDecoderConfig,
    OwnDecoderConfig,
    PictureConfig,
    PositionConfig,
    RecurrentDecoderConfig,
    RefinementConfig,
)

__all__ = [
    "ConfigError",
    "CountingDecoderConfig",
    "DecoderConfig",
    "EncoderConfig",
    "ModelConfig",
    "MutualDecoderConfig",
    "OwnDecoderConfig",
    "PictureConfig",
    "PositionConfig",
    "RecurrentDecoderConfig",
    "RefinementConfig",
]
