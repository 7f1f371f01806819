"""Runs a recipe: data, module, Lightning's trainer, and what is left in the run's folder."""

import logging
import sys
import warnings
from datetime import timedelta
from pathlib import Path

import lightning as L
import torch
import yaml
from lightning.pytorch.loggers import CSVLogger, TensorBoardLogger

from posformer.data import Source
from posformer.model.interface import RecognitionModel
from posformer.model.weights import load_model, take_weights
from posformer.training.allocator import keep_memory
from posformer.training.callbacks import make_callbacks, say
from posformer.training.features import keep_features
from posformer.training.frozen import FrozenEncoder, freeze_blocks
from posformer.training.loading import RecipeData
from posformer.training.module import TrainingError, TrainingModule
from posformer.training.progress import ProgressPictures
from posformer.training.recipe import Recipe
from posformer.training.sources import open_examples

__all__ = ["train"]


def train(
    recipe: Recipe,
    folder: Path,
    *,
    resume: bool = False,
    init: Path | None = None,
) -> TrainingModule:
    """Trains, and leaves checkpoints, curves and the recipe in `folder`.

    Args:
        recipe: what to do.
        folder: of the run; `last.ckpt` in it is what `resume` goes on from.
        resume: go on from `last.ckpt`.
        init: a model whose weights to start from; words that it does not know are added to it.
    """
    last = folder / "last.ckpt"
    if resume and not last.exists():
        raise TrainingError(f"{last}: nothing to resume")
    if not resume and last.exists():
        raise TrainingError(f"{last}: there is a run already; resume it or choose another folder")
    keep_memory()
    _quieten()
    if recipe.threads:
        torch.set_num_threads(recipe.threads)
    encoder = FrozenEncoder.load(recipe.frozen, last if resume else None) if recipe.frozen else None
    recipe = encoder.settle(recipe) if encoder else recipe
    start = load_model(init) if init is not None else None
    known = start.vocabulary if start is not None else None
    examples = open_examples(recipe.data, recipe.model.picture, known)
    validation = examples.validation
    torch.manual_seed(recipe.seed)
    module = TrainingModule(recipe, examples.vocabulary, len(examples.train))
    if start is not None:
        _take(module, start)
    freeze_blocks(module.model, recipe.optimizer.frozen_blocks)
    if encoder is not None:
        encoder.put_into(module.model)
        examples = keep_features(recipe, examples, encoder)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "recipe.yaml").write_text(yaml.safe_dump(recipe.to_dict(), sort_keys=False))
    trainer = _trainer(recipe, folder, validation)
    trainer.fit(
        module,
        RecipeData(recipe, examples),
        ckpt_path=last if resume else None,
        weights_only=True if resume else None,
    )
    return module


def _quieten() -> None:
    """Leaves out what Lightning says about itself; what concerns the run is still said."""
    for text in (".*LeafSpec.*", ".*exists and is not empty.*", ".*does not have many workers.*"):
        warnings.filterwarnings("ignore", text)
    logging.getLogger("lightning.pytorch.utilities.rank_zero").setLevel(logging.WARNING)


def _take(module: TrainingModule, start: RecognitionModel) -> None:
    new = take_weights(module.model, start)
    if new:
        parts = sorted({name.rsplit(".", 1)[0] for name in new})
        say(f"starts anew: {', '.join(parts[:6])}{' …' if len(parts) > 6 else ''}")


def _trainer(recipe: Recipe, folder: Path, validation: Source) -> L.Trainer:
    count = recipe.progress_pictures
    pictures = [ProgressPictures(folder, validation, count)] if count else []
    return L.Trainer(
        default_root_dir=folder,
        accelerator=recipe.accelerator,
        devices=recipe.devices,
        num_nodes=recipe.nodes,
        max_epochs=-1 if recipe.minutes else recipe.epochs,
        strategy="ddp" if recipe.devices * recipe.nodes > 1 else "auto",
        max_time=timedelta(minutes=recipe.max_minutes) if recipe.max_minutes else None,
        check_val_every_n_epoch=recipe.validate_every,
        gradient_clip_val=recipe.optimizer.clip,
        reload_dataloaders_every_n_epochs=1,
        use_distributed_sampler=False,
        num_sanity_val_steps=0,
        logger=[TensorBoardLogger(folder, "", "curves"), CSVLogger(folder, "log")],
        # Pictures first: at the end of a validation the others take its weights away.
        callbacks=[*pictures, *make_callbacks(recipe, folder)],
        enable_progress_bar=sys.stderr.isatty(),
        enable_model_summary=False,
        log_every_n_steps=20,
    )
