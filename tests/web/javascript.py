"""Running the JavaScript package: where it is, and how its tests are called."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
WEB = ROOT / "web"
MODEL = ROOT / "src" / "posformer" / "weights" / "default"
OLDEST_NODE = 20


def find_node() -> str | None:
    """Return the path of Node if it is new enough."""
    node = shutil.which("node")
    if node is None:
        return None
    version = subprocess.run([node, "--version"], capture_output=True, text=True, check=False)
    major = version.stdout.strip().removeprefix("v").partition(".")[0]
    return node if major.isdigit() and int(major) >= OLDEST_NODE else None


NODE = find_node()


def script_path(name: str) -> Path:
    """Return the path of a script; skip the test where there is none, as in the sdist."""
    script = ROOT / "scripts" / name
    if not script.is_file():
        pytest.skip(f"needs scripts/{name} of the repository")
    return script


def run_node_tests(vectors: Path, model: Path = MODEL) -> None:
    """Run all tests of the package with a model; none may fail or be skipped."""
    names = sorted(path.name for path in (WEB / "test").glob("*.test.js"))
    done = subprocess.run(
        [str(NODE), "--test", "--test-reporter=tap", *(f"test/{name}" for name in names)],
        cwd=WEB,
        env=os.environ | {"POSFORMER_MODEL": str(model), "POSFORMER_VECTORS": str(vectors)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-8000:] + done.stderr[-2000:]
    assert "# skipped 0\n" in done.stdout, done.stdout[-2000:]
