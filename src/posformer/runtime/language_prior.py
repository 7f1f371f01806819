"""The language model of a model folder, and its weight in the search."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from posformer.errors import ConfigError
from posformer.models.model_config import from_dict
from posformer.models.model_folder import LANGUAGE, ModelFolder
from posformer.search import DecodingOptions, NgramModel, Prior, no_prior

if TYPE_CHECKING:
    from posformer.runtime.engine import Runtime


@dataclass(frozen=True)
class LanguageWeight:
    """The `language` entry in the info of a model."""

    weight: float = 0.0  # see `DecodingOptions.language_weight`
    data: str = ""  # description of the validation data on which it was chosen

    @classmethod
    def from_info(cls, info: Mapping[str, Any]) -> LanguageWeight:
        """Return the entry of an info.

        Raises:
            ConfigError: If it is not a weight.
        """
        stored = info.get("language", {})
        if not isinstance(stored, dict):
            raise ConfigError(f"language: {stored!r} has no weight")
        return from_dict(cls, stored)


def load_language(folder: ModelFolder) -> NgramModel | None:
    """Return the language model of a folder for the vocabulary of its model, if it has one."""
    if not folder.has(LANGUAGE):
        return None
    return NgramModel.load(folder.file(LANGUAGE)).for_vocabulary(folder.vocabulary)


def prior_of(runtime: Runtime, options: DecodingOptions) -> Prior:
    """Return the prior of the sequences in a search."""
    weight = options.language_weight
    if weight is None:
        weight = LanguageWeight.from_info(runtime.info).weight
    if runtime.language is None:
        return no_prior
    return runtime.language.prior(weight, options.length_power)
