"""The learning curves of a run, over all its starts, as an image."""

import csv
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

__all__ = ["Curves", "draw_curves", "read_curves"]

_SMOOTH = 0.04  # of a curve's length, over which noisy values are averaged
_COLOURS = ("#1f4e9e", "#c0392b", "#2f8f4e", "#b07d10", "#7b4fa3")


@dataclass(frozen=True)
class Curves:
    """Values by name over the steps of a run."""

    values: Mapping[str, tuple[np.ndarray, np.ndarray]]  # steps int64 (n,), values float64 (n,)
    starts: tuple[int, ...]  # first steps that were logged after the run was resumed


def read_curves(log: Path) -> Curves:
    """Joins what every start of a run has logged.

    A run that was killed goes on from its last checkpoint and does some steps again; what was
    logged of them before does not count.

    Args:
        log: the folder with `version_N/metrics.csv`.
    """
    rows: list[tuple[int, dict[str, float]]] = []
    starts: list[int] = []
    for file in sorted(log.glob("version_*/metrics.csv"), key=_version):
        new = list(_rows(file))
        if not new:
            continue
        first = min(step for step, _ in new)
        rows = [row for row in rows if row[0] < first] + new
        starts = [start for start in starts if start < first] + [first]
    values: dict[str, list[tuple[int, float]]] = {}
    for step, row in rows:
        for name, value in row.items():
            values.setdefault(name, []).append((step, value))
    return Curves({name: _arrays(points) for name, points in values.items()}, tuple(starts[1:]))


def _version(file: Path) -> int:
    number = file.parent.name.rpartition("_")[2]
    return int(number) if number.isdigit() else -1


def _rows(file: Path) -> Iterable[tuple[int, dict[str, float]]]:
    with file.open(newline="", encoding="utf-8") as lines:
        for row in csv.DictReader(lines):
            numbers = {name: _number(text) for name, text in row.items() if name}
            step = numbers.pop("step", None)
            if step is not None:
                told = {name: value for name, value in numbers.items() if value is not None}
                yield int(step), told


def _number(text: object) -> float | None:
    """None for an empty cell, and for one that a killed run has not written to its end."""
    try:
        value = float(str(text))
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def _arrays(points: list[tuple[int, float]]) -> tuple[np.ndarray, np.ndarray]:
    points.sort(key=lambda point: point[0])
    steps, values = zip(*points, strict=True)
    return np.array(steps, np.int64), np.array(values, np.float64)


def draw_curves(curves: Curves, title: str = "") -> np.ndarray:
    """Loss, accuracy, the parts of the loss and the learning rate, uint8 (height, width, 3)."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10.5, 6), dpi=100, layout="constrained")
    canvas = FigureCanvasAgg(figure)
    (loss, accuracy), (parts, rate) = figure.subplots(2, 2)
    _plot(loss, curves, "loss a token", {"train/recognition": "training", "val/loss": "validation"})
    _plot(
        accuracy,
        curves,
        "validation, per cent",
        {
            "val/exprate": "ExpRate, left to right",
            "val/exprate_backward": "ExpRate, right to left",
            "val/token_accuracy": "tokens",
        },
    )
    known = ("train/loss", "train/recognition")
    others = [name for name in curves.values if name.startswith("train/") and name not in known]
    _plot(parts, curves, "further parts of the training loss", _named(sorted(others)))
    rates = [name for name in sorted(curves.values) if name.startswith("lr-")]
    _plot(rate, curves, "learning rate", dict.fromkeys(rates[:1], "learning rate"))
    rate.set_xlabel("step")
    parts.set_xlabel("step")
    figure.suptitle(title, fontsize=11)
    canvas.draw()
    return np.asarray(canvas.buffer_rgba())[..., :3].copy()


def _named(names: Iterable[str]) -> dict[str, str]:
    return {name: name.partition("/")[2].replace("_", " ") for name in names}


def _plot(axes: Any, curves: Curves, title: str, names: Mapping[str, str]) -> None:
    """The named curves; noisy ones pale, and smoothed on top."""
    axes.set_title(title, fontsize=10, loc="left")
    axes.grid(alpha=0.25)
    axes.spines[["top", "right"]].set_visible(False)
    for start in curves.starts:
        axes.axvline(start, color="0.7", linewidth=0.8, linestyle=":")
    for (name, label), colour in zip(names.items(), _COLOURS, strict=False):
        if name not in curves.values:
            continue
        steps, values = curves.values[name]
        if name.startswith("train/"):
            axes.plot(steps, values, color=colour, alpha=0.2, linewidth=0.7)
            axes.plot(steps, _smoothed(values), color=colour, label=label)
        else:
            marker = "." if name.startswith("val/") else None
            axes.plot(steps, values, color=colour, label=label, marker=marker)
    if axes.get_legend_handles_labels()[1]:
        axes.legend(fontsize=8, frameon=False)


def _smoothed(values: np.ndarray) -> np.ndarray:
    """A moving mean that gets narrower towards both ends."""
    half = max(1, round(len(values) * _SMOOTH))
    sums = np.concatenate(([0.0], np.cumsum(values)))
    places = np.arange(len(values))
    reach = np.minimum(half, np.minimum(places, places[::-1]))
    low, high = places - reach, places + reach + 1
    return np.asarray((sums[high] - sums[low]) / (high - low))
