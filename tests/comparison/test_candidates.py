"""Candidates and baselines; invalid configs raise errors before training."""

from pathlib import Path

import pytest

from posformer.comparison import gather, split_arguments
from posformer.errors import ConfigError, PosformerError


def test_configs_get_the_budget_and_the_settings_of_the_encoder(
    configs: list[Path],
) -> None:
    found = gather(configs, ["batch.max_images=4", "devices=2"], minutes=3, threads=2)
    assert [one.name for one in found] == ["plain", "plain-pf"]
    for one in found:
        assert one.config is not None and one.model is None
        assert (one.config.minutes, one.config.devices, one.config.threads) == (3, 1, 2)
        assert one.config.batch.max_images == 4
        assert one.config.model.image.scale == 0.5
    assert found[0].encoder == found[1].encoder is not None


def test_default_baseline_is_the_config_without_position_forest(configs: list[Path]) -> None:
    assert [one.baseline for one in gather(configs[::-1])] == ["plain", None]


def test_default_baseline_differs_in_the_position_forest_only(
    configs: list[Path], tmp_path: Path
) -> None:
    other = tmp_path / "other.yaml"
    other.write_text("base: plain-pf.yaml\nname: other\noptimizer: {clip: 1.0}\n")
    assert [one.baseline for one in gather([*configs, other])] == [None, "plain", None]


def test_baseline_of_a_config_or_of_all_candidates(configs: list[Path], tmp_path: Path) -> None:
    other = tmp_path / "other.yaml"
    other.write_text("base: plain.yaml\nname: other\nbaseline: plain-pf\n")
    paths = [*configs, other]
    assert [one.baseline for one in gather(paths)] == [None, "plain", "plain-pf"]
    assert [one.baseline for one in gather(paths, baseline="other")] == ["other", "other", None]


def test_configs_can_have_their_own_overrides(configs: list[Path]) -> None:
    named = f"{configs[0]}:optimizer.clip=1.0,name=clipped"
    unnamed = f"{configs[0]}:optimizer.clip=2.5"
    found = gather([configs[0], named, unnamed], ["batch.max_images=4"])
    assert [one.name for one in found] == ["plain", "clipped", "plain-clip-2.5"]
    assert [one.config.optimizer.clip for one in found[1:] if one.config] == [1.0, 2.5]
    assert all(one.config.batch.max_images == 4 for one in found if one.config)


def test_arguments_are_split_into_candidates_and_overrides() -> None:
    arguments = ["a.yaml", "epochs=3", "b.yaml:epochs=2,name=c", "data.images=x.zip"]
    expected = ["a.yaml", "b.yaml:epochs=2,name=c"], ["epochs=3", "data.images=x.zip"]
    assert split_arguments(arguments) == expected


def test_existing_models_are_candidates(configs: list[Path], given_model: Path) -> None:
    found = gather([given_model, configs[0]], baseline="given")
    assert [(one.name, one.model) for one in found] == [("given", given_model), ("plain", None)]
    assert found[1].baseline == "given"


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("base: plain.yaml\nname: plain", "plain: 2 candidates"),
        ("base: plain.yaml\nname: a/b", "a/b.*folder"),
        ("base: plain.yaml\nname: x\nbaseline: nobody", "nobody"),
        ("base: plain.yaml\nname: x\nepoch: 3", "epoch"),
        ("base: plain.yaml\nname: x\nfrozen: {encoder: nowhere}", "nowhere"),
        ("base: plain.yaml\nname: x\ndata: {train: trian}", "x: .*trian"),
        ("base: plain.yaml\nname: x\ndata: {images: gone.zip}", r"x: .*gone\.zip"),
        ("base: plain.yaml\nname: x\nmodel: {decoder: {width: 30}}", "x: .*width"),
    ],
)
def test_invalid_configs_raise_errors(
    configs: list[Path], tmp_path: Path, text: str, complaint: str
) -> None:
    path = tmp_path / "wrong.yaml"
    path.write_text(text)
    with pytest.raises(PosformerError, match=complaint):
        gather([*configs, path])


def test_missing_candidates_and_two_budgets_raise_errors(
    configs: list[Path], tmp_path: Path
) -> None:
    with pytest.raises(ConfigError, match="nothing to compare"):
        gather([])
    with pytest.raises(ConfigError, match="not in both"):
        gather(configs, minutes=1, epochs=1)
    with pytest.raises(ConfigError, match=r"gone\.ckpt"):
        gather([tmp_path / "gone.ckpt"])


def test_a_config_can_be_given_twice_with_different_overrides(configs: list[Path]) -> None:
    plain = configs[0]
    found = gather(
        [
            plain,
            f"{plain}:model.position=heads",
            f"{plain}:name=named,model.encoder.layers=[1,1],model.position=heads",
        ],
        ["batch.max_images=4"],
    )
    assert [one.name for one in found] == ["plain", "plain-position-heads", "named"]
    assert [one.baseline for one in found] == [None, "plain", "plain"]
    for one in found:
        assert one.config is not None and one.config.batch.max_images == 4


def test_arguments_are_candidates_or_overrides_for_all() -> None:
    arguments = [
        "a.yaml",
        "data.images=x/y.zip",
        "b/c.yaml:model.position=heads",
        "runs/d",
        "seed=1",
    ]
    candidates, overrides = split_arguments(arguments)
    assert candidates == ["a.yaml", "b/c.yaml:model.position=heads", "runs/d"]
    assert overrides == ["data.images=x/y.zip", "seed=1"]


def test_a_budget_is_for_configs_without_stages(configs: list[Path], tmp_path: Path) -> None:
    staged = tmp_path / "staged.yaml"
    staged.write_text("base: plain.yaml\nname: staged\nstages: [{name: only, epochs: 1}]\n")
    assert gather([staged])[0].config.stages
    with pytest.raises(ConfigError, match="staged: a budget needs a config without stages"):
        gather([staged], minutes=1)
    assert gather([f"{staged}:stages=null,name=flat"], minutes=1)[0].config.minutes == 1
