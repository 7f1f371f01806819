"""What a recognizer is to the rest of the program; every architecture is one of these.

Training, search, evaluation and export know a recognizer by this interface alone. What it remembers
of images and what it keeps of the tokens behind it are nests of tensors (tuples, lists, mappings,
`None`) that only the model itself looks into.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, TypeVar

import torch
from torch import Tensor, nn

from posformer.latex import Vocabulary
from posformer.models.encoder import Features
from posformer.models.model_config import ModelConfig
from posformer.models.position_head import PositionLogits

__all__ = ["Look", "Nest", "RecognitionModel", "SummedLoss", "TrainingOutput"]

Nest = Any  # tensors, or tuples, lists and mappings of nests, or None
_Model = TypeVar("_Model", bound="RecognitionModel")


class SummedLoss(NamedTuple):
    """A loss that a model brings along, over one batch; the trainer divides across processes."""

    total: Tensor  # float ()
    terms: Tensor  # float (), how many there are in it


class TrainingOutput(NamedTuple):
    """What the losses are made of."""

    logits: Tensor  # float (images, rows, steps, words)
    position: PositionLogits | None
    symbol_map: Tensor | None  # float (images, height, width, words): the symbol of each cell
    attention: list[Tensor]  # a layer: float (images, rows, steps, heads, cells)
    features: Features
    losses: Mapping[str, SummedLoss] = {}  # the model's own, by name; weighed by the config


class Look(NamedTuple):
    """Where one layer looks; tensors are float (images, rows, steps, heads, cells)."""

    weights: Tensor  # that are used
    raw: Tensor  # before refinement
    correction: Tensor | None  # what refinement takes off the scores; None without


class RecognitionModel(nn.Module, ABC):
    """An image to tokens: `encode` and `step` are inference, `forward` is training.

    A model is made from its settings and its words, and has an `encoder`, a module that turns
    images (images, 1, height, width) and their padding (images, height, width) into
    `Features`, one cell for 16×16 pixels. Rows are hypotheses in search, and directions in
    training: row 0 is left to right, row 1, if there is one, right to left.
    """

    training_only: ClassVar[tuple[str, ...]] = ("position", "symbol_map")  # absent at inference

    encoder: nn.Module

    def __init__(self, config: ModelConfig, vocabulary: Vocabulary) -> None:
        super().__init__()
        self.config, self.vocabulary = config, vocabulary

    @property
    def word_axes(self) -> Mapping[str, int]:
        """Parameters with an entry for each word, and along which axis.

        They are filled word by word when a model starts from one with another vocabulary.
        """
        return {"symbol_map.weight": 0, "symbol_map.bias": 0}

    def encode(self, images: Tensor, padding: Tensor) -> Nest:
        """What `step` needs to know of images: tensors whose first axis counts images."""
        return self.remember(self.encoder(images, padding))

    @abstractmethod
    def remember(self, features: Features) -> Nest:
        """The same from the encoder's features."""

    @abstractmethod
    def step(self, tokens: Tensor, memory: Nest, past: Nest) -> tuple[Tensor, Nest]:
        """Feed tokens and tell what follows each of them.

        Args:
            tokens: int64 (images, rows, steps).
            memory: of the images.
            past: what was kept of earlier steps; None at the start.

        Returns:
            Log-probabilities float (images, rows, steps, words), and what to keep: tensors whose
            first axes count images and rows.
        """

    def forward(
        self,
        images: Tensor,
        padding: Tensor,
        tokens: Tensor,
        identifiers: Tensor | None = None,
        targets: Tensor | None = None,
    ) -> TrainingOutput:
        """One pass with the true tokens fed in.

        Args:
            images: float (images, 1, height, width).
            padding: bool (images, height, width), true outside the image.
            tokens: int64 (images, rows, steps), each row a direction.
            identifiers: float (images, rows, steps, letters) of the tokens fed in, for the
                forms of the position forest that take them.
            targets: int64 (images, rows, steps), the tokens to predict, negative where none is;
                for models with losses of their own.
        """
        return self.forward_decoder(self.encoder(images, padding), tokens, identifiers, targets)

    @abstractmethod
    def forward_decoder(
        self,
        features: Features,
        tokens: Tensor,
        identifiers: Tensor | None = None,
        targets: Tensor | None = None,
    ) -> TrainingOutput:
        """The part of `forward` behind the encoder, which may be frozen and its features stored."""

    def looks(self, tokens: Tensor, memory: Nest) -> list[Look]:
        """Where each layer looks while whole sequences are read; empty if the model cannot tell.

        Args:
            tokens: int64 (images, rows, steps), start token first.
            memory: of the images.
        """
        return []

    def write_onnx(self, folder: Path, half: bool = False) -> dict[str, Path]:
        """Write what runs the model without PyTorch.

        Args:
            folder: where to.
            half: store weights in half precision.

        Returns:
            `encoder.onnx` and `decoder.onnx` by name (see docs/own-model.md for what goes in and
            out of them); nothing if only PyTorch can run the model.
        """
        return {}

    @torch.no_grad()
    def for_inference(self: _Model) -> _Model:
        """This model without its training-only parts, sharing the weights."""
        for name in self.training_only:
            setattr(self, name, None)
        return self.eval()
