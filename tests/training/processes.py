"""Training runs in processes of their own."""

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
        command(config, run, *overrides), capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout


def stop_run(
    how: signal.Signals, after: int, config: Path, run: Path, *overrides: str
) -> subprocess.Popen[bytes]:
    """Start a run, and send a signal once a checkpoint has seen more than `after` examples."""
    process = subprocess.Popen(
        command(config, run, *overrides),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        # A test suite in the background passes on an ignored interrupt.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    deadline = time.monotonic() + 240
    while time.monotonic() < deadline and process.poll() is None:
        if examples_seen(run / "last.ckpt") > after:
            process.send_signal(how)
            break
        time.sleep(0.05)
    process.wait(timeout=120)
    return process


def examples_seen(checkpoint: Path) -> int:
    """Return how many examples a checkpoint has seen; 0 without one."""
    try:
        return int(torch.load(checkpoint, weights_only=True)["posformer"]["seen"])
    except Exception:  # it does not exist, or is just being written
        return 0
