"""Plot of a comparison."""

from collections.abc import Sequence
from pathlib import Path

from matplotlib.figure import Figure

from posformer.comparison.comparison_table import TableRow
from posformer.plotting import COLORS, save_figure


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
    labeled: set[str] = set()
    for place, row in enumerate(rows):
        value, (low, high) = row.exprate.value, row.exprate.interval
        label, marker, color = (
            ("compared with its baseline", "o", COLORS[0])
            if row.gain
            else ("baseline", "s", COLORS[1])
        )
        axes.errorbar(
            value,
            place,
            xerr=[[value - low], [high - value]],
            fmt=marker,
            capsize=3,
            color=color,
            label=None if label in labeled else label,
        )
        labeled.add(label)
        text = f"{value:.2f}" + (f" ({row.gain.exprate:+.2f})" if row.gain else "")
        axes.annotate(
            text, (value, place), (0, 6), textcoords="offset points", ha="center", fontsize=8
        )
    axes.set_yticks(range(len(rows)), [row.name for row in rows])
    axes.set(xlabel="ExpRate (%) with 95 % interval", title=title, ylim=(len(rows) - 0.5, -0.7))
    axes.grid(axis="x", color="0.9")
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    if len(labeled) > 1:
        figure.legend(loc="outside lower center", ncols=2, frameon=False, fontsize=8)
    save_figure(figure, path)
