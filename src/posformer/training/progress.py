"""Training progress: contact sheets of predictions and learning curves at every validation."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import lightning as L
import numpy as np
import torch
from lightning.pytorch.callbacks import Callback
from PIL import Image

from posformer.data import Sampler
from posformer.models.padding import pad_images
from posformer.runtime.caption_search import search_captions
from posformer.runtime.pytorch_runtime import PyTorchStepModel
from posformer.search import DecodingOptions
from posformer.training.callbacks import say
from posformer.training.contact_sheet import Example, draw_sheet
from posformer.training.curves import draw_curves, read_curves
from posformer.training.lightning_module import TrainingModule

_BATCH = 8  # images decoded together
_EXTRA_TOKENS = 5  # a prediction is cut off this many tokens after the ground truth


class PredictionSheets(Callback):
    """Write `predictions/epoch-N.png` and `curves.png`, and log both to TensorBoard.

    The first logger of the trainer must be TensorBoard; a CSV logger must write to `log`.

    The callback uses no random numbers and has no state in checkpoints: training is the same with
    and without it. An error is printed once and does not stop the training.

    Args:
        folder: Folder of the run.
        source: The validation images.
        count: Number of images shown, always the same ones.
    """

    def __init__(self, folder: Path, source: Sampler, count: int) -> None:
        self._folder, self._source, self._count = folder, source, min(count, len(source))
        self._examples: list[Example] = []
        self._disabled: set[str] = set()

    def on_validation_epoch_end(self, trainer: L.Trainer, module: L.LightningModule) -> None:
        """Decode the examples while averaged weights, if any, are in place."""
        self._attempt("predictions", self._decode, trainer, module)

    def on_validation_end(self, trainer: L.Trainer, module: L.LightningModule) -> None:
        """Plot; the metrics of this validation are logged by now."""
        self._attempt("predictions", self._plot_predictions, trainer)
        self._attempt("curves", self._plot_curves, trainer)

    def _attempt(self, what: str, work: Callable, trainer: L.Trainer, *others: Any) -> None:
        if what in self._disabled or not trainer.is_global_zero:
            return
        try:
            work(trainer, *others)
        except Exception as error:  # a plot must never stop the training
            self._disabled.add(what)
            say(f"{what} are no longer plotted: {' '.join(str(error).split())}")

    def _decode(self, trainer: L.Trainer, module: TrainingModule) -> None:
        chosen = np.linspace(0, len(self._source) - 1, self._count).round().astype(int)
        self._examples = decode_greedily(module, self._source, chosen.tolist())

    def _plot_predictions(self, trainer: L.Trainer) -> None:
        correct = sum(example.is_correct for example in self._examples)
        title = (
            f"epoch {trainer.current_epoch + 1}, step {trainer.global_step}: "
            f"{correct} of {len(self._examples)} correct"
        )
        file = self._folder / "predictions" / f"epoch-{trainer.current_epoch + 1:03}.png"
        file.parent.mkdir(exist_ok=True)
        self._save(trainer, "validation/predictions", draw_sheet(self._examples, title), file)

    def _plot_curves(self, trainer: L.Trainer) -> None:
        for logger in trainer.loggers:
            logger.save()  # flush buffered records
        pixels = draw_curves(read_curves(self._folder / "log"), self._folder.name)
        self._save(trainer, "curves", pixels, self._folder / "curves.png")

    def _save(self, trainer: L.Trainer, name: str, pixels: np.ndarray, file: Path) -> None:
        Image.fromarray(pixels).save(file)
        board: Any = trainer.loggers[0]
        board.experiment.add_image(name, pixels, trainer.global_step, dataformats="HWC")


@torch.inference_mode()
def decode_greedily(
    module: TrainingModule, source: Sampler, chosen: Sequence[int]
) -> list[Example]:
    """Decode some examples greedily, left to right.

    Args:
        module: The model in training.
        source: The examples.
        chosen: Indices of the examples to decode.
    """
    samples = [source.sample(index, np.random.default_rng(0)) for index in chosen]
    images = [sample.render()[0] for sample in samples]
    order = sorted(range(len(chosen)), key=lambda place: images[place].shape[1])
    vocabulary, examples = module.vocabulary, {}
    for start in range(0, len(order), _BATCH):
        group = order[start : start + _BATCH]
        padded = pad_images([images[place] for place in group])
        batch, padding = (torch.from_numpy(part).to(module.device) for part in padded)
        batch = batch.contiguous(memory_format=torch.channels_last)
        step_model = PyTorchStepModel(module.model, batch, padding)
        longest = max(len(samples[place].tokens) for place in group) + _EXTRA_TOKENS
        options = DecodingOptions(greedy=True, constrained=False).resolve()
        limits = [longest] * len(group)
        found = search_captions(step_model, module.config.model, vocabulary, options, limits)
        for place, (one,) in zip(group, found, strict=True):
            prediction = tuple(vocabulary.decode(one.tokens, skip_special=True))
            examples[place] = Example(images[place], samples[place].tokens, prediction)
    return [examples[place] for place in range(len(chosen))]
