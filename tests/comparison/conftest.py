"""A small dataset, and two configs with a frozen encoder that differ in the position forest."""

from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from posformer.models.checkpoint import save_model
from posformer.synthesis.synthesizer import open_synthesizer, write_set
from tiny import tiny_config, tiny_model


@pytest.fixture(scope="session")
def small_set(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("small") / "small.zip"
    synthesizer = open_synthesizer(levels="0-1", max_tokens=6)
    list(write_set(path, synthesizer, 10, seed=1, split="train"))
    return path


@pytest.fixture(scope="session")
def given_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models") / "given"
    save_model(tiny_model(1, tiny_config(image=replace(tiny_config().image, scale=0.5))), folder)
    return folder


@pytest.fixture
def configs(small_set: Path, given_model: Path, tmp_path: Path) -> list[Path]:
    """`plain.yaml` and `plain-pf.yaml`."""
    plain = {
        "name": "plain",
        "model": {
            "decoder": {"width": 32, "heads": 4, "layers": 2, "feedforward": 48, "dropout": 0.0},
            "position": None,
        },
        "frozen": {"encoder": str(given_model), "cache": str(tmp_path / "cache")},
        "data": {"images": str(small_set), "validation": "train", "scale_range": None},
        "batch": {"max_images": 8, "workers": 0},
        "optimizer": {"averaging": None},
        "epochs": 1,
        "validate_every": 100,
        "progress_images": 0,
        "accelerator": "cpu",
    }
    forest = {"base": "plain.yaml", "name": "plain-pf", "model": {"position": {"form": "heads"}}}
    paths = [tmp_path / "plain.yaml", tmp_path / "plain-pf.yaml"]
    for path, values in zip(paths, (plain, forest), strict=True):
        path.write_text(yaml.safe_dump(values))
    return paths
