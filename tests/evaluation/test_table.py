"""Score tables, with the results of the paper and their caveats."""

import io

import pytest
from rich.console import Console

from posformer.evaluation import evaluate_pairs, markdown_table, rich_tables

SCORES = evaluate_pairs(
    [["x"], ["x", "^", "{", "2", "}"], ["y"]], [["x"], ["x", "^", "{", "2"], ["y"]]
)


def printed(**options: object) -> str:
    stream = io.StringIO()
    Console(file=stream, width=120).print(rich_tables(SCORES, **options))
    return stream.getvalue()


@pytest.mark.parametrize("layout", [printed, lambda **options: markdown_table(SCORES, **options)])
def test_benchmark_shows_the_results_of_the_paper_with_caveats(layout):
    text = layout(split="2014", model="mine", used_ink=True)
    for shown in ("mine", "66.67", "DWAP†", "50.10", "CoMER", "71.70‡", "PosFormer", "62.68"):
        assert shown in text
    assert "without scale augmentation" in text
    assert "lgeval" in text
    assert "ink of the training set" in text
    assert "61.03" in layout(split="2016")


@pytest.mark.parametrize("layout", [printed, lambda **options: markdown_table(SCORES, **options)])
def test_other_dataset_shows_only_the_model(layout):
    text = layout()
    assert "66.67" in text and "well-formed" in text
    for absent in ("PosFormer", "lgeval", "ink of", "†"):
        assert absent not in text


def test_markdown_has_tables_by_level_and_length():
    text = markdown_table(SCORES)
    assert "| nested level | count | ExpRate |" in text
    assert "| 1 | 1 | 0.00 |" in text
    assert "| 1–10 | 3 | 66.67 |" in text
