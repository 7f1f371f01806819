"""Training runs in processes of their own."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import torch


def command(config: Path, run: Path, *overrides: str) -> list[str]:
    """Return the command line that trains a config."""
    posformer = [sys.executable, "-m", "posformer.cli", "train", "-c", str(config)]
    return [*posformer, "-o", str(run), *overrides]


def run_to_end(config: Path, run: Path, *overrides: str) -> str:
    """Train until the end, and return what was printed."""
    done = subprocess.run(
        command(config, run, *overrides), capture_output=True, text=True, timeout=600
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout


def stop_run(
    how: signal.Signals,
    after: int,
    config: Path,
    run: Path,
    *overrides: str,
    group: bool = True,
) -> subprocess.Popen[bytes]:
    """Start a run, and send a signal once a checkpoint has seen more than `after` examples.

    With `group`, all its processes get the signal, data loader workers as well, as from a terminal.
    """

    def prepare() -> None:
        # A test suite in the background passes on an ignored interrupt.
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        os.nice(15)  # on a busy machine, the run must not end before this process sees its progress

    process = subprocess.Popen(
        command(config, run, *overrides),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        preexec_fn=prepare,
        start_new_session=True,
    )
    deadline = time.monotonic() + 600
    while time.monotonic() < deadline and process.poll() is None:
        if examples_seen(run / "last.ckpt") > after:
            (os.killpg if group else os.kill)(process.pid, how)
            break
        time.sleep(0.02)
    process.wait(timeout=300)
    return process


def examples_seen(checkpoint: Path) -> int:
    """Return how many examples a checkpoint has seen; 0 without one."""
    try:
        return int(torch.load(checkpoint, weights_only=True)["posformer"]["seen"])
    except Exception:  # it does not exist, or is just being written
        return 0
