"""Output files of a comparison: the table as Markdown and JSON, and a plot."""

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from posformer.atomic import atomic_write
from posformer.comparison.candidates import Candidate
from posformer.comparison.comparison_table import TableRow, make_rows, markdown
from posformer.comparison.runs import Benchmark, Result
from posformer.plotting import COLORS, save_figure


def write_report(
    candidates: Sequence[Candidate], results: Sequence[Result], benchmark: Benchmark, output: Path
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
    values = {"count": count, "split": benchmark.split, "rows": [asdict(row) for row in rows]}
    atomic_write(folder / "table.json", json.dumps(values, indent=2) + "\n")
    for kind in ("svg", "png"):
        draw_plot(rows, f"{benchmark.split}, {count} expressions", folder / f"plot.{kind}")
    return table


def draw_plot(rows: Sequence[TableRow], title: str, path: Path) -> None:
    """Plot the ExpRate of each candidate with its 95 % interval.

    Args:
        rows: Rows of the table.
        title: Title of the plot.
        path: Output file; its extension selects the format.

    Raises:
        PosformerError: If the file cannot be written.
    """
    figure = Figure(figsize=(6.4, 1.3 + 0.42 * len(rows)), layout="constrained")
    axes = figure.subplots()
    style: dict[str, Any] = {"textcoords": "offset points", "ha": "center", "fontsize": 8}
    labeled: set[str] = set()
    for place, row in enumerate(rows):
        value, (low, high) = row.exprate.value, row.exprate.interval
        label, marker, color = "baseline", "s", COLORS[1]
        text = f"{value:.2f}"
        if row.gain:
            label, marker, color = "compared with its baseline", "o", COLORS[0]
            text += f" ({row.gain.exprate:+.2f})"
        error = [[value - low], [high - value]]
        shown = None if label in labeled else label
        axes.errorbar(value, place, xerr=error, fmt=marker, capsize=3, color=color, label=shown)
        labeled.add(label)
        axes.annotate(text, (value, place), (0, 6), **style)
    axes.set_yticks(range(len(rows)), [row.name for row in rows])
    axes.set(xlabel="ExpRate (%) with 95 % interval", title=title, ylim=(len(rows) - 0.5, -0.7))
    axes.grid(axis="x", color="0.9")
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    if len(labeled) > 1:
        figure.legend(loc="outside lower center", ncols=2, frameon=False, fontsize=8)
    save_figure(figure, path)
