"""Output files of a comparison: the table as Markdown and JSON, and a plot."""

import json
from collections.abc import Sequence
from pathlib import Path

from posformer.atomic import atomic_write
from posformer.comparison.candidates import Candidate
from posformer.comparison.comparison_plot import draw_plot
from posformer.comparison.comparison_table import make_rows, markdown
from posformer.comparison.runs import Benchmark, Result


def write_report(
    candidates: Sequence[Candidate],
    results: Sequence[Result],
    benchmark: Benchmark,
    output: Path,
) -> str:
    """Write `table.md`, `table.json`, `plot.svg` and `plot.png`, and return the Markdown table.

    Args:
        candidates: In the order of the table; those without a result are omitted.
        results: At least one result.
        benchmark: The benchmark of the results.
        output: Output folder; the files are written into a subfolder named after the split.
    """
    folder, count = output / benchmark.split, len(results[0].distances)
    rows = make_rows(candidates, results)
    table = markdown(rows, candidates, benchmark, count)
    atomic_write(folder / "table.md", table)
    values = {"count": count, "split": benchmark.split, "rows": [row.to_json() for row in rows]}
    atomic_write(folder / "table.json", json.dumps(values, indent=2) + "\n")
    for kind in ("svg", "png"):
        draw_plot(rows, f"{benchmark.split}, {count} expressions", folder / f"plot.{kind}")
    return table
