"""`posformer batch` in processes of its own, and what it has written."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

EXAMPLES = Path(__file__).parents[2] / "examples"
IMAGES = sorted(EXAMPLES.glob("*.png"))
PLENTY = 300  # seconds; a busy machine is no failure


def command(*arguments: object) -> list[str]:
    """Return the command line of a job with fast search."""
    return [sys.executable, "-m", "posformer.cli", "batch", "--greedy", *map(str, arguments)]


def run(*arguments: object, code: int = 0, **environment: str) -> subprocess.CompletedProcess:
    """Run a job to its end."""
    done = subprocess.run(
        command(*arguments),
        capture_output=True,
        text=True,
        timeout=PLENTY,
        env={**os.environ, **environment},
    )
    assert done.returncode == code, done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    return done


def start(*arguments: object) -> subprocess.Popen:
    """Start a job."""
    return subprocess.Popen(
        command(*arguments),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        # A test suite in the background passes on an ignored interrupt.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )


def rows(folder: Path) -> list[dict]:
    """Return all rows of a job, part by part."""
    files = sorted(folder.glob("part-*.jsonl"))
    return [json.loads(line) for file in files for line in file.read_text().splitlines()]


def wait_until(condition: Callable[[], bool], seconds: float = PLENTY) -> None:
    """Wait until a condition holds."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def pipe_in_use(path: Path) -> int | None:
    """Return the writing end of a pipe that somebody has opened for reading, else None."""
    try:
        return os.open(path, os.O_WRONLY | os.O_NONBLOCK)
    except OSError:
        return None


def children(process: int) -> list[int]:
    """Return the processes that a process has started."""
    text = Path(f"/proc/{process}/task/{process}/children").read_text()
    own = [int(one) for one in text.split()]
    for task in Path(f"/proc/{process}/task").iterdir():  # a thread may have started them
        own += [int(one) for one in (task / "children").read_text().split()]
    return sorted(set(own))


def is_alive(process: int) -> bool:
    """Return whether a process is running; a zombie is not."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def many(folder: Path, count: int) -> Path:
    """Write a list of links to the examples, each of another name."""
    folder.mkdir(exist_ok=True)
    names = [folder / f"{number:04d}.png" for number in range(count)]
    for number, name in enumerate(names):
        name.symlink_to(IMAGES[number % len(IMAGES)])
    listed = folder / "inputs.txt"
    listed.write_text("".join(f"{name}\n" for name in names))
    return listed
