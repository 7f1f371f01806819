"""The comparison table: means, gains and bootstrap intervals."""

import json
from pathlib import Path

import numpy as np
import pytest

from posformer.comparison import Benchmark, Candidate, Result, make_rows, markdown, write_report

PLAIN = Candidate("plain")
FOREST = Candidate("plain-pf", baseline="plain")
BENCHMARK = Benchmark("crohme.zip", "2014")


def result(name: str, distances: list[int] | np.ndarray, seed: int = 0) -> Result:
    return Result(name, seed, np.array(distances), 4_700_000, 21.73, 30.0)


def test_metrics_are_percentages_within_a_tolerance() -> None:
    (row,) = make_rows([PLAIN], [result("plain", [0, 1, 2, 3])])
    assert (row.exprate.value, row.le1.value, row.le2.value) == (25, 50, 75)
    assert row.gain is None and row.seeds == 1


def test_gains_are_differences_of_means_over_seeds() -> None:
    results = [
        result("plain-pf", [0, 0, 0, 5]),
        result("plain", [0, 5, 5, 5]),
        result("plain-pf", [0, 0, 1, 5], seed=1),
        result("plain", [0, 0, 5, 5], seed=1),
    ]
    plain, forest = make_rows([PLAIN, FOREST], results)
    assert (plain.exprate.value, forest.exprate.value, forest.seeds) == (37.5, 62.5, 2)
    assert forest.gain is not None and forest.gain.baseline == "plain"
    assert (forest.gain.exprate, forest.gain.le1) == (25, 37.5)


def test_candidates_without_results_are_omitted() -> None:
    (row,) = make_rows([PLAIN, FOREST], [result("plain-pf", [0, 1])])
    assert row.name == "plain-pf" and row.gain is None


def test_interval_of_a_proportion() -> None:
    hits = np.arange(1000) >= 500
    (row,) = make_rows([PLAIN], [result("plain", hits)])
    low, high = row.exprate.interval
    assert (low, high) == pytest.approx((50 - 3.1, 50 + 3.1), abs=0.4)  # 1.96 √(0.25 / 1000)


def test_variance_between_seeds_widens_the_interval() -> None:
    near = [result("plain", np.arange(1000) >= 500, seed) for seed in range(3)]
    apart = [result("plain", np.arange(1000) >= 400 + 100 * seed, seed) for seed in range(3)]
    widths = [
        high - low
        for results in (near, apart)
        for row in make_rows([PLAIN], results)
        for low, high in [row.exprate.interval]
    ]
    assert widths[1] > 1.5 * widths[0]


def test_interval_of_a_gain_is_paired() -> None:
    """Expressions that both models get wrong do not widen the interval."""
    base, better = np.arange(1000) >= 500, np.arange(1000) >= 530
    _, row = make_rows([PLAIN, FOREST], [result("plain", base), result("plain-pf", better)])
    assert row.gain is not None and row.gain.exprate == pytest.approx(3)
    assert row.gain.interval == pytest.approx((3 - 1.06, 3 + 1.06), abs=0.25)


def test_markdown_has_the_columns_of_the_paper_and_remarks() -> None:
    results = [result("plain", [0, 0, 9, 9]), result("plain-pf", [0, 0, 0, 9])]
    rows = make_rows([PLAIN, FOREST], results)
    lines = markdown(rows, [PLAIN, FOREST], BENCHMARK, 4).splitlines()
    assert lines[2].startswith("| plain | 50.00 | ")
    assert lines[3].startswith("| plain-pf | 75.00 (+25.00) | ")
    assert lines[3].endswith(" | 4.70 M | 21.7 |")
    remarks = "\n".join(lines[5:])
    for said in ("2014: 4 expressions, beam 10", "30.0 CPU minutes", "one seed", "over plain"):
        assert said in remarks


def test_losses_have_a_minus_sign() -> None:
    results = [result("plain", [0, 0]), result("plain-pf", [0, 9])]
    rows = make_rows([PLAIN, FOREST], results)
    assert "50.00 (−50.00)" in markdown(rows, [PLAIN, FOREST], BENCHMARK, 2)


def test_report_has_a_table_json_and_plots(tmp_path: Path) -> None:
    results = [result("plain", [0, 0, 9, 9]), result("plain-pf", [0, 0, 0, 9])]
    table = write_report([PLAIN, FOREST], results, BENCHMARK, tmp_path)
    folder = tmp_path / "2014"
    assert (folder / "table.md").read_text(encoding="utf-8") == table
    values = json.loads((folder / "table.json").read_text())
    assert values["count"] == 4 and values["rows"][1]["gain"]["exprate"] == 25
    assert "<svg" in (folder / "plot.svg").read_text(encoding="utf-8")
    assert (folder / "plot.png").read_bytes().startswith(b"\x89PNG")
