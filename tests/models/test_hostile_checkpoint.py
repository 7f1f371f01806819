"""Checkpoints with code in them: nothing of it runs, whichever command reads the file."""

import os
import pickle
import shutil
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
import yaml

from posformer.cli import main
from posformer.errors import ModelError
from posformer.models.checkpoint_file import read_checkpoint_file
from posformer.models.public_checkpoint import load_public_checkpoint
from tiny import VOCABULARY, tiny_config, tiny_model


class _Hostile(torch.nn.Module):
    """A program of TorchScript that creates a file as soon as it is loaded."""

    def __init__(self, path: str) -> None:
        super().__init__()
        self.path, self.data = path, torch.zeros(1)

    @torch.jit.export
    def __getstate__(self) -> tuple[str, bool]:
        return self.path, self.training

    @torch.jit.export
    def __setstate__(self, state: tuple[str, bool]) -> None:
        self.path = state[0]
        self.training = state[1]
        self.data = torch.from_file(self.path, True, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x


class _Calls:
    """Unpickles as the result of a call."""

    def __init__(self, function: Callable[..., object], *arguments: object) -> None:
        self._call = function, arguments

    def __reduce__(self) -> tuple[object, tuple[object, ...]]:
        return self._call


def _checkpoint(**further: object) -> dict[str, object]:
    """The content of a checkpoint that both kinds of commands would accept."""
    own = {"config": {"model": tiny_config().to_dict()}, "tokens": list(VOCABULARY.tokens)}
    weights = {f"model.{name}": value for name, value in tiny_model().state_dict().items()}
    weights["model.decoder.proj.weight"] = torch.zeros(1)
    return {"state_dict": weights, "hyper_parameters": {}, "posformer": own, **further}


@pytest.fixture(params=["torchscript", "pickle", "old pickle"])
def hostile(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A file that creates `tmp_path / "ran"` if its code runs."""
    path, ran = tmp_path / "hostile.ckpt", str(tmp_path / "ran")
    if request.param == "torchscript":
        torch.jit.script(_Hostile(ran)).save(str(path))
    else:
        content = _checkpoint(callbacks=_Calls(os.mkdir, ran))
        torch.save(content, path, _use_new_zipfile_serialization=request.param == "pickle")
    return path


def run(monkeypatch: pytest.MonkeyPatch, *arguments: object) -> int:
    """Run the command line in this process; return its exit code."""
    monkeypatch.setattr(sys, "argv", ["posformer", *map(str, arguments)])
    with pytest.raises(SystemExit) as end:
        main()
    return int(end.value.code or 0)


@pytest.fixture
def config(tmp_path: Path) -> Path:
    path = tmp_path / "config.yaml"
    data = {"images": "none.zip", "train": "train", "validation": "train"}
    path.write_text(yaml.safe_dump({"name": "tiny", "data": data}))
    return path


@pytest.mark.parametrize("command", ["import-checkpoint", "export", "recognize", "evaluate"])
def test_no_command_runs_code(command, hostile, tmp_path, monkeypatch, capsys):
    arguments = {
        "import-checkpoint": (hostile, tmp_path / "out"),
        "export": (hostile, tmp_path / "out"),
        "recognize": ("x.png", "--model", hostile),
        "evaluate": ("--model", hostile, "--data", _images(tmp_path), "--split", "train"),
    }[command]
    assert run(monkeypatch, command, *arguments) == 2
    _check_refusal(capsys.readouterr().err, hostile, tmp_path)


def test_training_runs_no_code(hostile, config, tmp_path, monkeypatch, capsys):
    output = ("--output", tmp_path / "run")
    assert run(monkeypatch, "train", "--config", config, *output, "--init", hostile) == 2
    _check_refusal(capsys.readouterr().err, hostile, tmp_path)
    (tmp_path / "run").mkdir()
    last = hostile.rename(tmp_path / "run" / "last.ckpt")
    assert run(monkeypatch, "train", "--config", config, *output, "--resume") == 2
    _check_refusal(capsys.readouterr().err, last, tmp_path)


def _images(folder: Path) -> Path:
    from PIL import Image

    (folder / "set" / "train" / "img").mkdir(parents=True)
    Image.new("L", (20, 20), 255).save(folder / "set" / "train" / "img" / "a.png")
    (folder / "set" / "train" / "caption.txt").write_text("a\tx\n")
    return folder / "set"


def _check_refusal(errors: str, path: Path, folder: Path) -> None:
    assert not (folder / "ran").exists(), "code of the file ran"
    assert errors.startswith(f"posformer: {path}: ")
    assert errors.count("\n") == 1
    assert "weights_only" not in errors, "must not suggest to load the file unsafely"
    assert not (folder / "out").exists()


def test_the_reason_is_named(tmp_path):
    path = tmp_path / "x.ckpt"
    torch.jit.script(_Hostile("")).save(str(path))
    with pytest.raises(ModelError, match="TorchScript archive, which contains code"):
        read_checkpoint_file(path)
    torch.save({"x": _Calls(eval, "1")}, path)
    with pytest.raises(ModelError, match=r"names builtins\.eval; only tensors"):
        read_checkpoint_file(path)


@pytest.mark.parametrize("name", ["code/run.py", "constants.pkl"])
def test_an_archive_with_any_part_of_torchscript_is_refused(tmp_path, name):
    path = tmp_path / "x.ckpt"
    torch.save(_checkpoint(), path)
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr(f"x/{name}", b"")
    with pytest.raises(ModelError, match="TorchScript"):
        read_checkpoint_file(path)


def test_classes_of_ignored_packages_are_not_imported(tmp_path, monkeypatch):
    path = tmp_path / "x.ckpt"
    (tmp_path / "pytorch_lightning.py").write_text(
        "class Checkpoint: pass\nclass AttributeDict(dict): pass"
    )
    monkeypatch.syspath_prepend(tmp_path)
    import pytorch_lightning

    callback = pytorch_lightning.Checkpoint()
    callback.best = torch.ones(2)
    settings = pytorch_lightning.AttributeDict(dropout=0.3)
    torch.save({"callbacks": {type(callback): callback}, "hyper_parameters": settings}, path)
    monkeypatch.delitem(sys.modules, "pytorch_lightning")
    content = read_checkpoint_file(path, ["pytorch_lightning"])
    assert content["hyper_parameters"] == {"dropout": 0.3}
    assert "pytorch_lightning" not in sys.modules
    with pytest.raises(ModelError, match="names pytorch_lightning"):
        read_checkpoint_file(path)


@pytest.mark.parametrize("where", [0.02, 0.3, 0.5, 0.9, 0.999])
@pytest.mark.parametrize("damage", ["cut off", "changed"])
def test_a_damaged_checkpoint_is_named(tmp_path, where, damage):
    path = tmp_path / "x.ckpt"
    torch.save(_checkpoint(), path)
    content = bytearray(path.read_bytes())
    place = int(where * len(content))
    if damage == "cut off":
        del content[place:]
    else:
        content[place : place + 40] = bytes(byte ^ 0x55 for byte in content[place : place + 40])
    path.write_bytes(content)
    with pytest.raises(ModelError, match=r"x\.ckpt: "):
        read_checkpoint_file(path)


@pytest.mark.parametrize(
    "content",
    [
        {"state_dict": {"model.decoder.proj.weight": torch.zeros(3, 2)}, "hyper_parameters": {}},
        {"state_dict": {"model.decoder.proj.weight": 3, 4: 5}, "hyper_parameters": {"dc": "x"}},
        pickle.dumps({"state_dict": 1}),
    ],
)
def test_an_incomplete_public_checkpoint_is_an_error(tmp_path, content):
    path = tmp_path / "x.ckpt"
    torch.save(content, path)
    with pytest.raises(ModelError, match=r"x\.ckpt: "):
        load_public_checkpoint(path, VOCABULARY)


# Python modules that a model names

MODULE = """
import pathlib
pathlib.Path(__file__).with_name("ran").touch()
from posformer.models.posformer import PosFormer
class Mine(PosFormer): pass
"""


@pytest.fixture
def own_model(tmp_path, monkeypatch) -> Path:
    """A checkpoint that names a module, whose import creates `tmp_path / "ran"`."""
    (tmp_path / "my_module.py").write_text(MODULE)
    monkeypatch.syspath_prepend(tmp_path)
    yield _named_checkpoint(tmp_path)
    sys.modules.pop("my_module", None)


def _named_checkpoint(folder: Path) -> Path:
    content = _checkpoint()
    settings = tiny_config().to_dict()
    decoder = {"directions": "both", "settings": settings["decoder"]}
    settings |= {"name": "my_module:Mine", "decoder": decoder}
    content["posformer"] = {"config": {"model": settings}, "tokens": list(VOCABULARY.tokens)}
    del content["state_dict"]["model.decoder.proj.weight"]
    torch.save(content, folder / "own.ckpt")
    return folder / "own.ckpt"


def _commands(model: Path, folder: Path, config: Path) -> list[tuple[object, ...]]:
    return [
        ("recognize", "x.png", "--model", model),
        ("export", model, folder / "out"),
        ("evaluate", "--model", model, "--data", _images(folder), "--split", "train"),
        ("explain", "x.png", "--model", model, "--output", folder / "why"),
        ("serve", "--model", model),
        ("compare", model, "--data", folder / "set", "--split", "train", "--output", folder / "c"),
        ("train", "--config", config, "--output", folder / "run", "--init", model),
    ]


def test_a_module_is_imported_only_if_allowed(own_model, config, tmp_path, monkeypatch, capsys):
    for command in _commands(own_model, tmp_path, config):
        assert run(monkeypatch, *command) == (1 if command[0] == "compare" else 2), command
        errors = capsys.readouterr().err
        assert "import the Python module 'my_module'" in errors, command
        assert "--allow-code" in errors and "Traceback" not in errors
    assert not (tmp_path / "ran").exists()
    assert run(monkeypatch, "recognize", "none.png", "--model", own_model, "--allow-code") == 1
    assert (tmp_path / "ran").exists()


def test_a_model_folder_names_a_module(own_model, tmp_path, tiny_folder, monkeypatch, capsys):
    """ONNX files need no module; PyTorch does."""
    import json

    shutil.copytree(tiny_folder, tmp_path / "model")
    file = tmp_path / "model" / "config.json"
    content = json.loads(file.read_text())
    decoder = {"directions": "both", "settings": content["model"]["decoder"]}
    content["model"] |= {"name": "my_module:Mine", "decoder": decoder}
    file.write_text(json.dumps(content))
    command = ("recognize", "none.png", "--model", tmp_path / "model")
    assert run(monkeypatch, *command) == 1
    assert run(monkeypatch, *command, "--engine", "pytorch") == 2
    assert "--allow-code" in capsys.readouterr().err
    assert not (tmp_path / "ran").exists()
    assert run(monkeypatch, *command, "--engine", "pytorch", "--allow-code") == 1
    assert (tmp_path / "ran").exists()
