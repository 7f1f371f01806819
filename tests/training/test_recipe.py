"""Recipes: what differs is all that is said, and mistakes are named."""

from pathlib import Path

import pytest

from posformer.model import ConfigError
from posformer.training.recipe import Recipe, load_recipe

CONFIGS = sorted((Path(__file__).parents[2] / "configs").rglob("*.yaml"))


@pytest.mark.parametrize("path", CONFIGS, ids=lambda path: path.stem)
def test_every_recipe_of_the_project_loads(path: Path) -> None:
    assert isinstance(load_recipe(path), Recipe)


def write(folder: Path, name: str, text: str) -> Path:
    (folder / name).write_text(text)
    return folder / name


def test_a_recipe_says_only_what_differs_from_its_base(tmp_path: Path) -> None:
    write(tmp_path, "base.yaml", "epochs: 7\noptimizer: {learning_rate: 0.5, clip: 1.0}")
    path = write(tmp_path, "child.yaml", "base: base.yaml\noptimizer: {clip: null}")
    recipe = load_recipe(path)
    assert recipe.epochs == 7
    assert recipe.optimizer.learning_rate == 0.5
    assert recipe.optimizer.clip is None


def test_settings_can_be_changed_by_dotted_names(tmp_path: Path) -> None:
    path = write(tmp_path, "r.yaml", "name: r")
    recipe = load_recipe(
        path,
        [
            "epochs=3",
            "optimizer.learning_rate=1e-3",
            "model.position=null",
            "model.encoder.layers=[1,2,3]",
        ],
    )
    assert recipe.epochs == 3
    assert recipe.optimizer.learning_rate == 0.001
    assert recipe.model.position is None
    assert recipe.model.encoder.layers == (1, 2, 3)


@pytest.mark.parametrize(
    ("text", "changes", "complaint"),
    [
        ("epoch: 3", [], "epoch"),
        ("optimizer: {learning_rate: fast}", [], "learning_rate|float"),
        ("name: r", ["epochs"], "key=value"),
        ("name: r", ["optimizer.rate=1"], "rate"),
        ("name: r", ["epochs.x=1"], "epochs"),
        ("[1, 2]", [], "mapping"),
        ("a: [", [], "not YAML"),
        ("base: missing.yaml", [], r"missing\.yaml"),
        ("base: r.yaml", [], "own base"),
        ("model: {position: {form: sideways}}", [], "form|position"),
    ],
)
def test_mistakes_are_named(tmp_path: Path, text: str, changes: list[str], complaint: str) -> None:
    path = write(tmp_path, "r.yaml", text + ("\nepochs: 1" if "epochs.x=1" in changes else ""))
    with pytest.raises(ConfigError, match=complaint):
        load_recipe(path, changes)


def test_a_recipe_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"nowhere\.yaml"):
        load_recipe(tmp_path / "nowhere.yaml")


def test_a_recipe_survives_a_round_trip(tmp_path: Path) -> None:
    import yaml

    recipe = load_recipe(CONFIGS[0])
    again = write(tmp_path, "again.yaml", yaml.safe_dump(recipe.to_dict()))
    assert load_recipe(again) == recipe
