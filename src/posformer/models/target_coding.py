"""The targets of decoders that do not predict the tokens of a caption one by one.

A target coding converts captions to the steps of such a decoder, and what a search found back to
captions. It is found by the config of the decoder and needs no PyTorch, so that training, the
search and all runtimes share it.
"""

import importlib
from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol, runtime_checkable

from posformer.errors import ConfigError
from posformer.latex import Vocabulary
from posformer.models.model_config import ModelConfig


class TargetSteps(NamedTuple):
    """The steps of one caption with teacher forcing."""

    input_ids: list[int]
    target_ids: list[int]  # of each input
    sources: list[int]  # index of the caption token whose ink a step reads; -1 for none


class TargetCoding(Protocol):
    """Converts captions to the steps of a decoder and back.

    Ids of tokens are those of the vocabulary; further ids stand for decisions that are no token.
    The first input is `<sos>` and the last target `<eos>`.
    """

    def encode(self, tokens: Sequence[str], allow_unknown: bool = False) -> TargetSteps:
        """Return the steps of a caption.

        Args:
            tokens: The caption.
            allow_unknown: Accept tokens that the vocabulary lacks, as targets that are never
                right.

        Raises:
            UnknownTokenError: The vocabulary lacks a token.
        """

    def decode(self, steps: Sequence[Any]) -> list[str]:
        """Return the caption of decoded steps, without start and end."""

    def max_steps(self, tokens: int) -> int:
        """Return how many steps a caption of so many tokens takes at most, without the end."""


@runtime_checkable
class ParallelCoding(Protocol):
    """The coding of a decoder with several tokens per step; see `search.parallel`.

    Such a step is a tuple of ids, one for each input of the step.
    """

    def next_inputs(self, inputs: tuple[int, ...], chosen: tuple[int, ...]) -> tuple[int, ...]:
        """Return the inputs of the step that follows when `chosen` were decoded from `inputs`."""


def open_target_coding(config: ModelConfig, vocabulary: Vocabulary) -> TargetCoding | None:
    """Return the target coding of a model; None for models that decode captions token by token."""
    path = getattr(config.decoder, "targets", None)
    if path is None:
        return None
    module, _, attribute = path.partition(":")
    try:
        coding: type[TargetCoding] = getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError, ValueError) as error:
        raise ConfigError(f"decoder.targets: cannot import {path!r}: {error}") from error
    return coding(vocabulary)  # type: ignore[call-arg]


def token_id(vocabulary: Vocabulary, token: str, allow_unknown: bool) -> int:
    """Return the id of a token; with `allow_unknown`, `<pad>` for one that is not known."""
    if allow_unknown and token not in vocabulary:
        return vocabulary.pad
    return vocabulary.index(token)
