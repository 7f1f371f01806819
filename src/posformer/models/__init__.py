"""Recognition models, their config, model folders and ONNX export.

This package imports only the configs. The networks need PyTorch; import them from their modules.
"""

from posformer.models.model_config import (
    BpdDecoderConfig,
    CountingDecoderConfig,
    DecoderConfig,
    DistributionDecoderConfig,
    EncoderConfig,
    FusionDecoderConfig,
    ImageConfig,
    LanguageModelConfig,
    LineDecoderConfig,
    ModelConfig,
    MutualDecoderConfig,
    OwnDecoderConfig,
    PositionConfig,
    RecurrentDecoderConfig,
    RefinementConfig,
    SanDecoderConfig,
    TsdnetDecoderConfig,
)

__all__ = [
    "BpdDecoderConfig",
    "CountingDecoderConfig",
    "DecoderConfig",
    "DistributionDecoderConfig",
    "EncoderConfig",
    "FusionDecoderConfig",
    "ImageConfig",
    "LanguageModelConfig",
    "LineDecoderConfig",
    "ModelConfig",
    "MutualDecoderConfig",
    "OwnDecoderConfig",
    "PositionConfig",
    "RecurrentDecoderConfig",
    "RefinementConfig",
    "SanDecoderConfig",
    "TsdnetDecoderConfig",
]
