"""What a comparison leaves: the table as Markdown and JSON, and as a plot."""

import json
from collections.abc import Sequence
from pathlib import Path

from posformer.atomic import atomic_write
from posformer.comparison.candidates import Contender
from posformer.comparison.comparison_plot import draw_plot
from posformer.comparison.comparison_table import make_rows, markdown
from posformer.comparison.runs import Benchmark, Result

__all__ = ["write_report"]


def write_report(
    contenders: Sequence[Contender],
    results: Sequence[Result],
    benchmark: Benchmark,
    output: Path,
) -> str:
    """Writes the table of the results so far, and gives it as Markdown.

    Args:
        contenders: in the order of the table; those without a result are left out.
        results: at least one.
        benchmark: what was measured on.
        output: `table.md`, `table.json`, `plot.svg` and `plot.png` are written into its folder
            named like the split.
    """
    folder, count = output / benchmark.split, len(results[0].distances)
    rows = make_rows(contenders, results)
    table = markdown(rows, contenders, benchmark, count)
    atomic_write(folder / "table.md", table)
    values = {"count": count, "split": benchmark.split, "rows": [row.to_json() for row in rows]}
    atomic_write(folder / "table.json", json.dumps(values, indent=2) + "\n")
    for kind in ("svg", "png"):
        draw_plot(rows, f"{benchmark.split}, {count} expressions", folder / f"plot.{kind}")
    return table
