"""Fixtures shared by all tests: the real data where it is there, a clear skip where it is not."""

import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from filelock import FileLock
from hypothesis import HealthCheck, settings

# A busy machine is no failure, and everybody gets the same random examples.
settings.register_profile(
    "posformer", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("posformer")

SHARED = Path(os.environ.get("POSFORMER_SHARED", Path(__file__).parents[2] / "shared"))


def _shared(path: str) -> Path:
    file = SHARED / path
    if not file.exists():
        pytest.skip(f"needs {path} of the shared data (set POSFORMER_SHARED to its folder)")
    return file


@pytest.fixture(scope="session")
def crohme_zip() -> Path:
    """The CROHME images."""
    return _shared("data/crohme.zip")


@pytest.fixture(scope="session")
def crohme_ink_zip() -> Path:
    """The CROHME ink."""
    return _shared("data/crohme_inkml.zip")


@pytest.fixture(scope="session")
def formula_texts() -> Path:
    """The folder of formula texts."""
    return _shared("data/texts")


@pytest.fixture(scope="session")
def labeled_photos() -> Path:
    """The folder of real photographs with labels."""
    return _shared("data/photos/dev/labels.tsv").parents[1]


@pytest.fixture(scope="session")
def reference() -> Path:
    """What the authors' program answers."""
    return _shared("reference/posformer_reference_small.npz").parent


@pytest.fixture(scope="session")
def shared_tmp(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A temporary folder that all worker processes of this session share."""
    base = tmp_path_factory.getbasetemp()
    return base.parent if "PYTEST_XDIST_WORKER" in os.environ else base


@pytest.fixture(scope="session")
def exported(shared_tmp: Path) -> Callable[[str], Path]:
    """The folder of an exported model, by its name in `tiny_exports.MODELS`.

    The export of a model takes seconds, so each one is exported once, by the first process that
    asks for it.
    """
    from posformer.runtime.model_export import export_model
    from tiny_exports import MODELS, without_coverage

    folder = shared_tmp / "exported"
    folder.mkdir(exist_ok=True)

    def get(name: str) -> Path:
        path = folder / name.replace(" ", "-")
        with FileLock(path.with_suffix(".lock")):
            if not path.exists():
                with without_coverage():
                    export_model(MODELS[name](), path)
        return path

    return get


@pytest.fixture(scope="session")
def tiny_folder(exported: Callable[[str], Path]) -> Path:
    """A complete model folder of a small model that answers at random, but soon comes to an end."""
    return exported("tiny")


@pytest.fixture(scope="session")
def bounded() -> Iterator[Callable[..., Any]]:
    """A function that calls another in a process with limits that only runaway work exceeds."""
    import worker_jobs
    from posformer.worker_pool import Budget, WorkerPool

    with WorkerPool(worker_jobs.start_calls, budget=Budget(120, 1000)) as pool:
        yield lambda function, *arguments: pool.submit((function, arguments)).result()


@pytest.fixture(scope="session")
def display() -> Iterator[str]:
    """An X11 display without a screen."""
    if not shutil.which("Xvfb"):
        pytest.skip("needs Xvfb (apt-get install xvfb)")
    reader, writer = os.pipe()
    command = ["Xvfb", "-displayfd", str(writer), "-nolisten", "tcp", "-screen", "0", "1000x800x24"]
    nothing = subprocess.DEVNULL
    server = subprocess.Popen(command, pass_fds=[writer], stdout=nothing, stderr=nothing)
    os.close(writer)
    with os.fdopen(reader) as stream:
        number = stream.readline().strip()
    assert number, "Xvfb did not start"
    yield f":{number}"
    server.terminate()
    server.wait(10)
