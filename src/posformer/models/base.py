"""The interface that every recognition model implements.

Training, search, evaluation and export use a model through this interface only. The memory of the
images and the cache of earlier steps are pytrees of tensors that only the model itself interprets.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import ClassVar, NamedTuple, TypeVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from posformer.latex import Vocabulary
from posformer.models.encoder import Features
from posformer.models.model_config import ModelConfig
from posformer.models.position_head import PositionLogits
from posformer.models.pytree import Pytree

_Model = TypeVar("_Model", bound="RecognitionModel")

_IGNORED = -100

# `weights`, `raw_weights` and `refinement` of one decoder layer, as in
# `posformer.runtime.attention_map.AttentionMap`: float (batch, beams, steps, heads, cells).
LayerAttention = tuple[Tensor, Tensor, Tensor | None]


class SummedLoss(NamedTuple):
    """A loss computed by the model itself, summed over one batch.

    The trainer divides the sum by the number of terms over all processes.
    """

    total: Tensor  # float ()
    terms: Tensor  # float (), number of summed terms


def cross_entropy(logits: Tensor, target_ids: Tensor) -> SummedLoss:
    """Return the cross-entropy of logits (…, classes), for models with further predictions.

    Args:
        logits: float (…, classes).
        target_ids: int64 (…), negative where there is none.
    """
    counts = target_ids >= 0
    targets = torch.where(counts, target_ids, _IGNORED).flatten()
    total = F.cross_entropy(logits.flatten(0, -2), targets, ignore_index=_IGNORED, reduction="sum")
    return SummedLoss(total, counts.sum().float())


class TrainingOutput(NamedTuple):
    """Inputs of the training losses."""

    logits: Tensor  # float (batch, directions, steps, vocab_size)
    position: PositionLogits | None
    symbol_map: Tensor | None  # float (batch, height, width, vocab_size): symbol of each cell
    attention: list[Tensor]  # per layer: float (batch, directions, steps, heads, cells)
    features: Features
    losses: Mapping[str, SummedLoss] = {}  # losses of the model itself, by name
    distribution: Tensor | None = None  # float (batch, height, width): logits of "a symbol is here"


class StepOutput(NamedTuple):
    """Result of one decoder call."""

    log_probs: Tensor  # float (batch, beams, steps, vocab_size)
    cache: Pytree  # tensors (batch, beams, …)
    attention: list[LayerAttention]  # per layer; empty if the model does not report attention


class RecognitionModel(nn.Module, ABC):
    """Base class of all recognizers: images in, tokens out.

    `encode`, `initial_cache` and `step` run inference; `forward` runs training. A model is built
    from its config and its vocabulary. Its `encoder` maps images (batch, 1, height, width) and
    their padding (batch, height, width) to `Features`, one cell per `STRIDE` × `STRIDE` pixels.
    The beams axis holds hypotheses in search and directions in training: index 0 is left to
    right, index 1, if present, right to left.
    """

    training_only: ClassVar[tuple[str, ...]] = ("position", "symbol_map")  # absent at inference
    # Whether `step` handles any number of steps without a Python loop over them. The ONNX decoder
    # of other models takes one step per call.
    parallel_steps: ClassVar[bool] = False
    # Why the model cannot be exported to ONNX; empty if it can.
    pytorch_only: ClassVar[str] = ""
    scores_trees: ClassVar[bool] = False  # whether `tree_scores` is implemented

    encoder: nn.Module

    def __init__(self, config: ModelConfig, vocabulary: Vocabulary) -> None:
        super().__init__()
        self.config, self.vocabulary = config, vocabulary

    @property
    def vocabulary_axes(self) -> Mapping[str, int]:
        """Names of parameters with one entry per token, and the axis of the tokens.

        `train --init` copies these parameters token by token if the vocabularies differ.
        """
        return {"symbol_map.weight": 0, "symbol_map.bias": 0}

    def encode(self, images: Tensor, padding: Tensor) -> Pytree:
        """Return the memory of a batch of images, see `prepare_memory`."""
        return self.prepare_memory(self.encoder(images, padding))

    @abstractmethod
    def prepare_memory(self, features: Features) -> Pytree:
        """Return what `step` needs to know about the images.

        Returns:
            A pytree of tensors (batch, …). Axes over the feature map are either one axis `cells`
            or the two axes height and width. Boolean tensors are padding masks.
        """

    @abstractmethod
    def initial_cache(self, memory: Pytree, beams: int = 1) -> Pytree:
        """Return the cache before the first token, a pytree of tensors (batch, beams, …)."""

    @abstractmethod
    def step(self, input_ids: Tensor, memory: Pytree, cache: Pytree) -> StepOutput:
        """Return the log-probabilities of the tokens that follow `input_ids`.

        Several steps in one call give the same result as the same steps one by one.

        Args:
            input_ids: int64 (batch, beams, steps).
            memory: from `encode` or `prepare_memory`.
            cache: from the previous call or `initial_cache`.
        """

    def forward(
        self,
        images: Tensor,
        padding: Tensor,
        input_ids: Tensor,
        identifiers: Tensor | None = None,
        target_ids: Tensor | None = None,
    ) -> TrainingOutput:
        """Run one training pass with teacher forcing.

        Args:
            images: float (batch, 1, height, width).
            padding: bool (batch, height, width), true outside the image.
            input_ids: int64 (batch, directions, steps).
            identifiers: float (batch, directions, steps, length), position identifiers of the
                input tokens, for the forms of the position forest that read them.
            target_ids: int64 (batch, directions, steps), tokens to predict, negative where there
                is none; for models with losses of their own.
        """
        features = self.encoder(images, padding)
        return self.forward_decoder(features, input_ids, identifiers, target_ids)

    @abstractmethod
    def forward_decoder(
        self,
        features: Features,
        input_ids: Tensor,
        identifiers: Tensor | None = None,
        target_ids: Tensor | None = None,
    ) -> TrainingOutput:
        """Run the part of `forward` after the encoder."""

    def attention_maps(self, input_ids: Tensor, memory: Pytree) -> list[LayerAttention]:
        """Return the attention of every layer over whole sequences.

        Args:
            input_ids: int64 (batch, beams, steps), start token first.
            memory: from `encode` or `prepare_memory`.
        """
        cache = self.initial_cache(memory, input_ids.shape[1])
        return self.step(input_ids, memory, cache).attention

    def tree_scores(
        self, hypotheses: Sequence[Sequence[tuple[int, ...]]], memory: Pytree
    ) -> list[list[float]]:
        """Return how well the tree of each finished hypothesis fits the image; higher is better.

        Args:
            hypotheses: for each image its finished hypotheses, in reading order.
            memory: from `encode` or `prepare_memory`.
        """
        raise NotImplementedError

    @torch.no_grad()
    def for_inference(self: _Model) -> _Model:
        """Remove the parts that only training needs, in place, and return the model."""
        for name in self.training_only:
            setattr(self, name, None)
        return self.eval()
