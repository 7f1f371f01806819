"""The rows of the paper's tables are configs and overrides, as docs/training.md lists them."""

import re
from pathlib import Path

import pytest

from posformer.training.training_config import TrainingConfig, load_config

ROOT = Path(__file__).parents[2]
PLAIN = ("transformer", "bttr")  # without the position forest in all tables
PLUGGED = ("comer", "dwap", "abm", "can")  # with and without it
# Other models, and the model whose settings they change.
OTHERS = {
    "ws_wap": "dwap",
    "li": "dwap",
    "ding": "dwap",
    "robust_scanner": "robust_scanner",
    "rlfn": "rlfn",
    "ssan": "ssan",
    "ical": "ical",
    "last": "last",
}


def load(name: str, *overrides: str) -> TrainingConfig:
    return load_config(ROOT / "configs" / f"{name}.yaml", list(overrides))


@pytest.mark.parametrize("name", ["posformer", *PLAIN, *PLUGGED, *OTHERS])
def test_a_published_model_has_a_config(name: str) -> None:
    config = load(name)
    assert config.name == name
    own = {**OTHERS, **{one: one for one in ("dwap", "abm", "can")}}
    assert config.model.name == own.get(name, "posformer")
    assert config.data.scale_range is not None
    position = config.model.position
    assert (position.form if position else None) == ("separate" if name == "posformer" else None)
    assert (config.optimizer.kind, config.epochs) == ("sgd", 300)


def test_decoders_are_those_of_the_models() -> None:
    assert load("posformer").model.decoder.refinement.structure is None
    assert load("comer").model.decoder.refinement.structure == ()
    assert load("bttr").model.decoder.refinement is None
    assert load("bttr").model.decoder.directions == "both"
    assert load("transformer").model.decoder.directions == "forward"


@pytest.mark.parametrize("name", [*PLUGGED, *OTHERS])
def test_the_position_forest_is_one_override(name: str) -> None:
    plain, plugged = load(name).to_dict(), load(name, "model.position=separate").to_dict()
    assert plain["model"].pop("position") is None
    assert plugged["model"].pop("position")["form"] == "separate"
    assert plain == plugged


def test_the_rows_of_the_documentation_load() -> None:
    page = (ROOT / "docs" / "training.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| [^|]+ \| `(\w+)\.yaml` \| (?:`([^`]+)`)? *\|$", page, re.MULTILINE)
    assert len(rows) >= 9
    for name, overrides in rows:
        for config in PLUGGED if name == "NAME" else (name,):
            load(config, *overrides.split())
