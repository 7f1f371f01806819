"""Runs a model with PyTorch."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from posformer.models.base import RecognitionModel
from posformer.models.checkpoint import load_model
from posformer.models.model_config import STRIDE
from posformer.models.model_folder import open_folder
from posformer.models.padding import pad_images
from posformer.models.pytree import Pytree, map_tensors, tensors
from posformer.runtime.attention_map import AttentionMap
from posformer.runtime.language_prior import load_language
from posformer.search import NgramModel


class State(NamedTuple):
    """Position of a set of hypotheses."""

    memory: Pytree
    cache: Pytree


class PyTorchStepModel:
    """The step interface of the search for encoded images."""

    def __init__(self, model: RecognitionModel, images: Tensor, padding: Tensor) -> None:
        self._model = model
        self._feature_map = tuple(-(-side // STRIDE) for side in images.shape[2:])
        memory = model.encode(images, padding)
        self._start = State(memory, model.initial_cache(memory))
        self._device = images.device

    def start(self) -> State:
        """Return the state before the first token."""
        return self._start

    @torch.inference_mode()
    def step(self, tokens: np.ndarray, state: State) -> tuple[np.ndarray, State]:
        """Return log-probabilities float32 (batch, beams, steps, vocab_size) and the new state.

        Args:
            tokens: int64 (batch, beams, steps).
            state: from `start`, `step` or `select`.
        """
        beams = tokens.shape[1]  # may be more than the single beam of the start
        cache = map_tensors(lambda values: values.expand(-1, beams, *values.shape[2:]), state.cache)
        output = self._model.step(self._tensor(tokens), state.memory, cache)
        return output.log_probs.cpu().numpy(), State(state.memory, output.cache)

    @torch.inference_mode()
    def select(self, state: State, images: np.ndarray, beams: np.ndarray) -> State:
        """Return the state of some images and of some of their beams.

        Args:
            state: from `start`, `step` or `select`.
            images: int64 (new batch,), indices of images.
            beams: int64 (new batch, new beams), indices of beams of these images.
        """
        chosen, memory = self._tensor(images), state.memory
        if not np.array_equal(images, np.arange(len(tensors(memory)[0]))):
            memory = map_tensors(lambda values: values[chosen], memory)
        index = chosen[:, None], self._tensor(beams)
        return State(memory, map_tensors(lambda values: values[index], state.cache))

    @property
    def scores_trees(self) -> bool:
        """Whether the model scores the trees of finished hypotheses."""
        return self._model.scores_trees

    @torch.inference_mode()
    def tree_scores(self, hypotheses: Sequence[Sequence[tuple[int, ...]]]) -> list[list[float]]:
        """Return the tree scores of the hypotheses of each image; see `TreeScoring`."""
        return self._model.tree_scores(hypotheses, self._start.memory)

    @torch.inference_mode()
    def attention(self, tokens: np.ndarray) -> list[AttentionMap]:
        """Return the attention of every layer over whole sequences; see `Attentive`."""
        layers = self._model.attention_maps(self._tensor(tokens), self._start.memory)
        return [AttentionMap(*(self._on_map(part) for part in layer)) for layer in layers]

    def _on_map(self, values: Tensor | None) -> Any:
        return None if values is None else values.unflatten(-1, self._feature_map).cpu().numpy()

    def _tensor(self, array: np.ndarray) -> Tensor:
        return torch.from_numpy(np.ascontiguousarray(array)).to(self._device)


class PyTorchRuntime:
    """A model run by PyTorch; see `Runtime`."""

    def __init__(
        self,
        model: RecognitionModel,
        info: dict[str, Any] | None = None,
        language: NgramModel | None = None,
    ) -> None:
        self.model, self.info, self.language = model.for_inference(), info or {}, language
        self.config, self.vocabulary = model.config, model.vocabulary

    @classmethod
    def load(
        cls, path: Path, threads: int | None = None, allow_code: bool | str = False
    ) -> "PyTorchRuntime":
        """Load a model folder or a training checkpoint; see `load_model`."""
        if threads is not None:
            torch.set_num_threads(threads)
        model = load_model(path, allow_code)
        if not path.is_dir():
            return cls(model)
        folder = open_folder(path)
        return cls(model, folder.info, load_language(folder))

    @torch.inference_mode()
    def encode(self, images: Sequence[np.ndarray]) -> PyTorchStepModel:
        """Encode images, uint8 (height, width) each with white ink on black, in one batch."""
        device = next(self.model.parameters()).device
        padded = pad_images(images, self.config.encoder.mask_padding)
        batch, padding = (torch.from_numpy(part).to(device) for part in padded)
        batch = batch.contiguous(memory_format=torch.channels_last)
        return PyTorchStepModel(self.model, batch, padding)
