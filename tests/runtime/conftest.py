"""Exported models, one export per model and session: tracing a model takes seconds."""

from collections.abc import Callable
from pathlib import Path

import pytest
from tiny_exports import MODELS
from typer.testing import CliRunner

from posformer.cli import app
from posformer.runtime.model_export import export_model


@pytest.fixture(scope="session")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """The folder of an exported model, by its name in `tiny_exports.MODELS`."""
    folder = tmp_path_factory.mktemp("exported")

    def get(name: str) -> Path:
        path = folder / name.replace(" ", "-")
        if not path.exists():
            export_model(MODELS[name](), path)
        return path

    return get


@pytest.fixture(scope="session")
def imported(reference: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The authors' checkpoint, imported by the command."""
    folder = tmp_path_factory.mktemp("imported") / "model"
    arguments = [
        "import-checkpoint",
        reference / "posformer_reference_small.ckpt",
        folder,
        "--vocabulary",
        reference / "crohme_dictionary.txt",
    ]
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    assert result.exit_code == 0, result.output
    return folder
