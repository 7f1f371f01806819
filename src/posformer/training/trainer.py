"""Run a config: data, module, Lightning's trainer, and the files of the run."""

import contextlib
import logging
import math
import sys
import time
import warnings
from pathlib import Path
from typing import Any

import lightning as L
import torch
import yaml
from lightning.pytorch.loggers import CSVLogger, TensorBoardLogger

from posformer.atomic import atomic_write
from posformer.data import Sampler
from posformer.errors import ConfigError
from posformer.models.base import RecognitionModel
from posformer.models.checkpoint import load_model, take_weights
from posformer.training.allocator import retain_freed_memory
from posformer.training.batch_stream import TrainingDataModule
from posformer.training.callbacks import TimeLimitReached, make_callbacks, say
from posformer.training.datasets import open_examples, shared_vocabulary
from posformer.training.feature_cache import cache_features
from posformer.training.frozen_encoder import FrozenEncoder, freeze_blocks
from posformer.training.language_training import take_language_model
from posformer.training.lightning_module import TrainingModule
from posformer.training.progress import PredictionSheets
from posformer.training.run_checkpoints import (
    LAST,
    DurableCheckpointIO,
    checkpoint_to_resume,
    explained_mismatch,
    has_checkpoint,
)
from posformer.training.training_config import TrainingConfig


def train(
    config: TrainingConfig,
    folder: Path,
    *,
    resume: bool = False,
    init: Path | None = None,
    allow_code: bool = False,
) -> TrainingModule:
    """Train a model, stage by stage, and write checkpoints, curves and the config to `folder`.

    Args:
        config: The settings of the run.
        folder: Folder of the run.
        resume: Continue from the newest whole checkpoint of the folder, in its stage.
        init: Model folder or checkpoint whose weights to start from. Tokens that it does not have
            are added to its vocabulary.
        allow_code: Import the Python module that `init`, or the model of a frozen encoder, names.
            The config may always name one.

    Returns:
        The module of the last stage that ran.

    Raises:
        ConfigError: If there is no checkpoint to resume from, or one that would be overwritten.
    """
    last, stage = None, 0
    if resume:
        last, content = checkpoint_to_resume(folder)
        stage = _stage_to_resume(config, last, content)
    elif has_checkpoint(folder):
        raise ConfigError(f"{folder}: there is a run already; resume it or choose another folder")
    retain_freed_memory()
    _silence_lightning()
    if config.threads:
        torch.set_num_threads(config.threads)
    start = load_model(init, allow_code) if init is not None else None
    run = _Run(config, folder, start, last, allow_code)
    for number in range(stage, len(run.stages)):
        module = run.train_stage(number)
        if not module.stage_is_finished:  # `max_minutes` ended it
            break
    return module


def _silence_lightning() -> None:
    """Hide Lightning's messages about itself; those about the run are still shown."""
    for text in (".*LeafSpec.*", ".*exists and is not empty.*", ".*does not have many workers.*"):
        warnings.filterwarnings("ignore", text)
    logging.getLogger("lightning.pytorch.utilities.rank_zero").setLevel(logging.WARNING)


def _stage_to_resume(config: TrainingConfig, checkpoint: Path, content: dict[str, Any]) -> int:
    """Return the number of the stage that a checkpoint was written in."""
    name = content["posformer"].get("stage", {}).get("name")
    names = [stage.name for stage in config.stages] if config.stages else [None]
    if name not in names:
        written = f"in stage {name!r}" if name else "without stages"
        known = f"has the stages {', '.join(map(str, names))}" if config.stages else "has no stages"
        raise ConfigError(f"{checkpoint}: was written {written}, but the config {known}")
    return names.index(name)


