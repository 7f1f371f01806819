"""Export: complete model folders, weights stored once, checked results."""

import math
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest
import torch
from safetensors.torch import load_file, save_file
from typer.testing import CliRunner

from posformer.cli import app
from posformer.errors import ModelError
from posformer.models.checkpoint import load_model
from posformer.models.model_folder import ModelFolder, open_folder, write_folder
from posformer.models.posformer import PosFormer
from posformer.runtime import Calibration
from posformer.runtime import model_export as export
from posformer.runtime.calibration import save_calibration
from posformer.runtime.model_export import export_model, largest_difference
from posformer.runtime.onnx_runtime import OnnxRuntime
from posformer.runtime.ort import ort
from posformer.runtime.pytorch_runtime import PyTorchRuntime
from tiny import VOCABULARY, random_images, tiny_config, tiny_model
from tiny_exports import MODELS, without_coverage


def test_a_model_folder_is_complete(exported):
    folder = open_folder(exported("tiny"))
    assert set(folder.checksums) == {
        "decoder.onnx",
        "encoder.onnx",
        "model.safetensors",
        "vocabulary.txt",
    }
    assert folder.vocabulary == VOCABULARY
    assert load_model(folder.path).config == tiny_config()


def test_weights_are_stored_once(exported):
    """The graphs hold no parameters of their own; both engines read the same file."""
    path = exported("tiny")
    parameters = sum(value.numel() for value in load_model(path).for_inference().parameters())
    for name in ("encoder.onnx", "decoder.onnx"):
        graph = onnx.load(path / name, load_external_data=False).graph
        inline = [
            math.prod(tensor.dims) for tensor in graph.initializer if not tensor.external_data
        ]
        assert sum(inline) < 0.05 * parameters
        files = {entry.value for t in graph.initializer for entry in t.external_data[:1]}
        assert files == {"model.safetensors"}


def test_onnx_runtime_reads_changed_weights(exported, tmp_path):
    shutil.copytree(exported("tiny"), tmp_path / "model")
    weights = load_file(tmp_path / "model" / "model.safetensors")
    weights["decoder.head.bias"][5] += 10
    save_file(weights, tmp_path / "model" / "model.safetensors")
    folder = open_folder(tmp_path / "model")
    files = {name: folder.path / name for name in folder.checksums if name != "vocabulary.txt"}
    folder = write_folder(tmp_path / "changed", folder.config, folder.vocabulary, files, {})
    model = OnnxRuntime(folder).encode(random_images(0, [(40, 60)]))
    log_probs, _ = model.step(np.full((1, 1, 1), 1), model.start())
    assert log_probs.argmax() == 5


@pytest.mark.parametrize("name", MODELS)
def test_sizes_are_dynamic(exported, name):
    session = ort.InferenceSession(exported(name) / "decoder.onnx")
    shapes = {value.name: value.shape for value in session.get_inputs()}
    steps = "steps" if MODELS[name]().parallel_steps else 1
    assert shapes["input_ids"] == ["batch", "beams", steps]
    assert shapes["origin"] == [2, "batch", "beams"]
    cache = [shape for key, shape in shapes.items() if key.startswith("cache.")]
    assert cache and all(shape[:2] == ["old_batch", "old_beams"] for shape in cache)
    assert not any("position" in key for key in shapes)


def test_half_precision_halves_the_file_and_rounds_the_weights(exported, half):
    full = open_folder(exported("bttr"))
    sizes = [(folder.path / "model.safetensors").stat().st_size for folder in (full, half)]
    assert sizes[1] < 0.65 * sizes[0]
    rounded = PyTorchRuntime(load_model(half.path))
    assert largest_difference(rounded, OnnxRuntime(half)) < 1e-4
    (image,) = random_images(0, [(40, 60)])
    tokens = np.full((1, 1, 4), 5)
    log_probs = []
    for folder in (full, half):
        step_model = OnnxRuntime(folder).encode([image])
        log_probs.append(step_model.step(tokens, step_model.start())[0])
    assert 0 < np.abs(log_probs[0] - log_probs[1]).max() < 0.05


def test_onnx_runtime_folds_batch_norms_and_casts(half, tmp_path):
    for name, left in (("encoder.onnx", 1), ("decoder.onnx", 0)):  # one does not follow a conv
        options = ort.SessionOptions()
        options.optimized_model_filepath = str(tmp_path / name)
        options.log_severity_level = 4
        ort.InferenceSession(half.path / name, options)
        nodes = [node.op_type for node in onnx.load(tmp_path / name).graph.node]
        assert nodes.count("BatchNormalization") == left
        assert nodes.count("Cast") <= 7, "weights are converted once, while loading"


