"""Candidates of a comparison: configs to train, and existing models."""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from posformer.errors import ConfigError, PosformerError
from posformer.models.model_folder import open_folder
from posformer.training.datasets import Examples, open_examples
from posformer.training.frozen_encoder import FrozenEncoder
from posformer.training.lightning_module import TrainingModule
from posformer.training.run_checkpoints import LAST
from posformer.training.training_config import TrainingConfig, load_config

_OVERRIDE = r"[A-Za-z_][\w.]*="  # the start of `key=value`


@dataclass(frozen=True)
class Candidate:
    """One row of the comparison table."""

    name: str
    config: TrainingConfig | None = None  # None: unknown, there is only the model
    model: Path | None = None  # None: train the config
    encoder: str | None = None  # digest of the frozen encoder
    baseline: str | None = None  # candidate that its gain is relative to

    def settings(self, seed: int) -> dict[str, Any]:
        """Return the settings that determine a training run, as JSON values."""
        assert self.config is not None
        config = replace(self.config, seed=self.config.seed + seed)
        return {"config": config.to_dict(), "encoder": self.encoder}


def split_arguments(arguments: Sequence[str]) -> tuple[list[str], list[str]]:
    """Split the arguments of `posformer compare` into candidates and overrides for all configs."""
    overrides = [argument for argument in arguments if re.match(_OVERRIDE, argument)]
    return [argument for argument in arguments if argument not in overrides], overrides


def gather(
    paths: Sequence[str | Path],
    changes: Sequence[str] = (),
    *,
    minutes: float | None = None,
    epochs: int | None = None,
    threads: int = 1,
    baseline: str | None = None,
    allow_code: bool = False,
) -> list[Candidate]:
    """Load configs and find models; errors are raised before anything is trained.

    Args:
        paths: Configs (YAML), model folders, checkpoints, and folders of finished runs. A config
            can have its own overrides: `dwap.yaml:model.position=heads,name=dwap-pf`. Without
            `name`, its name is made from the overrides.
        changes: `key=value` overrides for all configs.
        minutes: Training budget of each config in CPU minutes; None: as in the config.
        epochs: Training budget in epochs; None: as in the config.
        threads: CPU threads of a training process.
        baseline: Name of the baseline of all candidates. None: the `baseline` of the config, else
            the candidate that differs in the position forest only.
        allow_code: Import the Python module that a model names; configs may always name one.

    Raises:
        ConfigError: If a config, name, dataset or model is invalid.
    """
    if minutes is not None and epochs is not None:
        raise ConfigError("set the budget in minutes or in epochs, not in both")
    found = [_candidate(path, changes) for path in paths]
    found = [_with_budget(one, minutes, epochs, threads, allow_code) for one in found]
    if not found:
        raise ConfigError("there is nothing to compare")
    _check_names(found)
    _check_trainable(found)
    return [replace(one, baseline=_baseline_of(one, found, baseline)) for one in found]


def _candidate(argument: str | Path, changes: Sequence[str]) -> Candidate:
    file, *own = re.split(rf":(?={_OVERRIDE})", str(argument), maxsplit=1)
    path = Path(file)
    last, config = path / LAST, path / "config.yaml"
    if last.exists():
        known = load_config(config) if config.exists() else None
        return Candidate(known.name if known else path.name, known, last)
    if path.is_dir():
        open_folder(path)
        return Candidate(path.resolve().name, model=path)
    if path.suffix == ".ckpt":
        if not path.exists():
            raise ConfigError(f"{path}: no such checkpoint")
        return Candidate(path.stem, model=path)
    overrides = re.split(rf",(?={_OVERRIDE})", own[0]) if own else []
    wanted = load_config(path, [*changes, *overrides])
    if overrides and not any(override.startswith("name=") for override in overrides):
        short = [re.sub(r"^[\w.]*\.(?=\w+=)", "", override) for override in overrides]
        wanted = replace(wanted, name=re.sub(r"[^\w.+-]+", "-", "-".join([wanted.name, *short])))
    return Candidate(wanted.name, wanted)


def _with_budget(
    one: Candidate, minutes: float | None, epochs: int | None, threads: int, allow_code: bool
) -> Candidate:
    if one.config is None or one.model is not None:
        return one
    config = replace(one.config, devices=1, nodes=1, threads=threads, max_minutes=None)
    if config.stages and (minutes or epochs):
        raise ConfigError(f"{one.name}: a budget needs a config without stages; add stages=null")
    if minutes is not None:
        config = replace(config, minutes=minutes)
    if epochs is not None:
        config = replace(config, epochs=epochs, minutes=None)
    if config.frozen is None:
        return replace(one, config=config)
    encoder = FrozenEncoder.load(config.frozen, allow_code=allow_code)
    return replace(one, config=encoder.adapt_config(config), encoder=encoder.digest)


def _check_names(candidates: Sequence[Candidate]) -> None:
    for name, count in Counter(one.name for one in candidates).items():
        if count > 1:
            raise ConfigError(f"{name}: {count} candidates have this name")
        if Path(name).name != name:
            raise ConfigError(f"{name}: not usable as the name of a folder")


def _check_trainable(candidates: Sequence[Candidate]) -> None:
    """Open the data and build each model, so that errors show up before training."""
    opened: dict[Any, Examples] = {}
    for one in candidates:
        config = one.config
        if config is None or one.model is not None:
            continue
        key = config.data, config.model.image
        try:
            opened[key] = examples = opened.get(key) or open_examples(*key)
            TrainingModule(config, examples.vocabulary, len(examples.train))
        except PosformerError as error:
            raise ConfigError(f"{one.name}: {error}") from error


def _baseline_of(
    one: Candidate, candidates: Sequence[Candidate], for_all: str | None
) -> str | None:
    named = for_all or (one.config.baseline if one.config else None)
    if named is not None:
        if named not in [other.name for other in candidates]:
            raise ConfigError(f"{named}: the baseline of {one.name} is not among the candidates")
        return named if named != one.name else None
    if one.config is None or one.config.model.position is None:
        return None
    wanted = _without_forest(one.config)
    for other in candidates:
        config = other.config
        if config and config.model.position is None and _without_forest(config) == wanted:
            return other.name
    return None


def _without_forest(config: TrainingConfig) -> dict[str, Any]:
    """Return the settings that a config and its baseline without position forest share."""
    loss = replace(config.loss, level=0.0, relative=0.0)
    model = replace(config.model, position=None)
    return replace(config, name="", baseline=None, model=model, loss=loss).to_dict()
