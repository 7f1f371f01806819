"""Configs: bases, overrides, errors."""

import textwrap
from pathlib import Path

import pytest

from posformer.errors import ConfigError
from posformer.models.model_folder import open_folder
from posformer.training.training_config import TrainingConfig, load_config

ROOT = Path(__file__).parents[2]
CONFIGS = sorted((ROOT / "configs").rglob("*.yaml"))


@pytest.mark.parametrize("path", CONFIGS, ids=lambda path: path.stem)
def test_all_configs_load(path: Path) -> None:
    assert isinstance(load_config(path), TrainingConfig)


def test_the_config_of_the_fine_tuning_guide_fits_the_bundled_model(tmp_path: Path) -> None:
    guide = (ROOT / "docs" / "training.md").read_text("utf-8").partition("## Fine-tune")[2]
    text = textwrap.dedent(guide.partition("```yaml\n")[2].partition("```")[0])
    text = text.replace("base: configs", f"base: {(ROOT / 'configs').as_posix()}")
    config = load_config(write(tmp_path, "mine.yaml", text))
    bundled = open_folder(ROOT / "src" / "posformer" / "weights" / "default").config
    assert config.model == bundled
    assert config.data.source == "images"
    assert not config.data.sources


def write(folder: Path, name: str, text: str) -> Path:
    (folder / name).write_text(text)
    return folder / name


def test_a_config_overrides_its_base(tmp_path: Path) -> None:
    write(tmp_path, "base.yaml", "epochs: 7\noptimizer: {learning_rate: 0.5, clip: 1.0}")
    path = write(tmp_path, "child.yaml", "base: base.yaml\noptimizer: {clip: null}")
    config = load_config(path)
    assert config.epochs == 7
    assert config.optimizer.learning_rate == 0.5
    assert config.optimizer.clip is None


def test_settings_can_be_overridden_by_dotted_names(tmp_path: Path) -> None:
    path = write(tmp_path, "r.yaml", "name: r")
    config = load_config(
        path,
        [
            "epochs=3",
            "optimizer.learning_rate=1e-3",
            "model.position=null",
            "model.encoder.layers=[1,2,3]",
        ],
    )
    assert config.epochs == 3
    assert config.optimizer.learning_rate == 0.001
    assert config.model.position is None
    assert config.model.encoder.layers == (1, 2, 3)


@pytest.mark.parametrize(
    ("text", "overrides", "message"),
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
def test_wrong_settings_are_named(
    tmp_path: Path, text: str, overrides: list[str], message: str
) -> None:
    path = write(tmp_path, "r.yaml", text + ("\nepochs: 1" if "epochs.x=1" in overrides else ""))
    with pytest.raises(ConfigError, match=message):
        load_config(path, overrides)


def test_a_missing_config_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"nowhere\.yaml"):
        load_config(tmp_path / "nowhere.yaml")


def test_a_config_survives_a_round_trip(tmp_path: Path) -> None:
    import yaml

    config = load_config(CONFIGS[0])
    again = write(tmp_path, "again.yaml", yaml.safe_dump(config.to_dict()))
    assert load_config(again) == config
