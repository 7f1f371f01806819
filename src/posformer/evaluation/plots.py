"""Plots of the HTML report, as inline SVG in the colors of the page."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from markupsafe import Markup
from matplotlib.colors import LinearSegmentedColormap, to_rgba
from matplotlib.figure import Figure

from posformer.evaluation.metrics import wilson_interval
from posformer.plotting import inline_svg
from posformer.runtime.calibration import Reliability

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
Bars = tuple[str, Sequence[float]]
"""Name of a model and the percentage of each bar."""
_LEGEND = {"frameon": False, "fontsize": 8, "labelcolor": _TEXT}


def bar_chart(
    counts: Mapping[str, int], models: Sequence[Bars], xlabel: str, ylabel: str, *, intervals: bool
) -> Markup:
    """Return a bar chart of percentages; the number of expressions is shown below each label.

    Args:
        counts: Labels of the bars and their numbers of expressions.
        models: The bars of each model.
        xlabel: Name of the labels.
        ylabel: Name of the percentages.
        intervals: Whether the percentages have Wilson intervals.
    """
    figure, axes = _figure()
    width = 0.76 / len(models)
    style = {"color": _TEXT, "fontsize": 7.5, "ha": "center"}
    for number, (name, percents) in enumerate(models):
        x = np.arange(len(counts)) + (number - (len(models) - 1) / 2) * width
        axes.bar(x, percents, 0.94 * width, color=_SERIES[number], label=name)
        tops = percents
        if intervals:
            pairs = zip(percents, counts.values(), strict=True)
            spans = [wilson_interval(round(rate * count / 100), count) for rate, count in pairs]
            lows, tops = zip(*spans, strict=True)
            axes.vlines(x, lows, tops, color=_TEXT, linewidth=1)
        if len(counts) * len(models) <= 12:
            for place, top, percent in zip(x, tops, percents, strict=True):
                axes.text(place, top + 1.5, f"{percent:.0f}", **style)
    # Neighboring labels would overlap if there are many bars.
    step = math.ceil(len(counts) / _MAX_LABELS)
    shown = [f"{label}\n{count}" for label, count in counts.items()]
    axes.set_xticks(range(0, len(counts), step), shown[::step])
    axes.set(xlabel=xlabel, ylabel=ylabel, ylim=(0, 112), yticks=range(0, 101, 25))
    axes.tick_params(axis="x", length=0)
    axes.grid(axis="y", color=_GRID)
    if len(models) > 1:
        figure.legend(loc="outside upper center", ncols=2, **_LEGEND)
    return inline_svg(figure, _CSS)


def reliability_plot(curve: Reliability) -> Markup:
    """Return a reliability diagram; the area of a point shows the number of predictions."""
    figure, axes = _figure()
    counts = np.array(curve.counts)
    used = counts > 0
    x, y = np.array(curve.confidence)[used], 100 * np.array(curve.accuracy)[used]
    axes.plot((0, 1), (0, 100), "--", color=_SOFT, linewidth=1, label="perfect calibration")
    axes.plot(x, y, color=_SERIES[0], linewidth=1.5, label="model", zorder=2)
    area = 12 + 110 * counts[used] / counts.max()
    axes.scatter(x, y, area, color=_SERIES[0], edgecolor=_PANEL, zorder=3)
    style = {"textcoords": "offset points", "color": _TEXT, "fontsize": 7, "ha": "center"}
    for place, percent, size in zip(x, y, counts[used], strict=True):
        axes.annotate(f"{size}", (place, percent), (0, 8 if percent < 90 else -15), **style)
    axes.set(xlabel="confidence", ylabel="correct (%)", xlim=(0, 1.02), ylim=(0, 104))
    axes.set_yticks(range(0, 101, 25))
    axes.grid(color=_GRID)
    axes.legend(loc="upper left", **_LEGEND)
    return inline_svg(figure, _CSS)


def stacked_bar(counts: Sequence[int]) -> Markup:
    """Return one horizontal bar, divided in proportion to the counts."""
    figure, axes = _figure((3.6, 0.4))
    style = {"color": _PANEL, "fontsize": 9, "weight": "bold", "ha": "center"}
    left = 0.0
    for color, count in zip(_SERIES, counts, strict=False):
        percent = 100 * count / sum(counts)
        axes.barh(0, percent, left=left, color=color, edgecolor=_PANEL, linewidth=1.5)
        if percent > 7:
            middle = left + percent / 2
            axes.text(middle, 0, f"{percent:.0f} %", va="center_baseline", **style)
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
    colors = [to_rgba(_SERIES[0], alpha) for alpha in (0.12, 1.0)]
    cmap = LinearSegmentedColormap.from_list("counts", colors)
    axes.pcolormesh(np.ma.masked_equal(values, 0), cmap=cmap, edgecolors=_GRID, linewidth=0.8)
    style = {"fontsize": 8, "ha": "center", "va": "center_baseline"}
    for (row, column), count in np.ndenumerate(values):
        if count:
            color = _PANEL if count > 0.5 * values.max() else _TEXT
            axes.text(column + 0.5, row + 0.5, str(count), color=color, **style)
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
