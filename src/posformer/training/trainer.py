"""Runs a config: data, module, Lightning's trainer, and what is left in the run's folder."""

import logging
import sys
import warnings
from datetime import timedelta
from pathlib import Path

import lightning as L
import torch
import yaml
from lightning.pytorch.loggers import CSVLogger, TensorBoardLogger

from posformer.data import Sampler
from posformer.errors import ConfigError
from posformer.models.base import RecognitionModel
from posformer.models.checkpoint import load_model, take_weights
from posformer.training.allocator import keep_memory
from posformer.training.callbacks import make_callbacks, say
from posformer.training.datamodule import TrainingDataModule
from posformer.training.datasets import open_examples
from posformer.training.feature_cache import keep_features
from posformer.training.frozen_encoder import FrozenEncoder, freeze_blocks
from posformer.training.lightning_module import TrainingModule
from posformer.training.progress import PredictionSheets
from posformer.training.training_config import TrainingConfig

__all__ = ["train"]


def train(
    config: TrainingConfig,
    folder: Path,
    *,
    resume: bool = False,
    init: Path | None = None,
) -> TrainingModule:
    """Trains, and leaves checkpoints, curves and the config in `folder`.

    Args:
        config: what to do.
        folder: of the run; `last.ckpt` in it is what `resume` goes on from.
        resume: go on from `last.ckpt`.
        init: a model whose weights to start from; words that it does not know are added to it.
    """
    last = folder / "last.ckpt"
    if resume and not last.exists():
        raise ConfigError(f"{last}: nothing to resume")
    if not resume and last.exists():
        raise ConfigError(f"{last}: there is a run already; resume it or choose another folder")
    keep_memory()
    _quieten()
    if config.threads:
        torch.set_num_threads(config.threads)
    encoder = FrozenEncoder.load(config.frozen, last if resume else None) if config.frozen else None
    config = encoder.settle(config) if encoder else config
    start = load_model(init) if init is not None else None
    known = start.vocabulary if start is not None else None
    examples = open_examples(config.data, config.model.image, known)
    validation = examples.validation
    torch.manual_seed(config.seed)
    module = TrainingModule(config, examples.vocabulary, len(examples.train))
    if start is not None:
        _take(module, start)
    freeze_blocks(module.model, config.optimizer.frozen_blocks)
    if encoder is not None:
        encoder.put_into(module.model)
        examples = keep_features(config, examples, encoder)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.yaml").write_text(yaml.safe_dump(config.to_dict(), sort_keys=False))
    trainer = _trainer(config, folder, validation)
    trainer.fit(
        module,
        TrainingDataModule(config, examples),
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


def _trainer(config: TrainingConfig, folder: Path, validation: Sampler) -> L.Trainer:
    count = config.progress_images
    images = [PredictionSheets(folder, validation, count)] if count else []
    return L.Trainer(
        default_root_dir=folder,
        accelerator=config.accelerator,
        devices=config.devices,
        num_nodes=config.nodes,
        max_epochs=-1 if config.minutes else config.epochs,
        strategy="ddp" if config.devices * config.nodes > 1 else "auto",
        max_time=timedelta(minutes=config.max_minutes) if config.max_minutes else None,
        check_val_every_n_epoch=config.validate_every,
        gradient_clip_val=config.optimizer.clip,
        reload_dataloaders_every_n_epochs=1,
        use_distributed_sampler=False,
        num_sanity_val_steps=0,
        logger=[TensorBoardLogger(folder, "", "curves"), CSVLogger(folder, "log")],
        # Images first: at the end of a validation the others take its weights away.
        callbacks=[*images, *make_callbacks(config, folder)],
        enable_progress_bar=sys.stderr.isatty(),
        enable_model_summary=False,
        log_every_n_steps=20,
    )
