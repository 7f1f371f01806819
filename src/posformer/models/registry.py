"""Which class an architecture is: the package's by name, your own as `package.module:Class`."""

import importlib

from posformer.errors import ConfigError
from posformer.latex import Vocabulary
from posformer.models.base import RecognitionModel
from posformer.models.model_config import ModelConfig

__all__ = ["create_model", "model_class"]

_OWN = {
    "posformer": "posformer.models.posformer:PosFormer",
    "dwap": "posformer.models.dwap:Dwap",
    "abm": "posformer.models.abm:Abm",
    "can": "posformer.models.can:Can",
}


def create_model(config: ModelConfig, vocabulary: Vocabulary) -> RecognitionModel:
    """A new model with random weights."""
    return model_class(config.name)(config, vocabulary)


def model_class(name: str) -> type[RecognitionModel]:
    """The class of an architecture.

    Raises:
        ConfigError: If there is no such module, or nothing in it that is a recognizer.
    """
    module, _, attribute = _OWN.get(name, name).partition(":")
    try:
        found = getattr(importlib.import_module(module), attribute, None)
    except ModuleNotFoundError as error:
        if error.name is None or not module.startswith(error.name):
            raise  # something that the module itself needs
        raise ConfigError(
            f"model.name: cannot import {module!r}; is its folder on PYTHONPATH, or its package "
            "installed?"
        ) from error
    except ValueError as error:  # an empty name
        raise ConfigError(f"model.name: {name!r} is not 'package.module:Class'") from error
    if not (isinstance(found, type) and issubclass(found, RecognitionModel)):
        raise ConfigError(f"model.name: {module!r} has no RecognitionModel called {attribute!r}")
    return found
