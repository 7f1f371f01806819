"""What is compared: recipes that are to be trained, and models that are there already."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from posformer.errors import PosformerError
from posformer.model.folder import open_folder
from posformer.training.frozen import FrozenEncoder
from posformer.training.module import TrainingModule
from posformer.training.recipe import Recipe, load_recipe
from posformer.training.sources import Examples, open_examples

__all__ = ["ComparisonError", "Contender", "gather"]


class ComparisonError(PosformerError):
    """Things that cannot be compared."""


@dataclass(frozen=True)
class Contender:
    """A line of the table."""

    name: str
    recipe: Recipe | None = None  # None: nothing is known but the model itself
    model: Path | None = None  # None: to be trained by the recipe
    encoder: str | None = None  # which frozen encoder it is trained on
    baseline: str | None = None  # whom its gains are stated against

    def settings(self, seed: int) -> dict[str, Any]:
        """What decides a run with a seed, as plain values."""
        assert self.recipe is not None
        recipe = replace(self.recipe, seed=self.recipe.seed + seed)
        return {"recipe": recipe.to_dict(), "encoder": self.encoder}


def gather(
    paths: Sequence[Path],
    changes: Sequence[str] = (),
    *,
    minutes: float | None = None,
    epochs: int | None = None,
    threads: int = 1,
    baseline: str | None = None,
) -> list[Contender]:
    """Reads recipes and finds models; whatever is wrong with one is said before any is trained.

    Args:
        paths: recipes (YAML), model folders, checkpoints, and folders of finished runs.
        changes: `key=value`, for all recipes.
        minutes: of CPU time that each recipe is trained for; None: as the recipes say.
        epochs: the same in epochs.
        threads: of the one process that trains each: CPU time means the same for all.
        baseline: whom the gains of all others are stated against. None: what a recipe names as
            `baseline`, or else the recipe that differs from it in nothing but the position forest.
    """
    if minutes is not None and epochs is not None:
        raise ComparisonError("a budget is in minutes or in epochs, not in both")
    found = [_contender(path, changes) for path in paths]
    found = [_with_budget(one, minutes, epochs, threads) for one in found]
    if not found:
        raise ComparisonError("there is nothing to compare")
    _check_names(found)
    _check_trainable(found)
    return [replace(one, baseline=_baseline_of(one, found, baseline)) for one in found]


def _contender(path: Path, changes: Sequence[str]) -> Contender:
    last, recipe = path / "last.ckpt", path / "recipe.yaml"
    if last.exists():
        known = load_recipe(recipe) if recipe.exists() else None
        return Contender(known.name if known else path.name, known, last)
    if path.is_dir():
        open_folder(path)
        return Contender(path.resolve().name, model=path)
    if path.suffix == ".ckpt":
        if not path.exists():
            raise ComparisonError(f"{path}: no such checkpoint")
        return Contender(path.stem, model=path)
    wanted = load_recipe(path, list(changes))
    return Contender(wanted.name, wanted)


def _with_budget(
    one: Contender, minutes: float | None, epochs: int | None, threads: int
) -> Contender:
    if one.recipe is None or one.model is not None:
        return one
    alone = replace(one.recipe, devices=1, nodes=1, threads=threads, max_minutes=None)
    if minutes is not None:
        alone = replace(alone, minutes=minutes)
    if epochs is not None:
        alone = replace(alone, epochs=epochs, minutes=None)
    if alone.frozen is None:
        return replace(one, recipe=alone)
    encoder = FrozenEncoder.load(alone.frozen)
    return replace(one, recipe=encoder.settle(alone), encoder=encoder.digest)


def _check_names(contenders: Sequence[Contender]) -> None:
    names = [one.name for one in contenders]
    for name in names:
        if names.count(name) > 1:
            raise ComparisonError(f"{name}: is the name of {names.count(name)} that are compared")
        if Path(name).name != name:
            raise ComparisonError(f"{name}: a name must be fit for a folder")


def _check_trainable(contenders: Sequence[Contender]) -> None:
    """Opens the data and builds each model, so that mistakes show now and not hours later."""
    opened: dict[Any, Examples] = {}
    for one in contenders:
        recipe = one.recipe
        if recipe is None or one.model is not None:
            continue
        key = recipe.data, recipe.model.picture
        try:
            opened[key] = examples = opened.get(key) or open_examples(*key)
            TrainingModule(recipe, examples.vocabulary, len(examples.train))
        except PosformerError as error:
            raise ComparisonError(f"{one.name}: {error}") from error


def _baseline_of(
    one: Contender, contenders: Sequence[Contender], for_all: str | None
) -> str | None:
    names = [other.name for other in contenders]
    named = for_all or (one.recipe.baseline if one.recipe else None)
    if named is not None:
        if named not in names:
            raise ComparisonError(f"{named}: the baseline of {one.name} is not compared")
        return named if named != one.name else None
    if one.recipe is None or one.recipe.model.position is None:
        return None
    for other in contenders:
        plain = other.recipe is not None and other.recipe.model.position is None
        if plain and _without_forest(other) == _without_forest(one):
            return other.name
    return None


def _without_forest(one: Contender) -> dict[str, Any]:
    """What two recipes must have in common for one to be the other with a position forest."""
    assert one.recipe is not None
    loss = replace(one.recipe.loss, level=0.0, relative=0.0)
    model = replace(one.recipe.model, position=None)
    return replace(one.recipe, name="", baseline=None, model=model, loss=loss).to_dict()