class _Run:
    """What the stages of a run have in common."""

    def __init__(
        self,
        config: TrainingConfig,
        folder: Path,
        start: RecognitionModel | None,
        last: Path | None,
        allow_code: bool,
    ) -> None:
        self._config, self._folder, self._start = config, folder, start
        self._last = last  # checkpoint to continue from
        self._fit_seconds = 0.0  # wall-clock time of the stages so far
        self._encoder = None
        if config.frozen:
            allowed = allow_code or (last is not None and config.model.name)
            self._encoder = FrozenEncoder.load(config.frozen, last, allowed)
        self.stages = config.split_stages()
        if self._encoder:
            self.stages = [self._encoder.adapt_config(stage) for stage in self.stages]
        self._vocabulary = start.vocabulary if start is not None else None
        if len(self.stages) > 1:
            data = [stage.data for stage in self.stages]
            self._vocabulary = shared_vocabulary(data, self._vocabulary)

    def train_stage(self, number: int) -> TrainingModule:
        """Train a stage, from the checkpoint of the stage before or of the stage itself."""
        config = self.stages[number]
        examples = open_examples(config.data, config.model.image, self._vocabulary)
        validation = examples.validation
        torch.manual_seed(config.seed)
        stage = self._config.stages[number] if self._config.stages else None
        kinds = tuple(examples.validation_by_kind)
        module = TrainingModule(config, examples.vocabulary, len(examples.train), stage, kinds)
        if self._start is not None and self._last is None:
            _load_weights(module, self._start)
        if config.language_model is not None and self._last is None:
            take_language_model(module.model, Path(config.language_model))
        freeze_blocks(module.model, config.optimizer.frozen_blocks)
        if self._encoder is not None:
            self._encoder.copy_to(module.model)
            examples = cache_features(config, examples, self._encoder)
        settings = yaml.safe_dump(self._config.to_dict(), sort_keys=False)
        self._folder.mkdir(parents=True, exist_ok=True)
        atomic_write(self._folder / "config.yaml", settings)
        if stage is not None:
            say(f"stage {stage.name} ({number + 1} of {len(self.stages)}): {_length(config)}")
        began = time.monotonic()
        with contextlib.suppress(TimeLimitReached), explained_mismatch(self._last):
            data = TrainingDataModule(config, examples)
            trainer = self._trainer(config, validation)
            trainer.fit(module, data, ckpt_path=self._last, weights_only=True)
        self._fit_seconds += time.monotonic() - began
        self._last = self._folder / LAST
        return module

    def _trainer(self, config: TrainingConfig, validation: Sampler) -> L.Trainer:
        folder, count = self._folder, config.progress_images
        seconds = 60 * (config.max_minutes or math.inf) - self._fit_seconds
        callbacks = make_callbacks(config, folder, seconds)
        if count:  # first: other callbacks remove the averaged weights after validation
            callbacks.insert(0, PredictionSheets(folder, validation, count))
        return L.Trainer(
            default_root_dir=folder,
            accelerator=config.accelerator,
            precision=config.precision,
            devices=config.devices,
            num_nodes=config.nodes,
            max_epochs=-1 if config.minutes else config.epochs,
            strategy="ddp" if config.devices * config.nodes > 1 else "auto",
            check_val_every_n_epoch=config.validate_every,
            gradient_clip_val=config.optimizer.clip,
            reload_dataloaders_every_n_epochs=1,
            use_distributed_sampler=False,
            num_sanity_val_steps=0,
            logger=[TensorBoardLogger(folder, "", "curves"), CSVLogger(folder, "log")],
            callbacks=callbacks,
            plugins=DurableCheckpointIO(),
            enable_progress_bar=sys.stderr.isatty(),
            enable_model_summary=False,
            log_every_n_steps=20,
        )


def _load_weights(module: TrainingModule, start: RecognitionModel) -> None:
    if new := take_weights(module.model, start):
        parts = sorted({name.rsplit(".", 1)[0] for name in new})
        say(f"randomly initialized: {', '.join(parts[:6])}{' …' if len(parts) > 6 else ''}")


def _length(config: TrainingConfig) -> str:
    if config.minutes is not None:
        return f"{config.minutes:g} CPU minutes"
    return f"{config.epochs} epoch{'s' if config.epochs > 1 else ''}"
