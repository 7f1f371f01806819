"""DWAP, ABM and CAN overfit a small data set with the position forest.

`tests/models/test_registry_models.py` covers all models without it, and resuming.
"""

import csv
from pathlib import Path

import pytest
import yaml

from posformer.data import open_images
from posformer.evaluation import evaluate_pairs
from posformer.runtime import decode_images, load_runtime
from posformer.runtime.model_export import export_model
from posformer.search import DecodingOptions
from posformer.synthesis.synthesizer import open_synthesizer, write_set
from posformer.training.trainer import train
from posformer.training.training_config import TrainingConfig, load_config

EXAMPLES = 16

CONFIG = {
    "model": {
        "image": {"scale": 0.5, "margin": 4},
        "encoder": {"growth": 8, "layers": [2, 2, 3], "dropout": 0.0},
        "decoder": {"width": 48, "embedding": 32, "attention": 48, "dropout": 0.0},
    },
    "data": {"train": "train", "validation": "train", "scale_range": None},
    "batch": {"max_pixels": 60000, "max_images": 8, "workers": 0},
    "optimizer": {
        "learning_rate": 0.006,
        "weight_decay": 0.0,
        "averaging": None,
        "warmup": 1,
        "freeze_norms": 24,
    },
    "epochs": 60,
    "validate_every": 60,
    "accelerator": "cpu",
    "threads": 1,
}


@pytest.fixture(scope="module")
def few(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A few short expressions, some with scripts."""
    path = tmp_path_factory.mktemp("few") / "few.zip"
    synthesizer = open_synthesizer(levels="0-1", max_tokens=6)
    assert len(list(write_set(path, synthesizer, EXAMPLES, seed=2, split="train"))) == EXAMPLES
    return path


def config_for(data: Path, folder: Path, *changes: str) -> TrainingConfig:
    path = folder / "config.yaml"
    path.write_text(yaml.safe_dump(CONFIG))
    return load_config(path, [f"data.images={data}", *changes])


def exprate(model: Path, data: Path) -> float:
    """Return the ExpRate of greedy decoding on the training images, in percent."""
    runtime, images = load_runtime(model), open_images(data, "train")
    options = DecodingOptions(greedy=True)
    found = decode_images(runtime, [images.image(i) for i in range(len(images))], options)
    predictions = [runtime.vocabulary.decode(best[0].tokens) for best in found]
    return evaluate_pairs([example.tokens for example in images], predictions).exprate


def last_row(run: Path) -> dict[str, str]:
    """Return the latest value of each logged metric."""
    (log,) = (run / "log").glob("*/metrics.csv")
    found: dict[str, str] = {}
    with log.open() as file:
        for row in csv.DictReader(file):
            found.update({name: value for name, value in row.items() if value})
    return found


@pytest.mark.slow
@pytest.mark.parametrize("position", ["heads", "separate"])
@pytest.mark.parametrize("name", ["dwap", "abm", "can"])
def test_a_small_data_set_is_overfitted(
    name: str, position: str, few: Path, tmp_path: Path
) -> None:
    changes = [f"model.name={name}", f"model.position={position}"]
    if name == "can":
        changes += ["model.decoder.counting_channels=32", "model.decoder.counting_reduction=8"]
    config = config_for(few, tmp_path, *changes)
    module = train(config, tmp_path / "run")
    logged = last_row(tmp_path / "run")
    assert float(logged["val/exprate"]) == 100.0
    own = {"dwap": set(), "abm": {"train/mutual"}, "can": {"train/counting"}}[name]
    assert own | {"train/level", "train/relative"} <= set(logged)
    export_model(module.model, tmp_path / "model")
    assert exprate(tmp_path / "model", few) == 100.0
