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
    for file in sorted(log.glob("version_*/metrics.csv"), key=_version):
        new = list(_records(file))
        if not new:
            continue
        first = min(step for step, _ in new)
        records = [record for record in records if record[0] < first] + new
        starts = [start for start in starts if start < first] + [first]
    values: dict[str, list[tuple[int, float]]] = {}
    for step, record in records:
        for name, value in record.items():
            values.setdefault(name, []).append((step, value))
    return Curves({name: _arrays(points) for name, points in values.items()}, tuple(starts[1:]))


def _version(file: Path) -> int:
    number = file.parent.name.rpartition("_")[2]
    return int(number) if number.isdigit() else -1


def _records(file: Path) -> Iterable[tuple[int, dict[str, float]]]:
    with file.open(newline="", encoding="utf-8") as lines:
        for row in csv.DictReader(lines):
            numbers = {name: _number(text) for name, text in row.items() if name}
            step = numbers.pop("step", None)
            if step is not None:
                values = {name: value for name, value in numbers.items() if value is not None}
                yield int(step), values


def _number(text: object) -> float | None:
    """Return the number, or None for an empty, truncated or non-finite cell."""
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
    """Plot loss, accuracy, auxiliary losses and learning rate, uint8 (height, width, 3)."""
    figure = Figure(figsize=(10.5, 6), dpi=100, layout="constrained")
    (loss, accuracy), (parts, rate) = figure.subplots(2, 2)
    _plot(
        loss, curves, "loss per token", {"train/recognition": "training", "val/loss": "validation"}
    )
    _plot(
        accuracy,
        curves,
        "validation accuracy (%)",
        {
            "val/exprate": "ExpRate, left to right",
            "val/exprate_backward": "ExpRate, right to left",
            "val/token_accuracy": "tokens",
        },
    )
    known = ("train/loss", "train/recognition")
    others = [name for name in curves.values if name.startswith("train/") and name not in known]
    _plot(parts, curves, "auxiliary training losses", _named(sorted(others)))
    rates = [name for name in sorted(curves.values) if name.startswith("lr-")]
    _plot(rate, curves, "learning rate", dict.fromkeys(rates[:1], "learning rate"))
    figure.suptitle(title, fontsize=11)
    return figure_pixels(figure)


def _named(names: Iterable[str]) -> dict[str, str]:
    return {name: name.partition("/")[2].replace("_", " ") for name in names}


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
    sums = np.concatenate(([0.0], np.cumsum(values)))
    places = np.arange(len(values))
    reach = np.minimum(half, np.minimum(places, places[::-1]))
    low, high = places - reach, places + reach + 1
    return np.asarray((sums[high] - sums[low]) / (high - low))
