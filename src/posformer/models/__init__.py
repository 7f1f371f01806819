"""Recognition models, their config, model folders and ONNX export.

This package imports only the configs. The networks need PyTorch; import them from their modules.
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
