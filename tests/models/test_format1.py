"""A model folder and a training checkpoint written by version 0.1 still load.

`format1/` holds what version 0.1 wrote: a model folder of format 1 in half precision, the training
checkpoint that it was exported from, the training data and config, and log-probabilities.
"""

import gzip
import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from posformer.cli import app
from posformer.models.checkpoint import read_checkpoint
from posformer.models.model_folder import open_folder
from posformer.runtime import Calibration, load_runtime
from posformer.runtime.calibration import save_calibration

FORMAT1 = Path(__file__).parent / "format1"
MODEL = FORMAT1 / "model"
ENGINES = ("onnx", "pytorch")


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    run = tmp_path / "run"
    run.mkdir()
    path = run / "last.ckpt"
    path.write_bytes(gzip.decompress((FORMAT1 / "last.ckpt.gz").read_bytes()))
    return path


def log_probs(path: Path, engine: str) -> np.ndarray:
    image = np.zeros((40, 70), np.uint8)
    image[8:32:3, 5:60] = 255
    image[4:36, 10:60:9] = 255
    tokens = np.arange(24).reshape(1, 2, 12) % 9 + 1
    model = load_runtime(path, engine).encode([image])  # type: ignore[arg-type]
    return model.step(tokens, model.start())[0][0, :, -1]


def expected(name: str) -> np.ndarray:
    return np.array(json.loads((FORMAT1 / "log_probs.json").read_text())[name])


@pytest.mark.parametrize("engine", ENGINES)
def test_both_engines_run_the_folder(engine: str) -> None:
    np.testing.assert_allclose(log_probs(MODEL, engine), expected("model"), atol=2e-5)


def test_the_checkpoint_loads(checkpoint: Path) -> None:
    np.testing.assert_allclose(log_probs(checkpoint, "auto"), expected("checkpoint"), atol=2e-5)


def test_attention_of_both_engines_agrees() -> None:
    image = np.full((32, 64), 255, np.uint8)
    tokens = np.array([[[1, 5, 6], [2, 7, 8]]])
    layers = [load_runtime(MODEL, engine).encode([image]).attention(tokens) for engine in ENGINES]
    for one, other in zip(*layers, strict=True):
        assert one.weights.shape == (1, 2, 3, 2, 2, 4)
        np.testing.assert_allclose(one.weights, other.weights, atol=1e-5)
        np.testing.assert_allclose(one.raw_weights, other.raw_weights, atol=1e-5)
        assert one.is_refined == other.is_refined


def test_images_of_different_sizes_are_decoded_together() -> None:
    images = [np.full(size, 255, np.uint8) for size in ((32, 64), (48, 20), (16, 16))]
    tokens = np.arange(18).reshape(3, 2, 3) % 20 + 1
    results = []
    for engine in ENGINES:
        model = load_runtime(MODEL, engine).encode(images)  # type: ignore[arg-type]
        _, state = model.step(tokens, model.start())
        state = model.select(state, np.array([2, 0]), np.array([[1, 1], [0, 1]]))
        results.append(model.step(tokens[:2, :, :1], state)[0])
    np.testing.assert_allclose(*results, atol=2e-5)


def test_a_calibrated_folder_still_loads(tmp_path: Path) -> None:
    shutil.copytree(MODEL, tmp_path / "model")
    save_calibration(tmp_path / "model", Calibration(1.0, 0.1, 2.0, 0.0))
    assert open_folder(tmp_path / "model").info["calibration"]["bias"] == 1.0
    np.testing.assert_allclose(log_probs(tmp_path / "model", "onnx"), expected("model"), atol=2e-5)


def run(*arguments: object) -> str:
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    assert result.exit_code == 0, (result.output, result.exception)
    return result.output


def test_recognize_with_the_folder(tmp_path: Path) -> None:
    shutil.unpack_archive(FORMAT1 / "examples.zip", tmp_path / "examples")
    image = min((tmp_path / "examples").rglob("*.bmp"))
    line = json.loads(run("recognize", image, "--model", MODEL, "--format", "json"))
    assert set(line) >= {"path", "latex", "confidence", "alternatives"}


@pytest.mark.parametrize("source", ["folder", "checkpoint"])
def test_init_with_the_model(source: str, checkpoint: Path, tmp_path: Path) -> None:
    init = MODEL if source == "folder" else checkpoint
    train(tmp_path / "new", "--init", init)
    assert read_checkpoint(tmp_path / "new" / "last.ckpt")["epoch"] >= 0


def test_resume_from_the_checkpoint(checkpoint: Path) -> None:
    before = read_checkpoint(checkpoint)["epoch"]
    train(checkpoint.parent, "--resume")
    assert read_checkpoint(checkpoint)["epoch"] > before


def train(output: Path, *options: object) -> None:
    changes = (f"data.images={FORMAT1 / 'examples.zip'}", "epochs=3")
    run("train", "--config", FORMAT1 / "recipe.yaml", "--output", output, *options, *changes)
