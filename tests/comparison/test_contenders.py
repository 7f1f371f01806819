"""What is compared with what; and what is wrong is said before anything is trained."""

from pathlib import Path

import pytest

from posformer.comparison import ComparisonError, gather
from posformer.errors import PosformerError


def test_recipes_are_given_one_budget_one_process_and_the_encoders_settings(
    recipes: list[Path],
) -> None:
    found = gather(recipes, ["batch.max_pictures=4", "devices=2"], minutes=3, threads=2)
    assert [one.name for one in found] == ["plain", "plain-pf"]
    for one in found:
        assert one.recipe is not None and one.model is None
        assert (one.recipe.minutes, one.recipe.devices, one.recipe.threads) == (3, 1, 2)
        assert one.recipe.batch.max_pictures == 4
        assert one.recipe.model.picture.scale == 0.5
    assert found[0].encoder == found[1].encoder is not None


def test_gains_are_over_the_recipe_without_the_forest(recipes: list[Path]) -> None:
    assert [one.baseline for one in gather(recipes[::-1])] == ["plain", None]


def test_a_pair_differs_in_nothing_but_the_forest(recipes: list[Path], tmp_path: Path) -> None:
    other = tmp_path / "other.yaml"
    other.write_text("base: plain-pf.yaml\nname: other\noptimizer: {clip: 1.0}\n")
    assert [one.baseline for one in gather([*recipes, other])] == [None, "plain", None]


def test_a_baseline_can_be_named_by_a_recipe_or_for_all(
    recipes: list[Path], tmp_path: Path
) -> None:
    other = tmp_path / "other.yaml"
    other.write_text("base: plain.yaml\nname: other\nbaseline: plain-pf\n")
    paths = [*recipes, other]
    assert [one.baseline for one in gather(paths)] == [None, "plain", "plain-pf"]
    assert [one.baseline for one in gather(paths, baseline="other")] == ["other", "other", None]


def test_models_that_are_there_are_found(recipes: list[Path], given_model: Path) -> None:
    found = gather([given_model, recipes[0]], baseline="given")
    assert [(one.name, one.model) for one in found] == [("given", given_model), ("plain", None)]
    assert found[1].baseline == "given"


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("base: plain.yaml\nname: plain", "plain: is the name of 2"),
        ("base: plain.yaml\nname: a/b", "a/b.*folder"),
        ("base: plain.yaml\nname: x\nbaseline: nobody", "nobody"),
        ("base: plain.yaml\nname: x\nepoch: 3", "epoch"),
        ("base: plain.yaml\nname: x\nfrozen: {encoder: nowhere}", "nowhere"),
        ("base: plain.yaml\nname: x\ndata: {train: trian}", "x: .*trian"),
        ("base: plain.yaml\nname: x\ndata: {pictures: gone.zip}", r"x: .*gone\.zip"),
        ("base: plain.yaml\nname: x\nmodel: {decoder: {width: 30}}", "x: .*width"),
    ],
)
def test_mistakes_are_named(recipes: list[Path], tmp_path: Path, text: str, complaint: str) -> None:
    path = tmp_path / "wrong.yaml"
    path.write_text(text)
    with pytest.raises(PosformerError, match=complaint):
        gather([*recipes, path])


def test_there_must_be_something_and_one_budget(recipes: list[Path], tmp_path: Path) -> None:
    with pytest.raises(ComparisonError, match="nothing to compare"):
        gather([])
    with pytest.raises(ComparisonError, match="not in both"):
        gather(recipes, minutes=1, epochs=1)
    with pytest.raises(ComparisonError, match=r"gone\.ckpt"):
        gather([tmp_path / "gone.ckpt"])
