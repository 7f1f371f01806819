"""Every row of docs/paper-tables.md loads, and makes the model that the row names."""

import re
from pathlib import Path

import pytest

from posformer.latex import Vocabulary
from posformer.models.registry import create_model
from posformer.training.training_config import load_config
from tiny import VOCABULARY

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "paper-tables.md").read_text(encoding="utf-8")
ROW = re.compile(r"^\| ([^|]+) \| `(\w+)\.yaml` \| (?:`([^`]+)` )?\|", re.MULTILINE)
TABLES = {
    part.splitlines()[0]: ROW.findall(part) for part in re.split(r"^## ", PAGE, flags=re.M)[1:]
}
ROWS = [(table, *row) for table, rows in TABLES.items() for row in rows]


def test_the_page_has_all_tables_of_the_paper() -> None:
    assert {table: len(rows) for table, rows in TABLES.items()} == {
        "CROHME, without scale augmentation": 6,
        "CROHME, with scale augmentation": 5,
        "HME100K": 3,
        "M²E": 8,
        "Ablation": 3,
        "Plug-in": 6,
        "Position-aware and language-aware models": 5,
        "MNE": 4,
        "Cost": 5,
        "Tree-based methods": 3,
    }


@pytest.mark.parametrize(("table", "row", "name", "overrides"), ROWS)
def test_a_row_loads(table: str, row: str, name: str, overrides: str) -> None:
    config = load_config(ROOT / "configs" / f"{name}.yaml", overrides.split())
    assert (config.model.position is not None) == ("PF" in row or name == "posformer")
    without = "without scale augmentation" in table or (row, table[:8]) == ("PosFormer", "Position")
    assert (config.data.scale_range is None) == without
    if table in ("HME100K", "M²E"):
        assert config.data.images == table.replace("²", "2") and config.data.ink is None


@pytest.mark.parametrize("name", sorted({name for _, _, name, _ in ROWS}))
def test_the_model_of_a_row_can_be_created(name: str) -> None:
    config = load_config(ROOT / "configs" / f"{name}.yaml").model
    assert create_model(config, VOCABULARY).config == config


@pytest.mark.parametrize(("row", "name", "overrides"), TABLES["Cost"])
def test_parameters_are_within_a_tenth_of_the_cost_table(
    row: str, name: str, overrides: str
) -> None:
    stated = re.search(rf"^\| {re.escape(row)} \|.*\| ([\d.]+) M,", PAGE, re.MULTILINE)
    assert stated is not None
    config = load_config(ROOT / "configs" / f"{name}.yaml", overrides.split()).model
    tokens = Vocabulary([f"w{number}" for number in range(110)])
    model = create_model(config, tokens).for_inference()
    size = sum(weight.numel() for weight in model.parameters())
    assert size == pytest.approx(float(stated[1]) * 1e6, rel=0.1)


def test_the_model_table_states_the_parameters_of_every_config() -> None:
    page = (ROOT / "docs" / "models.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\|[^|]+\| `(\w+)\.yaml` \|.*\| ([\d.]+) M \|", page, re.MULTILINE)
    assert len(rows) == 20
    tokens = Vocabulary([f"w{number}" for number in range(110)])
    for name, millions in rows:
        model = create_model(load_config(ROOT / "configs" / f"{name}.yaml").model, tokens)
        size = sum(weight.numel() for weight in model.for_inference().parameters())
        assert f"{size / 1e6:.1f}" == millions, name
