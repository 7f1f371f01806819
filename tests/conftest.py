"""Fixtures shared by all tests: the real data where it is there, a clear skip where it is not."""

import os
from pathlib import Path

import pytest
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
def reference() -> Path:
    """What the authors' program answers."""
    return _shared("reference/posformer_reference_small.npz").parent


@pytest.fixture(scope="session")
def tiny_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A complete model folder of a small model that answers at random, but soon comes to an end."""
    import torch

    from posformer.runtime.model_export import export_model
    from tiny import tiny_model

    model = tiny_model(3)
    with torch.no_grad():
        model.decoder.head.weight.mul_(3)
        model.decoder.head.bias[[model.vocabulary.sos, model.vocabulary.eos]] += 2.5
    folder = tmp_path_factory.mktemp("models") / "tiny"
    export_model(model, folder)
    return folder
