"""Learning curves of a training run, joined over all its starts."""

import csv
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from posformer.plotting import COLORS, figure_pixels

_SMOOTHING = 0.04  # half width of the moving average, as a fraction of the curve


@dataclass(frozen=True)
class Curves:
    """Logged values by name, over the steps of a run."""

    values: Mapping[str, tuple[np.ndarray, np.ndarray]]  # steps int64 (n,), values float64 (n,)
    starts: tuple[int, ...]  # first logged step after each resume


def read_curves(log: Path) -> Curves:
    """Read and join the logs of all starts of a run.

    A killed run resumes from its last checkpoint and repeats some steps; their first values are
    dropped.

    Args:
        log: Folder with `version_N/metrics.csv`.
    """
    records: list[tuple[int, dict[str, float]]] = []
    starts: list[int] = []
    for file in sorted(
        log.glob("version_*/metrics.csv"),
        key=lambda file: (len(file.parent.name), file.parent.name),
    ):
        if new := list(_records(file)):
            first = min(step for step, _ in new)
            records = [record for record in records if record[0] < first] + new
            starts = [start for start in starts if start < first] + [first]
    records.sort(key=lambda record: record[0])
    values = {}
    for name in {name for _, record in records for name in record}:
        known = [(step, record[name]) for step, record in records if name in record]
        steps, numbers = zip(*known, strict=True)
        values[name] = np.array(steps, np.int64), np.array(numbers, np.float64)
    return Curves(values, tuple(starts[1:]))


def _records(file: Path) -> Iterable[tuple[int, dict[str, float]]]:
    with file.open(newline="", encoding="utf-8") as lines:
        for row in csv.DictReader(lines):
            numbers = {name: _number(text) for name, text in row.items() if name}
            known = {name: value for name, value in numbers.items() if math.isfinite(value)}
            if "step" in known:
                yield int(known.pop("step")), known


def _number(text: object) -> float:
    """Return the number, or NaN for an empty or truncated cell."""
    try:
        return float(str(text))
    except ValueError:
        return math.nan


def draw_curves(curves: Curves, title: str = "") -> np.ndarray:
    """Plot loss, accuracy, auxiliary losses and learning rate, uint8 (height, width, 3)."""
    figure = Figure(figsize=(10.5, 6), dpi=100, layout="constrained")
    names = sorted(curves.values)
    known = ("train/loss", "train/recognition")
    others = [name for name in names if name.startswith("train/") and name not in known]
    rates = [name for name in names if name.startswith("lr-")]
    labels = {
        "loss per token": {"train/recognition": "training", "val/loss": "validation"},
        "validation accuracy (%)": {
            "val/exprate": "ExpRate, left to right",
            "val/exprate_backward": "ExpRate, right to left",
            "val/token_accuracy": "tokens",
        },
        "auxiliary training losses": {
            name: name.removeprefix("train/").replace("_", " ") for name in others
        },
        "learning rate": dict.fromkeys(rates[:1], "learning rate"),
    }
    for axes, (quantity, shown) in zip(figure.subplots(2, 2).flat, labels.items(), strict=True):
        _plot(axes, curves, quantity, shown)
    figure.suptitle(title, fontsize=11)
    return figure_pixels(figure)


def _plot(axes: Any, curves: Curves, title: str, names: Mapping[str, str]) -> None:
    """Plot named curves; training losses are pale, with a moving average on top."""
    axes.set(xlabel="training step", ylabel=title)
    axes.grid(alpha=0.25)
    axes.spines[["top", "right"]].set_visible(False)
    for start in curves.starts:
        axes.axvline(start, color="0.7", linewidth=0.8, linestyle=":")
    for (name, label), color in zip(names.items(), COLORS, strict=False):
        if name not in curves.values:
            continue
        steps, values = curves.values[name]
        if name.startswith("train/"):
            axes.plot(steps, values, color=color, alpha=0.2, linewidth=0.7)
            axes.plot(steps, _smooth(values), color=color, label=label)
        else:
            marker = "." if name.startswith("val/") else None
            axes.plot(steps, values, color=color, label=label, marker=marker)
    if axes.get_legend_handles_labels()[1]:
        axes.legend(fontsize=8, frameon=False)


def _smooth(values: np.ndarray) -> np.ndarray:
    """Return a moving average whose window narrows towards both ends."""
    half = max(1, round(len(values) * _SMOOTHING))
    sums, places = np.cumsum([0.0, *values]), np.arange(len(values))
    reach = np.minimum(half, np.minimum(places, places[::-1]))
    low, high = places - reach, places + reach + 1
    return np.asarray((sums[high] - sums[low]) / (high - low))
