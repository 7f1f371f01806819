"""Checkpoints of a run: a crash at any moment loses none, and a damaged one is not the end."""

import os
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest
import torch
from processes import command, examples_seen, run_to_end, stop_run

from posformer.errors import ConfigError, ModelError, PosformerError
from posformer.training import run_checkpoints
from posformer.training.run_checkpoints import DurableCheckpointIO, checkpoint_to_resume

SHORT = ("data.limit=8", "data.validation_limit=4", "progress_images=0", "validate_every=1")


def content(number: int) -> dict[str, Any]:
    own = {"config": {}, "tokens": ["x"], "number": number}
    progress = {name: {} for name in ("loops", "lr_schedulers", "optimizer_states")}
    weights = {"weight": torch.full((1000,), float(number))}
    return {"posformer": own, "state_dict": weights, "epoch": 0, "global_step": 0, **progress}


def number(path: Path) -> int:
    return int(torch.load(path, weights_only=True)["posformer"]["number"])


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A run with checkpoints 1 (previous) and 2 (last)."""
    for count in (1, 2):
        DurableCheckpointIO().save_checkpoint(content(count), tmp_path / "last.ckpt")
    return tmp_path


def test_the_previous_checkpoint_is_kept(run):
    assert sorted(path.name for path in run.iterdir()) == ["last.ckpt", "last.previous.ckpt"]
    assert [number(run / name) for name in ("last.previous.ckpt", "last.ckpt")] == [1, 2]
    DurableCheckpointIO().save_checkpoint(content(3), run / "last.ckpt")
    assert [number(run / name) for name in ("last.previous.ckpt", "last.ckpt")] == [2, 3]
    DurableCheckpointIO().save_checkpoint(content(4), run / "best.ckpt")
    assert len(list(run.iterdir())) == 3


def test_the_previous_checkpoint_is_kept_without_hard_links(run, monkeypatch):
    def fail(*_: object) -> None:
        raise OSError("no hard links here")

    monkeypatch.setattr(Path, "hardlink_to", fail)
    DurableCheckpointIO().save_checkpoint(content(3), run / "last.ckpt")
    assert [number(run / name) for name in ("last.previous.ckpt", "last.ckpt")] == [2, 3]
    assert len(list(run.iterdir())) == 2


@pytest.mark.parametrize(
    ("owner", "step"), [(os, "fsync"), (Path, "hardlink_to"), (Path, "replace")]
)
def test_a_crash_while_saving_leaves_a_whole_checkpoint(run, monkeypatch, owner, step):
    """Ends the saving at each of its steps; `last.ckpt` is there at every moment."""

    class Crash(BaseException):
        pass

    def crash(*_: object) -> None:
        raise Crash

    monkeypatch.setattr(owner, step, crash)
    with pytest.raises(Crash):
        DurableCheckpointIO().save_checkpoint(content(3), run / "last.ckpt")
    assert number(run / "last.ckpt") == 2
    assert checkpoint_to_resume(run)[0] == run / "last.ckpt"


@pytest.mark.skipif(os.name == "nt", reason="needs limits of Unix")
def test_a_full_disk_keeps_the_checkpoint_and_is_one_line(run):
    import resource

    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (2000, before[1]))
    try:
        with pytest.raises(PosformerError, match=r"last\.ckpt: cannot be written \(File too"):
            DurableCheckpointIO().save_checkpoint(content(3), run / "last.ckpt")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert number(run / "last.ckpt") == 2
    assert len(list(run.iterdir())) == 2


@pytest.mark.parametrize("damage", ["cut off", "one bit", "empty", "missing", "incomplete"])
def test_resume_falls_back_and_says_so(run, damage, capsys):
    last = run / "last.ckpt"
    data = bytearray(last.read_bytes())
    if damage == "cut off":
        last.write_bytes(data[: len(data) // 2])
    elif damage == "one bit":
        data[len(data) // 2] ^= 1
        last.write_bytes(data)
    elif damage == "empty":
        last.write_bytes(b"")
    elif damage == "missing":
        last.unlink()
    else:
        torch.save({name: part for name, part in content(2).items() if name != "loops"}, last)
    path, found = checkpoint_to_resume(run)
    assert path == run / "last.previous.ckpt" and found["posformer"]["number"] == 1
    said = capsys.readouterr().out
    assert str(last) in said and f"resuming from {path}" in said


def test_the_best_checkpoint_comes_last(run):
    DurableCheckpointIO().save_checkpoint(content(0), run / "best.ckpt")
    for name in ("last.ckpt", "last.previous.ckpt"):
        (run / name).write_bytes(b"damaged")
    assert checkpoint_to_resume(run)[0] == run / "best.ckpt"
    (run / "best.ckpt").write_bytes(b"damaged")
    with pytest.raises(ModelError, match=r"last\.ckpt: not a checkpoint"):
        checkpoint_to_resume(run)


def test_nothing_to_resume(tmp_path):
    with pytest.raises(ConfigError, match="nothing to resume"):
        checkpoint_to_resume(tmp_path)
    assert not run_checkpoints.has_checkpoint(tmp_path)


@pytest.mark.slow
def test_a_run_resumes_after_its_last_checkpoint_is_damaged(tiny_config, tmp_path):
    """It ends with the weights of an undisturbed run."""
    run_to_end(tiny_config, tmp_path / "whole", *SHORT, "epochs=4")
    run, last = tmp_path / "run", tmp_path / "run" / "last.ckpt"
    run_to_end(tiny_config, run, *SHORT, "epochs=4")
    last.write_bytes(last.read_bytes()[:5000])
    said = run_to_end(tiny_config, run, *SHORT, "epochs=4", "--resume")
    assert "damaged" in said and f"resuming from {run / 'last.previous.ckpt'}" in said
    a, b = (
        torch.load(tmp_path / name / "last.ckpt", weights_only=True) for name in ("whole", "run")
    )
    for name, value in a["state_dict"].items():
        assert torch.equal(value, b["state_dict"][name]), name


@pytest.mark.slow
def test_another_model_is_one_line(tiny_config, tmp_path):
    run = tmp_path / "run"
    run_to_end(tiny_config, run, *SHORT, "epochs=1")
    wider = ("epochs=2", "model.decoder.width=32", "--resume")
    done = subprocess.run(command(tiny_config, run, *SHORT, *wider), capture_output=True, text=True)
    assert done.returncode == 2
    assert "does not fit the config" in done.stderr.splitlines()[-1]
    assert "Traceback" not in done.stderr


@pytest.mark.slow
@pytest.mark.skipif(os.name == "nt", reason="sends a signal")
def test_a_closed_terminal_writes_a_checkpoint(tiny_config, tmp_path):
    """SIGHUP ends the run after the current batch, not at once."""
    process = stop_run(signal.SIGHUP, 0, tiny_config, tmp_path / "run", "epochs=400")
    assert process.returncode not in (0, -signal.SIGHUP)
    assert examples_seen(tmp_path / "run" / "last.ckpt") > 0
