"""An encoder that is taken over from another model and stays as it is."""

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

__all__ = ["FrozenEncoder", "dense_net", "freeze_blocks"]

_DEFAULT = "default"  # stands for the model that comes along


@dataclass(frozen=True)
class FrozenEncoder:
    """The convolutional network of a trained model; all that comes behind it is left out."""

    net: DenseNet
    config: ModelConfig  # of the model that it comes from
    digest: str  # tells its weights and settings from any others

    @classmethod
    def load(cls, config: FrozenConfig, checkpoint: Path | None = None) -> "FrozenEncoder":
        """The encoder that a config names.

        Args:
            config: the config's `frozen`.
            checkpoint: of the run that goes on: it holds the encoder that the run began with, while
                the model that the config names may be another by now.
        """
        named = None if config.encoder == _DEFAULT else config.encoder
        model = load_model(checkpoint or model_path(named))
        net = dense_net(model).requires_grad_(False).eval()
        return cls(net, model.config, _digest(net, model.config))

    def settle(self, config: TrainingConfig) -> TrainingConfig:
        """The config with the encoder's own settings, and images in the size that it knows."""
        model = replace(config.model, encoder=self.config.encoder, image=self.config.image)
        return replace(config, model=model)

    def put_into(self, model: nn.Module) -> None:
        """Gives a model this encoder, not to be trained."""
        own = dense_net(model)
        own.load_state_dict(self.net.state_dict())
        own.requires_grad_(False)


def dense_net(model: nn.Module) -> DenseNet:
    """The convolutional network of a recognizer, whatever it calls it."""
    found = [part for part in model.modules() if isinstance(part, DenseNet)]
    if len(found) != 1:
        raise ConfigError(f"{type(model).__name__}: has {len(found)} encoders to freeze, not one")
    return found[0]


def freeze_blocks(model: nn.Module, blocks: int) -> None:
    """Keeps the first blocks of a recognizer's encoder, with all before them, as they are.

    Raises:
        ConfigError: If the encoder has fewer blocks.
    """
    if not blocks:
        return
    net = dense_net(model)
    if not 0 < blocks <= len(net.blocks):
        raise ConfigError(
            f"optimizer.frozen_blocks: {blocks}, but the encoder has {len(net.blocks)} blocks"
        )
    for part in (net.stem, net.stem_norm, *net.blocks[:blocks], *net.transitions[:blocks]):
        part.requires_grad_(False)


def _digest(net: DenseNet, config: ModelConfig) -> str:
    digest = hashlib.sha256(repr((config.encoder, config.image)).encode())
    for name, value in sorted(net.state_dict().items()):
        digest.update(name.encode())
        digest.update(value.detach().to(torch.float32).contiguous().numpy().tobytes())
    return digest.hexdigest()[:16]
