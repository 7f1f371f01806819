"""A small synthetic data set, and a model small enough to learn it within a minute."""

from pathlib import Path

import pytest
import yaml

from posformer.synthesis.synthesizer import open_synthesizer, write_set

EXAMPLES = 64


@pytest.fixture(scope="session")
def own_set(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Synthetic expressions in the layout of CROHME."""
    path = tmp_path_factory.mktemp("own") / "own.zip"
    synthesizer = open_synthesizer(levels="0-1", max_tokens=8)
    assert len(list(write_set(path, synthesizer, EXAMPLES, seed=1, split="train"))) == EXAMPLES
    return path


@pytest.fixture
def tiny_config(own_set: Path, tmp_path: Path) -> Path:
    """A config that over-fits the set within a minute."""
    config = {
        "name": "tiny",
        "model": {
            "image": {"scale": 0.5, "margin": 4},
            "encoder": {"growth": 12, "layers": [2, 3, 4], "dropout": 0.0},
            "decoder": {
                "width": 64,
                "heads": 4,
                "layers": 2,
                "feedforward": 128,
                "dropout": 0.0,
                "attention_dropout": 0.0,
                "refinement": {"channels": 8},
            },
            "position": {"form": "heads"},
        },
        "data": {
            "images": str(own_set),
            "train": "train",
            "validation": "train",
            "scale_range": None,
        },
        "batch": {"max_pixels": 60000, "max_images": 8, "workers": 0},
        "optimizer": {
            "learning_rate": 0.003,
            "weight_decay": 0.0,
            "averaging": None,
            "warmup": 1,
            "freeze_norms": 30,
        },
        "epochs": 60,
        "validate_every": 10,
        "progress_images": 6,
        "accelerator": "cpu",
        "threads": 1,
    }
    path = tmp_path / "tiny.yaml"
    path.write_text(yaml.safe_dump(config))
    return path
