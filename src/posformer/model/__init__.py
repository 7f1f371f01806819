"""The recogniser: encoder, attention, decoder and position heads.

Only the settings are imported here; the networks need PyTorch and are imported by name.
"""

from posformer.model.config import (
    ConfigError,
    DecoderConfig,
    EncoderConfig,
    ModelConfig,
    PictureConfig,
    PositionConfig,
    RefinementConfig,
)

__all__ = [
    "ConfigError",
    "DecoderConfig",
    "EncoderConfig",
    "ModelConfig",
    "PictureConfig",
    "PositionConfig",
    "RefinementConfig",
]
