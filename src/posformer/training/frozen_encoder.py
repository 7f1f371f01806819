"""A pretrained encoder, or its first blocks, that training does not change."""

import hashlib
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from torch import nn

from posformer.errors import ConfigError
from posformer.models.checkpoint import load_model
from posformer.models.encoder import DenseNet
from posformer.models.model_config import ModelConfig
from posformer.runtime.engine import model_path
from posformer.training.training_config import FrozenConfig, TrainingConfig

_DEFAULT = "default"  # the bundled model


@dataclass(frozen=True)
class FrozenEncoder:
    """The convolutional network of a trained model, without its decoder."""

    net: DenseNet
    config: ModelConfig  # of the trained model
    digest: str  # hash of weights and settings

    @classmethod
    def load(
        cls, config: FrozenConfig, checkpoint: Path | None = None, allow_code: bool | str = False
    ) -> "FrozenEncoder":
        """Load the encoder that a config names.

        Args:
            config: The `frozen` section of the config.
            checkpoint: Checkpoint of a run to resume. Its encoder is loaded instead, because the
                model that the config names may have changed since.
            allow_code: See `load_model`.
        """
        named = None if config.encoder == _DEFAULT else config.encoder
        model = load_model(checkpoint or model_path(named), allow_code)
        net = dense_net(model).requires_grad_(False).eval()
        return cls(net, model.config, _digest(net, model.config))

    def adapt_config(self, config: TrainingConfig) -> TrainingConfig:
        """Return the config with the encoder's settings and image size."""
        model = replace(config.model, encoder=self.config.encoder, image=self.config.image)
        return replace(config, model=model)

    def copy_to(self, model: nn.Module) -> None:
        """Copy this encoder into a model and freeze it."""
        own = dense_net(model)
        own.load_state_dict(self.net.state_dict())
        own.requires_grad_(False)


def dense_net(model: nn.Module) -> DenseNet:
    """Return the convolutional network of a recognizer."""
    found = [part for part in model.modules() if isinstance(part, DenseNet)]
    if len(found) != 1:
        name = type(model).__name__
        raise ConfigError(f"{name}: has {len(found)} encoders; freezing needs exactly one")
    return found[0]


def freeze_blocks(model: nn.Module, blocks: int) -> None:
    """Freeze the stem and the first dense blocks of a recognizer's encoder.

    Raises:
        ConfigError: If the encoder has fewer blocks.
    """
    if not blocks:
        return
    net = dense_net(model)
    count = len(net.blocks)
    if not 0 < blocks <= count:
        raise ConfigError(f"optimizer.frozen_blocks: {blocks}, but the encoder has {count} blocks")
    for part in (net.stem, net.stem_norm, *net.blocks[:blocks], *net.transitions[:blocks]):
        part.requires_grad_(False)


def _digest(net: DenseNet, config: ModelConfig) -> str:
    digest = hashlib.sha256(repr((config.encoder, config.image)).encode())
    for name, value in sorted(net.state_dict().items()):
        digest.update(name.encode())
        digest.update(value.detach().to(torch.float32).contiguous().numpy().tobytes())
    return digest.hexdigest()[:16]
