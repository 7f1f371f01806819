"""Progress to look at: predictions and learning curves, drawn at every validation."""

from collections.abc import Callable, Sequence
from pathlib import Path

import lightning as L
import numpy as np
import torch
from lightning.pytorch.callbacks import Callback
from lightning.pytorch.loggers import CSVLogger, TensorBoardLogger
from PIL import Image

from posformer.data import Sampler
from posformer.models.padding import pad_images
from posformer.runtime.pytorch_runtime import PyTorchStepModel
from posformer.search.greedy import greedy
from posformer.training.callbacks import say
from posformer.training.contact_sheet import Example, draw_sheet
from posformer.training.curves import draw_curves, read_curves
from posformer.training.lightning_module import TrainingModule

__all__ = ["PredictionSheets", "read_greedily"]

_GROUP = 8  # images read together
_MORE = 5  # tokens that a reading may have more than the truth; it is wrong long before


class PredictionSheets(Callback):
    """Writes `predictions/epoch-N.png` and `curves.png`, and both to TensorBoard.

    It draws no random numbers and keeps no state, so a run is the same with it and without. What
    goes wrong here is told in a line and never ends a run.

    Args:
        folder: of the run.
        source: the validation examples, as images.
        count: how many of them are shown, always the same.
    """

    def __init__(self, folder: Path, source: Sampler, count: int) -> None:
        self._folder, self._source, self._count = folder, source, min(count, len(source))
        self._examples: list[Example] = []
        self._given_up: set[str] = set()

    def on_validation_epoch_end(self, trainer: L.Trainer, module: L.LightningModule) -> None:
        """Reads the examples, while averaged weights, if there are any, are still in place."""
        if trainer.is_global_zero and not trainer.sanity_checking:
            self._attempt("predictions", lambda: self._read(module))

    def on_validation_end(self, trainer: L.Trainer, module: L.LightningModule) -> None:
        """Draws; the measures of this validation are known only now."""
        if trainer.is_global_zero and not trainer.sanity_checking:
            self._attempt("predictions", lambda: self._show_predictions(trainer))
            self._attempt("curves", lambda: self._show_curves(trainer))

    def _attempt(self, what: str, work: Callable[[], None]) -> None:
        if what in self._given_up:
            return
        try:
            work()
        except Exception as error:  # whatever it is, training is worth more than an image of it
            self._given_up.add(what)
            say(f"draws no {what} from here on: {' '.join(str(error).split())}")

    def _read(self, module: L.LightningModule) -> None:
        assert isinstance(module, TrainingModule)
        chosen = np.linspace(0, len(self._source) - 1, self._count).round().astype(int)
        self._examples = read_greedily(module, self._source, chosen.tolist())

    def _show_predictions(self, trainer: L.Trainer) -> None:
        right = sum(example.is_right for example in self._examples)
        title = (
            f"epoch {trainer.current_epoch + 1}, step {trainer.global_step}: "
            f"{right} of {len(self._examples)} right"
        )
        drawn = draw_sheet(self._examples, title)
        folder = self._folder / "predictions"
        folder.mkdir(exist_ok=True)
        file = folder / f"epoch-{trainer.current_epoch + 1:03}.png"
        self._show(trainer, "validation/predictions", drawn, file)

    def _show_curves(self, trainer: L.Trainer) -> None:
        (log,) = (logger for logger in trainer.loggers if isinstance(logger, CSVLogger))
        log.save()  # it keeps the newest rows to itself for a while
        drawn = draw_curves(read_curves(Path(log.root_dir)), self._folder.name)
        self._show(trainer, "curves", drawn, self._folder / "curves.png")

    def _show(self, trainer: L.Trainer, name: str, drawn: np.ndarray, file: Path) -> None:
        Image.fromarray(drawn).save(file)
        for logger in trainer.loggers:
            if isinstance(logger, TensorBoardLogger):
                logger.experiment.add_image(name, drawn, trainer.global_step, dataformats="HWC")


@torch.inference_mode()
def read_greedily(module: TrainingModule, source: Sampler, chosen: Sequence[int]) -> list[Example]:
    """What a model in training reads in some examples, left to right, in their order."""
    drawings = [source.sample(index, np.random.default_rng(0)) for index in chosen]
    images = [drawing.render()[0] for drawing in drawings]
    order = sorted(range(len(chosen)), key=lambda place: images[place].shape[1])
    found: dict[int, tuple[str, ...]] = {}
    for start in range(0, len(order), _GROUP):
        group = order[start : start + _GROUP]
        longest = max(len(drawings[place].tokens) for place in group)
        readings = _read_group(module, [images[place] for place in group], longest + _MORE)
        found.update(zip(group, readings, strict=True))
    return [
        Example(images[place], tuple(drawing.tokens), found[place])
        for place, drawing in enumerate(drawings)
    ]


def _read_group(
    module: TrainingModule, images: Sequence[np.ndarray], most: int
) -> list[tuple[str, ...]]:
    words = module.vocabulary
    batch, padding = (torch.from_numpy(part).to(module.device) for part in pad_images(images))
    memory = module.model.encode(batch.contiguous(memory_format=torch.channels_last), padding)
    step_model = PyTorchStepModel(module.model, memory)
    readings = greedy(step_model, words.sos, words.eos, len(images), max_length=most)
    return [tuple(words.decode(reading.tokens, skip_special=True)) for reading in readings]
