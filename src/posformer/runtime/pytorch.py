"""Runs a PyTorch model for the search."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from posformer.latex import Vocabulary
from posformer.model.attention import Coverage
from posformer.model.batching import pad_pictures
from posformer.model.config import ModelConfig
from posformer.model.decoder import ImageMemory, LayerState
from posformer.model.folder import open_folder
from posformer.model.posformer import PosFormer
from posformer.model.weights import load_model
from posformer.runtime.interface import LayerAttention

__all__ = ["PyTorchRuntime", "PyTorchStepModel", "State"]


class State(NamedTuple):
    """Where hypotheses stand: their pictures, and what the layers keep of their tokens."""

    memory: ImageMemory
    kept: list[LayerState] | None  # None before the first token


class PyTorchStepModel:
    """The step interface of the search over pictures that are already encoded."""

    def __init__(self, model: PosFormer, memory: ImageMemory) -> None:
        self._model, self._memory = model, memory

    def start(self) -> State:
        """Before the first token of every picture."""
        return State(self._memory, None)

    @torch.inference_mode()
    def step(self, tokens: np.ndarray, state: State) -> tuple[np.ndarray, State]:
        """Log-probabilities (pictures, rows, steps, words) of what follows the tokens."""
        fed = torch.from_numpy(np.ascontiguousarray(tokens)).to(state.memory.padding.device)
        scores, kept = self._model.step(fed, state.memory, state.kept)
        return scores.cpu().numpy(), State(state.memory, kept)

    @torch.inference_mode()
    def select(self, state: State, pictures: np.ndarray, rows: np.ndarray) -> State:
        """Keeps some pictures and, of each, some rows."""
        device = state.memory.padding.device
        chosen = torch.from_numpy(pictures).to(device)
        memory = state.memory
        if not np.array_equal(pictures, np.arange(memory.padding.shape[0])):
            memory = ImageMemory(
                [keys[chosen] for keys in memory.keys],
                [values[chosen] for values in memory.values],
                memory.padding[chosen],
            )
        if state.kept is None:
            return State(memory, None)
        index = chosen[:, None], torch.from_numpy(rows).to(device)
        return State(memory, [_pick(layer, index) for layer in state.kept])

    @torch.inference_mode()
    def attention(self, tokens: np.ndarray) -> list[LayerAttention]:
        """Where each layer looks while whole sequences are read; see `Attentive`."""
        memory = self._memory
        fed = torch.from_numpy(np.ascontiguousarray(tokens)).to(memory.padding.device)
        keep = self._model.entity[fed]
        _, output = self._model.decoder(fed, keep, memory)
        refinement = self._model.decoder.stack.refinement
        layers = []
        for number, (weights, raw) in enumerate(
            zip(output.attention, output.raw_attention, strict=True)
        ):
            correction = None
            if refinement is not None and number > 0:
                maps = torch.cat((output.attention[number - 1], raw), dim=3)
                total, _ = refinement.accumulate(maps, keep, None)
                correction = refinement(total, memory.padding).cpu().numpy()
            layers.append(LayerAttention(weights.cpu().numpy(), raw.cpu().numpy(), correction))
        return layers


def _pick(layer: LayerState, index: tuple[Tensor, Tensor]) -> LayerState:
    coverage = layer.coverage
    if coverage is not None:
        coverage = Coverage(coverage.total[index], coverage.pending[index])
    return LayerState(layer.keys[index], layer.values[index], coverage)


class PyTorchRuntime:
    """A model run by PyTorch; see `Runtime`."""

    def __init__(self, model: PosFormer, info: dict[str, Any] | None = None) -> None:
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
    def encode(self, pictures: Sequence[np.ndarray]) -> PyTorchStepModel:
        """Encodes pictures (uint8, white ink on black) in one batch, ready for the search."""
        device = next(self.model.parameters()).device
        padded = pad_pictures(pictures, self.config.encoder.mask_padding)
        batch, padding = (torch.from_numpy(part).to(device) for part in padded)
        batch = batch.contiguous(memory_format=torch.channels_last)
        return PyTorchStepModel(self.model, self.model.encode(batch, padding))
