"""The authors' checkpoint as a model folder."""

from pathlib import Path

import pytest
from filelock import FileLock
from typer.testing import CliRunner

from posformer.cli import app
from tiny_exports import without_coverage


@pytest.fixture(scope="session")
def imported(reference: Path, shared_tmp: Path) -> Path:
    """The authors' checkpoint, imported by the command, once for all worker processes."""
    folder = shared_tmp / "imported"
    arguments = [
        "import-checkpoint",
        reference / "posformer_reference_small.ckpt",
        folder,
        "--vocabulary",
        reference / "crohme_dictionary.txt",
    ]
    with FileLock(folder.with_suffix(".lock")):
        if not folder.exists():
            with without_coverage():
                result = CliRunner().invoke(app, [str(argument) for argument in arguments])
            assert result.exit_code == 0, result.output
    return folder