def test_nothing_is_written_if_onnx_runtime_and_pytorch_differ(exported, tmp_path, monkeypatch):
    def other(model, folder, weights):
        for name in ("encoder.onnx", "decoder.onnx"):
            shutil.copy(exported("tiny") / name, folder)
        shutil.copy(exported("tiny") / "model.safetensors", weights)
        return {name: folder / name for name in ("encoder.onnx", "decoder.onnx")}

    monkeypatch.setattr(export, "export_onnx", other)
    with pytest.raises(ModelError, match="differ by"):
        export_model(tiny_model(seed=9), tmp_path / "model")
    assert not (tmp_path / "model").exists()


def test_a_model_that_cannot_be_exported_is_an_error(tmp_path):
    class Broken(PosFormer):
        def initial_cache(self, memory, beams=1):
            size = memory.padding.shape[1] + 1  # an axis that the exporter cannot name
            return [*super().initial_cache(memory, beams), torch.zeros(1, beams, size)]

    with pytest.raises(ModelError, match=r"cannot be exported to ONNX: cache\.3"):
        export_model(Broken(tiny_config(), VOCABULARY), tmp_path / "model")


# The commands


def run(*arguments: object) -> tuple[int, str]:
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result.exit_code, result.output


@pytest.fixture(scope="module")
def half(exported, tmp_path_factory) -> ModelFolder:
    """A model exported by the command in half precision, at another scale, with a card."""
    folder = tmp_path_factory.mktemp("half")
    shutil.copytree(exported("bttr"), folder / "source")
    save_calibration(folder / "source", Calibration(1.0, 0.1, 2.0, 0.0))
    (folder / "card.md").write_text("# A tiny model\n")
    options = ("--half", "--scale", "0.9", "--card", folder / "card.md")
    with without_coverage():
        code, output = run("export", folder / "source", folder / "model", *options)
    assert (code, "agree within" in output) == (0, True)
    return open_folder(folder / "model")


def test_export_command(exported, half):
    before, after = open_folder(exported("bttr")).config, half.config
    assert after.image.scale == 0.9
    assert replace(after, image=before.image) == before
    assert half.info["calibration"]["bias"] == 1.0
    assert (half.path / "README.md").read_text() == "# A tiny model\n"


def test_export_of_a_file_that_is_no_model_is_an_error(tmp_path):
    with pytest.raises(ModelError, match="no such model"):
        run("export", tmp_path / "nothing.ckpt", tmp_path / "out")
    (tmp_path / "text.ckpt").write_text("hello")
    with pytest.raises(ModelError, match="not a checkpoint"):
        run("export", tmp_path / "text.ckpt", tmp_path / "out")


def test_a_training_checkpoint_is_exported(exported, tmp_path, monkeypatch):
    """Graphs do not depend on the weights: those of the same config are not traced again."""

    def same_graphs(model, folder, weights):
        names = ("encoder.onnx", "decoder.onnx")
        return {name: Path(shutil.copy(exported("bttr") / name, folder)) for name in names}

    monkeypatch.setattr(export, "export_onnx", same_graphs)
    model = tiny_model(7, MODELS["bttr"]().config)
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
    folder = open_folder(tmp_path / "out")
    assert torch.equal(load_model(folder.path).decoder.head.weight, model.decoder.head.weight)
    assert folder.info == {"config": "tiny", "used_ink": False, "examples_seen": 640, "epoch": 3}


def test_import_checkpoint_command(imported):
    folder = open_folder(imported)
    assert not folder.config.encoder.mask_padding
    assert len(folder.vocabulary) == 113
    assert folder.info["constrained"] is False  # it answers as the authors' program does


def test_the_vocabulary_of_the_bundled_model_is_the_default(exported, tmp_path, monkeypatch):
    monkeypatch.setattr(export, "DEFAULT_MODEL", tmp_path / "absent")
    with pytest.raises(ModelError, match="--vocabulary"):
        export.load_vocabulary(None)
    monkeypatch.setattr(export, "DEFAULT_MODEL", exported("tiny"))
    assert export.load_vocabulary(None) == VOCABULARY


def test_info_command(half):
    code, output = run("info", "--model", half.path)
    assert code == 0
    for part in ("posformer", "onnxruntime", "growth 4", "# A tiny model", '"bias": 1.0'):
        assert part in output
