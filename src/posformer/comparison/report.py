"""What a comparison leaves: the table as Markdown and JSON, and as a plot."""

import json
from collections.abc import Sequence
from pathlib import Path

from posformer.comparison.contenders import Contender
from posformer.comparison.plot import draw_plot
from posformer.comparison.runs import Benchmark, Result
from posformer.comparison.table import make_rows, markdown
from posformer.whole import write_whole

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
    write_whole(folder / "table.md", table)
    values = {"count": count, "split": benchmark.split, "rows": [row.to_json() for row in rows]}
    write_whole(folder / "table.json", json.dumps(values, indent=2) + "\n")
    for kind in ("svg", "png"):
        draw_plot(rows, f"{benchmark.split}, {count} expressions", folder / f"plot.{kind}")
    return table
