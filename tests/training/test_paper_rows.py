"""Every row of the paper's tables that this package can train has a config of its own."""

from pathlib import Path

import pytest

from posformer.training.training_config import load_config

CONFIGS = Path(__file__).parents[2] / "configs"

PLAIN = ("transformer", "bttr")  # without the position forest in all tables
PLUGGED = ("comer", "dwap", "abm", "can")  # with and without it
ROWS = [
    *((name, False, scaled) for name in PLAIN for scaled in (True, False)),
    *(
        (name, forest, scaled)
        for name in PLUGGED
        for forest in (False, True)
        for scaled in (True, False)
    ),
    *(("paper", True, scaled) for scaled in (True, False)),
]


def file_name(name: str, forest: bool, scaled: bool) -> str:
    suffix = "-pf" if forest and name != "paper" else ""
    return f"{name}{suffix}{'' if scaled else '-no-scale'}"


@pytest.mark.parametrize("row", ROWS, ids=lambda row: file_name(*row))
def test_a_row_says_what_it_trains(row: tuple[str, bool, bool]) -> None:
    name, forest, scaled = row
    path = CONFIGS / f"{file_name(*row)}.yaml"
    config = load_config(path)
    assert config.name == path.stem
    assert config.model.name == (name if name in ("dwap", "abm", "can") else "posformer")
    assert (config.data.scale_range is not None) == scaled
    position = config.model.position
    assert (position.form if position else None) == ("separate" if forest else None)
    assert (config.optimizer.kind, config.epochs) == ("sgd", 300)


@pytest.mark.parametrize("name", PLUGGED)
def test_rows_with_and_without_the_forest_differ_in_nothing_else(name: str) -> None:
    plain, plugged = (load_config(CONFIGS / f"{one}.yaml") for one in (name, f"{name}-pf"))
    values, others = plain.to_dict(), plugged.to_dict()
    assert values.pop("name") != others.pop("name")
    assert values["model"].pop("position") != others["model"].pop("position")
    assert values == others
