"""The examples and figures of docs/tree-models.md are right."""

import doctest
import re
from pathlib import Path

import pytest

from posformer.latex import Vocabulary
from posformer.models.registry import create_model
from posformer.training.training_config import load_config

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "tree-models.md"
ROWS = re.findall(r"^\|[^|]+\| `(\w+)\.yaml` \|.*\| ([\d.]+) M \|", PAGE.read_text(), re.MULTILINE)


def test_python_examples_of_the_page() -> None:
    results = doctest.testfile(str(PAGE), module_relative=False, encoding="utf-8")
    assert results.attempted == 4 and results.failed == 0


@pytest.mark.parametrize(("name", "millions"), ROWS)
def test_parameters(name: str, millions: str) -> None:
    tokens = Vocabulary([f"w{number}" for number in range(110)])
    config = load_config(ROOT / "configs" / f"{name}.yaml").model
    model = create_model(config, tokens).for_inference()
    size = sum(weight.numel() for weight in model.parameters())
    assert f"{size / 1e6:.1f}" == millions


def test_all_models_of_the_page_are_checked() -> None:
    assert [name for name, _ in ROWS] == ["san", "dwap_san", "tsdnet", "bpd", "tamer"]
