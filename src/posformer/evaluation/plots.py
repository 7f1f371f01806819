"""Plots of the HTML report, as inline SVG in the colors of the page."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from markupsafe import Markup
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure

from posformer.evaluation.significance import Interval
from posformer.plotting import inline_svg

# Placeholder colors; `inline_svg` replaces them by the CSS variables of report.css.
_TEXT, _SOFT, _GRID, _PANEL = "#000001", "#000002", "#000003", "#000004"
_SERIES = ("#000005", "#000006", "#000007")
_CSS = {
    _TEXT: "var(--text)",
    _SOFT: "var(--soft)",
    _GRID: "var(--grid)",
    _PANEL: "var(--raised)",
    **{color: f"var(--series-{number})" for number, color in enumerate(_SERIES)},
}
_SIZE = (3.6, 2.5)  # inches
_MAX_LABELS = 8


@dataclass(frozen=True)
class BarSeries:
    """Bars of one model."""

    name: str
    percents: Sequence[float]
    intervals: Sequence[Interval] = ()  # one for each bar, in percent


def bar_chart(
    labels: Sequence[str],
    counts: Sequence[int],
    series: Sequence[BarSeries],
    xlabel: str,
    ylabel: str,
) -> Markup:
    """Return a bar chart of percentages; the number of expressions is shown below each label."""
    figure, axes = _figure()
    width = 0.76 / len(series)
    for number, one in enumerate(series):
        x = np.arange(len(labels)) + (number - (len(series) - 1) / 2) * width
        axes.bar(x, one.percents, 0.94 * width, color=_SERIES[number], label=one.name)
        tops = list(one.percents)
        if one.intervals:
            tops = [high for _, high in one.intervals]
            axes.vlines(x, *zip(*one.intervals, strict=True), color=_TEXT, linewidth=1)
        if len(labels) * len(series) <= 12:
            for place, top, percent in zip(x, tops, one.percents, strict=True):
                axes.text(
                    place, top + 1.5, f"{percent:.0f}", color=_TEXT, fontsize=7.5, ha="center"
                )
    # Neighboring labels would overlap if there are many bars.
    step = math.ceil(len(labels) / _MAX_LABELS)
    shown = [f"{label}\n{count}" for label, count in zip(labels, counts, strict=True)]
    axes.set_xticks(range(0, len(labels), step), shown[::step])
    axes.set(xlabel=xlabel, ylabel=ylabel, ylim=(0, 112), yticks=range(0, 101, 25))
    axes.tick_params(axis="x", length=0)
    axes.grid(axis="y", color=_GRID)
    if len(series) > 1:
        figure.legend(
            loc="outside upper center", ncols=2, frameon=False, fontsize=8, labelcolor=_TEXT
        )
    return inline_svg(figure, _CSS)


def reliability_plot(
    confidence: Sequence[float], accuracy: Sequence[float], counts: Sequence[int]
) -> Markup:
    """Return a reliability diagram; the area of a point shows the number of predictions.

    Args:
        confidence: Mean confidence of each bin, 0 to 1.
        accuracy: Accuracy of each bin, 0 to 1.
        counts: Number of predictions in each bin; empty bins are skipped.
    """
    figure, axes = _figure()
    bins = [one for one in zip(confidence, accuracy, counts, strict=True) if one[2]]
    x, y, sizes = (np.array(values) for values in zip(*bins, strict=True))
    axes.plot((0, 1), (0, 100), "--", color=_SOFT, linewidth=1, label="perfect calibration")
    axes.plot(x, 100 * y, color=_SERIES[0], linewidth=1.5, label="model", zorder=2)
    area = 12 + 110 * sizes / sizes.max()
    axes.scatter(x, 100 * y, area, color=_SERIES[0], edgecolor=_PANEL, zorder=3)
    for place, rate, size in bins:
        above = (0, 8) if rate < 0.9 else (0, -15)
        axes.annotate(
            f"{size}", (place, 100 * rate), above, textcoords="offset points",
            color=_TEXT, fontsize=7, ha="center",
        )  # fmt: skip
    axes.set(
        xlabel="confidence", ylabel="correct (%)", xlim=(0, 1.02), ylim=(0, 104),
        yticks=range(0, 101, 25),
    )  # fmt: skip
    axes.grid(color=_GRID)
    axes.legend(loc="upper left", frameon=False, fontsize=8, labelcolor=_TEXT)
    return inline_svg(figure, _CSS)


def stacked_bar(names: Sequence[str], counts: Sequence[int]) -> Markup:
    """Return one horizontal bar, divided in proportion to the counts."""
    figure, axes = _figure((3.6, 0.4))
    total, left = sum(counts), 0.0
    for number, (name, count) in enumerate(zip(names, counts, strict=True)):
        percent = 100 * count / total
        axes.barh(
            0,
            percent,
            left=left,
            color=_SERIES[number],
            edgecolor=_PANEL,
            linewidth=1.5,
            label=name,
        )
        if percent > 7:
            axes.text(
                left + percent / 2, 0, f"{percent:.0f} %", color=_PANEL, fontsize=9, weight="bold",
                ha="center", va="center_baseline",
            )  # fmt: skip
        left += percent
    axes.set(xlim=(0, 100), ylim=(-0.4, 0.4))
    axes.set_axis_off()
    return inline_svg(figure, _CSS)


def confusion_matrix(
    truths: Sequence[str], predictions: Sequence[str], counts: Sequence[Sequence[int]]
) -> Markup:
    """Return a matrix of counts as a heat map; zeros are left blank.

    Args:
        truths: Names of the rows.
        predictions: Names of the columns.
        counts: Number of confusions, (truths, predictions).
    """
    values = np.array(counts)
    height, width = values.shape
    figure, axes = _figure((1.0 + 0.27 * width, 0.9 + 0.27 * height))
    transparent = LinearSegmentedColormap.from_list(
        "counts", [(*_rgb(_SERIES[0]), alpha) for alpha in (0.12, 1.0)]
    )
    axes.pcolormesh(
        np.ma.masked_equal(values, 0), cmap=transparent, edgecolors=_GRID, linewidth=0.8
    )
    for (row, column), count in np.ndenumerate(values):
        if count:
            color = _PANEL if count > 0.5 * values.max() else _TEXT
            axes.text(
                column + 0.5, row + 0.5, str(count), color=color, fontsize=8,
                ha="center", va="center_baseline",
            )  # fmt: skip
    names = {"family": "monospace", "fontsize": 8, "color": _TEXT, "parse_math": False}
    axes.set_xticks(np.arange(width) + 0.5, predictions, rotation=50, ha="left", **names)
    axes.set_yticks(np.arange(height) + 0.5, truths, **names)
    axes.set(xlabel="prediction", ylabel="truth", ylim=(height, 0), aspect="equal")
    axes.xaxis.set_label_position("top")
    axes.tick_params(length=0, labeltop=True, labelbottom=False, rotation_mode="anchor")
    axes.spines[:].set_visible(False)
    axes.grid(False)
    return inline_svg(figure, _CSS)


def _figure(size: tuple[float, float] = _SIZE) -> tuple[Figure, Any]:
    figure = Figure(figsize=size, layout="constrained")
    axes = figure.add_subplot()
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["bottom", "left"]].set_color(_SOFT)
    axes.tick_params(colors=_SOFT, labelcolor=_TEXT, labelsize=8)
    axes.xaxis.label.set(color=_SOFT, size=8.5)
    axes.yaxis.label.set(color=_SOFT, size=8.5)
    axes.set_axisbelow(True)
    return figure, axes


def _rgb(color: str) -> tuple[float, ...]:
    return tuple(int(color[place : place + 2], 16) / 255 for place in (1, 3, 5))
