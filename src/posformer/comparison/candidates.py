"""What is compared: configs that are to be trained, and models that are there already."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from posformer.errors import ConfigError, PosformerError
from posformer.models.model_folder import open_folder
from posformer.training.datasets import Examples, open_examples
from posformer.training.frozen_encoder import FrozenEncoder
from posformer.training.lightning_module import TrainingModule
from posformer.training.training_config import TrainingConfig, load_config

__all__ = ["Contender", "gather"]


@dataclass(frozen=True)
class Contender:
    """A line of the table."""

    name: str
    config: TrainingConfig | None = None  # None: nothing is known but the model itself
    model: Path | None = None  # None: to be trained by the config
    encoder: str | None = None  # which frozen encoder it is trained on
    baseline: str | None = None  # whom its gains are stated against

    def settings(self, seed: int) -> dict[str, Any]:
        """What decides a run with a seed, as plain values."""
        assert self.config is not None
        config = replace(self.config, seed=self.config.seed + seed)
        return {"config": config.to_dict(), "encoder": self.encoder}


def gather(
    paths: Sequence[Path],
    changes: Sequence[str] = (),
    *,
    minutes: float | None = None,
    epochs: int | None = None,
    threads: int = 1,
    baseline: str | None = None,
) -> list[Contender]:
    """Reads configs and finds models; whatever is wrong with one is said before any is trained.

    Args:
        paths: configs (YAML), model folders, checkpoints, and folders of finished runs.
        changes: `key=value`, for all configs.
        minutes: of CPU time that each config is trained for; None: as the configs say.
        epochs: the same in epochs.
        threads: of the one process that trains each: CPU time means the same for all.
        baseline: whom the gains of all others are stated against. None: what a config names as
            `baseline`, or else the config that differs from it in nothing but the position forest.
    """
    if minutes is not None and epochs is not None:
        raise ConfigError("a budget is in minutes or in epochs, not in both")
    found = [_contender(path, changes) for path in paths]
    found = [_with_budget(one, minutes, epochs, threads) for one in found]
    if not found:
        raise ConfigError("there is nothing to compare")
    _check_names(found)
    _check_trainable(found)
    return [replace(one, baseline=_baseline_of(one, found, baseline)) for one in found]


def _contender(path: Path, changes: Sequence[str]) -> Contender:
    last, config = path / "last.ckpt", path / "config.yaml"
    if last.exists():
        known = load_config(config) if config.exists() else None
        return Contender(known.name if known else path.name, known, last)
    if path.is_dir():
        open_folder(path)
        return Contender(path.resolve().name, model=path)
    if path.suffix == ".ckpt":
        if not path.exists():
            raise ConfigError(f"{path}: no such checkpoint")
        return Contender(path.stem, model=path)
    wanted = load_config(path, list(changes))
    return Contender(wanted.name, wanted)


def _with_budget(
    one: Contender, minutes: float | None, epochs: int | None, threads: int
) -> Contender:
    if one.config is None or one.model is not None:
        return one
    alone = replace(one.config, devices=1, nodes=1, threads=threads, max_minutes=None)
    if minutes is not None:
        alone = replace(alone, minutes=minutes)
    if epochs is not None:
        alone = replace(alone, epochs=epochs, minutes=None)
    if alone.frozen is None:
        return replace(one, config=alone)
    encoder = FrozenEncoder.load(alone.frozen)
    return replace(one, config=encoder.settle(alone), encoder=encoder.digest)


def _check_names(contenders: Sequence[Contender]) -> None:
    names = [one.name for one in contenders]
    for name in names:
        if names.count(name) > 1:
            raise ConfigError(f"{name}: is the name of {names.count(name)} that are compared")
        if Path(name).name != name:
            raise ConfigError(f"{name}: a name must be fit for a folder")


def _check_trainable(contenders: Sequence[Contender]) -> None:
    """Opens the data and builds each model, so that mistakes show now and not hours later."""
    opened: dict[Any, Examples] = {}
    for one in contenders:
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
    one: Contender, contenders: Sequence[Contender], for_all: str | None
) -> str | None:
    names = [other.name for other in contenders]
    named = for_all or (one.config.baseline if one.config else None)
    if named is not None:
        if named not in names:
            raise ConfigError(f"{named}: the baseline of {one.name} is not compared")
        return named if named != one.name else None
    if one.config is None or one.config.model.position is None:
        return None
    for other in contenders:
        plain = other.config is not None and other.config.model.position is None
        if plain and _without_forest(other) == _without_forest(one):
            return other.name
    return None


def _without_forest(one: Contender) -> dict[str, Any]:
    """What two configs must have in common for one to be the other with a position forest."""
    assert one.config is not None
    loss = replace(one.config.loss, level=0.0, relative=0.0)
    model = replace(one.config.model, position=None)
    return replace(one.config, name="", baseline=None, model=model, loss=loss).to_dict()
