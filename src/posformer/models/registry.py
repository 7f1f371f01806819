"""Models by name: those of the package, and your own as `package.module:Class`.

A new model of the package is one file in this folder and one line in `MODELS`.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from posformer.errors import ConfigError
from posformer.latex import Vocabulary
from posformer.models.model_config import (
    AnyDecoderConfig,
    BpdDecoderConfig,
    CountingDecoderConfig,
    DecoderConfig,
    DistributionDecoderConfig,
    FusionDecoderConfig,
    LineDecoderConfig,
    ModelConfig,
    MutualDecoderConfig,
    RecurrentDecoderConfig,
    SanDecoderConfig,
    TsdnetDecoderConfig,
)

if TYPE_CHECKING:
    from posformer.models.base import RecognitionModel  # imports PyTorch

# Class and decoder config by name.
MODELS: dict[str, tuple[str, type[AnyDecoderConfig]]] = {
    "posformer": ("posformer.models.posformer:PosFormer", DecoderConfig),
    "dwap": ("posformer.models.dwap:Dwap", RecurrentDecoderConfig),
    "abm": ("posformer.models.abm:Abm", MutualDecoderConfig),
    "can": ("posformer.models.can:Can", CountingDecoderConfig),
    "ical": ("posformer.models.ical:Ical", DecoderConfig),
    "ssan": ("posformer.models.ssan:Ssan", DistributionDecoderConfig),
    "rlfn": ("posformer.models.rlfn:Rlfn", FusionDecoderConfig),
    "last": ("posformer.models.last:Last", LineDecoderConfig),
    "robust_scanner": ("posformer.models.robust_scanner:RobustScanner", RecurrentDecoderConfig),
    "san": ("posformer.models.san:San", SanDecoderConfig),
    "dwap_san": ("posformer.models.dwap_san:DwapSan", RecurrentDecoderConfig),
    "bpd": ("posformer.models.bpd:Bpd", BpdDecoderConfig),
    "tamer": ("posformer.models.tamer:Tamer", DecoderConfig),
    "tsdnet": ("posformer.models.tsdnet:Tsdnet", TsdnetDecoderConfig),
}


def create_model(config: ModelConfig, vocabulary: Vocabulary) -> RecognitionModel:
    """Return a new model with random weights."""
    return model_class(config.name)(config, vocabulary)


def model_class(name: str) -> type[RecognitionModel]:
    """Return the class of a model.

    Args:
        name: a name in `MODELS`, or `package.module:Class`.

    Raises:
        ConfigError: If there is no such module or no such model in it.
    """
    from posformer.models.base import RecognitionModel

    path = MODELS[name][0] if name in MODELS else name
    module, _, attribute = path.partition(":")
    try:
        found = getattr(importlib.import_module(module), attribute, None)
    except ModuleNotFoundError as error:
        if error.name is None or not module.startswith(error.name):
            raise  # a dependency of the module is missing
        raise ConfigError(
            f"model.name: cannot import {module!r}; is its folder on PYTHONPATH, or its package "
            "installed?"
        ) from error
    except ValueError as error:  # an empty name
        raise ConfigError(f"model.name: {name!r} is not 'package.module:Class'") from error
    if not (isinstance(found, type) and issubclass(found, RecognitionModel)):
        raise ConfigError(f"model.name: {module!r} has no RecognitionModel called {attribute!r}")
    return found
