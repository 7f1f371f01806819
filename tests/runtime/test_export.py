"""A model folder holds all that recognition needs, and what it holds was checked."""

import json
from dataclasses import replace

import numpy as np
import onnxruntime
import pytest
import torch
from typer.testing import CliRunner

from posformer.cli import app
from posformer.errors import ModelError
from posformer.models.checkpoint import load_model
from posformer.models.model_folder import open_folder
from posformer.runtime import model_export as export
from posformer.runtime.model_export import export_model, largest_difference
from posformer.runtime.onnx_runtime import OnnxRuntime
from posformer.runtime.pytorch_runtime import PyTorchRuntime
from tiny import VOCABULARY, random_images, tiny_config, tiny_model


def test_a_model_folder_is_complete(tmp_path):
    card = tmp_path / "card.md"
    card.write_text("# A tiny model\n")
    folder, difference = export_model(tiny_model(), tmp_path / "model", {"data": "none"}, card=card)
    assert set(folder.checksums) == {
        "README.md",
        "decoder.onnx",
        "encoder.onnx",
        "model.safetensors",
        "vocabulary.txt",
    }
    assert difference < 1e-4
    again = open_folder(tmp_path / "model")
    assert again.vocabulary == VOCABULARY
    assert again.info == {"data": "none"}
    assert load_model(tmp_path / "model").config == tiny_config()


def test_parts_that_only_training_needs_are_gone(tmp_path):
    model = tiny_model()
    assert model.position is not None
    folder, _ = export_model(model, tmp_path / "model")
    for name in ("encoder.onnx", "decoder.onnx"):
        session = onnxruntime.InferenceSession(folder.file(name))
        assert not any("position" in output.name for output in session.get_outputs())
    assert model.position is not None, "the model that was exported stays whole"
    model.position = None
    plain, _ = export_model(model, tmp_path / "plain")
    assert plain.checksums == folder.checksums


def test_sizes_are_free(tmp_path):
    folder, _ = export_model(tiny_model(), tmp_path / "model")
    session = onnxruntime.InferenceSession(folder.file("decoder.onnx"))
    shapes = {given.name: given.shape for given in session.get_inputs()}
    assert shapes["tokens"] == ["images", "rows", "steps"]
    assert shapes["past_keys.0"] == ["old rows", 4, "past", 8]


def test_half_precision_halves_the_files_and_changes_no_number(tmp_path):
    model = tiny_model()
    full, _ = export_model(model, tmp_path / "full")
    half, difference = export_model(model, tmp_path / "half", half=True)
    sizes = [
        sum((folder.path / name).stat().st_size for name in ("encoder.onnx", "model.safetensors"))
        for folder in (full, half)
    ]
    assert sizes[1] < 0.75 * sizes[0]
    assert difference < 1e-4
    rounded = PyTorchRuntime(load_model(half.path))
    assert largest_difference(rounded, OnnxRuntime(half)) < 1e-4
    (image,) = random_images(0, [(40, 60)])
    tokens = np.full((1, 1, 4), 5)
    scores = []
    for folder in (full, half):
        step_model = OnnxRuntime(folder).encode([image])
        scores.append(step_model.step(tokens, step_model.start())[0])
    assert 0 < np.abs(scores[0] - scores[1]).max() < 0.05


def test_batch_norms_vanish_into_convolutions(tmp_path):
    folder, _ = export_model(tiny_model(), tmp_path / "model", half=True)
    for name, left in (("encoder.onnx", 1), ("decoder.onnx", 0)):  # one has none before it
        options = onnxruntime.SessionOptions()
        options.optimized_model_filepath = str(tmp_path / name)
        options.log_severity_level = 4
        onnxruntime.InferenceSession(folder.file(name), options)
        optimised = (tmp_path / name).read_bytes()
        assert optimised.count(b"\x22\x12BatchNormalization") == left
        assert optimised.count(b"\x22\x04Cast") <= 4, "weights are widened once, while loading"


def test_files_that_compute_something_else_are_not_written(tmp_path, monkeypatch):
    other = tiny_model(seed=9)
    faithful = export.export_onnx
    monkeypatch.setattr(
        export, "export_onnx", lambda model, folder, half: faithful(other, folder, half=half)
    )
    with pytest.raises(ModelError, match="differ from PyTorch"):
        export_model(tiny_model(), tmp_path / "model")
    assert not (tmp_path / "model").exists()


# The commands


def run(*arguments: object) -> tuple[int, str]:
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result.exit_code, result.output


def test_export_command(tmp_path):
    export_model(tiny_model(), tmp_path / "one", {"data": "made up"})
    code, output = run("export", tmp_path / "one", tmp_path / "two", "--half")
    assert (code, "agree within" in output) == (0, True)
    assert open_folder(tmp_path / "two").info == {"data": "made up"}


def test_a_model_can_be_given_its_images_larger_than_in_training(tiny_folder, tmp_path):
    code, output = run("export", tiny_folder, tmp_path / "larger", "--scale", "0.9")
    assert code == 0, output
    before, after = open_folder(tiny_folder).config, open_folder(tmp_path / "larger").config
    assert after.image.scale == 0.9
    assert replace(after, image=before.image) == before


def test_export_refuses_what_is_no_model(tmp_path):
    with pytest.raises(ModelError, match="no such model"):
        run("export", tmp_path / "nothing.ckpt", tmp_path / "out")
    (tmp_path / "text.ckpt").write_text("hello")
    with pytest.raises(ModelError, match="not a checkpoint"):
        run("export", tmp_path / "text.ckpt", tmp_path / "out")


def test_a_checkpoint_of_training_is_exported(tmp_path):
    model = tiny_model()
    checkpoint = {
        "state_dict": {f"model.{name}": value for name, value in model.state_dict().items()},
        "posformer": {
            "config": {"name": "tiny", "model": model.config.to_dict()},
            "tokens": list(VOCABULARY.tokens),
            "seen": 640,
        },
        "epoch": 3,
    }
    torch.save(checkpoint, tmp_path / "last.ckpt")
    code, _ = run("export", tmp_path / "last.ckpt", tmp_path / "out")
    assert code == 0
    known = open_folder(tmp_path / "out").info
    assert known == {"config": "tiny", "used_ink": False, "examples_seen": 640, "epoch": 3}


def test_import_checkpoint_command(reference, tmp_path, monkeypatch):
    checkpoint = reference / "posformer_reference_small.ckpt"
    words = reference / "crohme_dictionary.txt"
    code, _ = run("import-checkpoint", checkpoint, tmp_path / "out", "--vocabulary", words)
    assert code == 0
    folder = open_folder(tmp_path / "out")
    assert not folder.config.encoder.mask_padding
    assert len(folder.vocabulary) == 113

    monkeypatch.setattr(export, "DEFAULT_MODEL", tmp_path / "absent")
    with pytest.raises(ModelError, match="--vocabulary"):
        run("import-checkpoint", checkpoint, tmp_path / "again")
    monkeypatch.setattr(export, "DEFAULT_MODEL", tmp_path / "out")
    assert run("import-checkpoint", checkpoint, tmp_path / "again")[0] == 0


def test_info_command(tmp_path):
    (tmp_path / "card.md").write_text("# Read me\n")
    scores = {"exprate": 12.5}
    export_model(tiny_model(), tmp_path / "m", {"scores": scores}, card=tmp_path / "card.md")
    code, output = run("info", "--model", tmp_path / "m")
    assert code == 0
    for part in ("posformer", "onnxruntime", "growth 4", "# Read me", json.dumps(scores)):
        assert part in output
