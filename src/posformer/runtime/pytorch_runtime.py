"""Runs a PyTorch model for the search."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from posformer.latex import Vocabulary
from posformer.models.base import Nest, RecognitionModel
from posformer.models.checkpoint import load_model
from posformer.models.model_config import ModelConfig
from posformer.models.model_folder import open_folder
from posformer.models.padding import pad_images
from posformer.models.pytree import map_tensors, tensors
from posformer.runtime.attention_map import AttentionMap

__all__ = ["PyTorchRuntime", "PyTorchStepModel", "State"]


class State(NamedTuple):
    """Where hypotheses stand: their images, and what the model keeps of their tokens."""

    memory: Nest
    kept: Nest  # None before the first token


class PyTorchStepModel:
    """The step interface of the search over images that are already encoded."""

    def __init__(
        self, model: RecognitionModel, memory: Nest, grid: tuple[int, int] | None = None
    ) -> None:
        self._model, self._memory, self._grid = model, memory, grid
        self._device = next(tensors(memory)).device

    def start(self) -> State:
        """Before the first token of every image."""
        return State(self._memory, None)

    @torch.inference_mode()
    def step(self, tokens: np.ndarray, state: State) -> tuple[np.ndarray, State]:
        """Log-probabilities (images, rows, steps, words) of what follows the tokens."""
        scores, kept = self._model.step(self._tensor(tokens), state.memory, state.kept)
        return scores.cpu().numpy(), State(state.memory, kept)

    @torch.inference_mode()
    def select(self, state: State, images: np.ndarray, rows: np.ndarray) -> State:
        """Keeps some images and, of each, some rows."""
        chosen, memory = self._tensor(images), state.memory
        if not np.array_equal(images, np.arange(len(next(tensors(memory))))):
            memory = map_tensors(lambda values: values[chosen], memory)
        index = chosen[:, None], self._tensor(rows)
        return State(memory, map_tensors(lambda values: values[index], state.kept))

    @torch.inference_mode()
    def attention(self, tokens: np.ndarray) -> list[AttentionMap]:
        """Where each layer looks while whole sequences are read; see `Attentive`."""
        return [
            AttentionMap(
                self._on_grid(look.weights),
                self._on_grid(look.raw),
                None if look.correction is None else self._on_grid(look.correction),
            )
            for look in self._model.looks(self._tensor(tokens), self._memory)
        ]

    def _on_grid(self, maps: Tensor) -> np.ndarray:
        assert self._grid is not None
        return maps.unflatten(-1, self._grid).cpu().numpy()

    def _tensor(self, array: np.ndarray) -> Tensor:
        return torch.from_numpy(np.ascontiguousarray(array)).to(self._device)


class PyTorchRuntime:
    """A model run by PyTorch; see `Runtime`."""

    def __init__(self, model: RecognitionModel, info: dict[str, Any] | None = None) -> None:
        self.model = model.for_inference()
        self.info = info or {}

    @classmethod
    def load(cls, path: Path, threads: int | None = None) -> "PyTorchRuntime":
        """A model folder or a checkpoint that training left."""
        if threads is not None:
            torch.set_num_threads(threads)
        return cls(load_model(path), open_folder(path).info if path.is_dir() else None)

    @property
    def config(self) -> ModelConfig:
        """Settings of the model."""
        return self.model.config

    @property
    def vocabulary(self) -> Vocabulary:
        """Words of the model."""
        return self.model.vocabulary

    @torch.inference_mode()
    def encode(self, images: Sequence[np.ndarray]) -> PyTorchStepModel:
        """Encodes images (uint8, white ink on black) in one batch, ready for the search."""
        device = next(self.model.parameters()).device
        padded = pad_images(images, self.config.encoder.mask_padding)
        batch, padding = (torch.from_numpy(part).to(device) for part in padded)
        batch = batch.contiguous(memory_format=torch.channels_last)
        grid = -(-batch.shape[2] // 16), -(-batch.shape[3] // 16)
        return PyTorchStepModel(self.model, self.model.encode(batch, padding), grid)
