"""The table as an image."""

from collections.abc import Sequence
from pathlib import Path

from posformer.comparison.comparison_table import Row
from posformer.errors import PosformerError

__all__ = ["draw_plot"]


def draw_plot(rows: Sequence[Row], title: str, path: Path) -> None:
    """Draws ExpRate with its interval, a line for each contender, beside that of its baseline.

    Args:
        rows: of the table.
        title: what was measured on, and at which budget.
        path: its ending tells the format: .svg, .png.

    Raises:
        PosformerError: If it cannot be written there.
    """
    import matplotlib
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6.4, 1.2 + 0.42 * len(rows)), layout="constrained")
    axes = figure.subplots()
    base = {row.gain.baseline: row.name for row in rows if row.gain}
    for place, row in enumerate(rows):
        low, high = row.exprate.interval
        around = [[row.exprate.value - low], [high - row.exprate.value]]
        plain = row.name in base  # hollow: what others are set against
        axes.errorbar(
            row.exprate.value,
            place,
            xerr=around,
            fmt="o",
            capsize=3,
            color="C0" if row.gain else "0.35",
            markerfacecolor="white" if plain else None,
        )
        gain = f" ({row.gain.exprate:+.2f})" if row.gain else ""
        axes.annotate(
            f"{row.exprate.value:.2f}{gain}",
            (row.exprate.value, place),
            (0, 6),
            textcoords="offset points",
            ha="center",
            fontsize=8,
        )
    axes.set_yticks(range(len(rows)), [row.name for row in rows])
    axes.set_ylim(len(rows) - 0.5, -0.6)
    axes.set(xlabel="ExpRate, per cent, with 95 % interval", title=title)
    axes.grid(axis="x", color="0.9")
    axes.set_axisbelow(True)
    try:
        with matplotlib.rc_context({"svg.hashsalt": "posformer"}):  # the same file every time
            dated = {"Date": None} if path.suffix == ".svg" else None
            figure.savefig(path, dpi=120, metadata=dated)
    except (OSError, ValueError) as error:
        raise PosformerError(f"{path}: {error}") from error
