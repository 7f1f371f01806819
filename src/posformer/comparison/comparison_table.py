"""The paper's table of what was measured, with what the numbers can tell."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from posformer.comparison.candidates import Contender
from posformer.comparison.runs import Benchmark, Result

__all__ = ["Gain", "Measure", "Row", "make_rows", "markdown"]

_SAMPLES = 2000
_BOUNDS = (2.5, 97.5)
_TOLERANCES = (0, 1, 2)  # tokens that may be wrong: ExpRate, ≤1, ≤2


@dataclass(frozen=True)
class Measure:
    """A share of the expressions, in per cent."""

    value: float  # mean over seeds
    interval: tuple[float, float]  # 95 %


@dataclass(frozen=True)
class Gain:
    """What a contender has over its baseline, in points."""

    baseline: str
    exprate: float
    le1: float
    le2: float
    interval: tuple[float, float]  # 95 %, of the gain in ExpRate


@dataclass(frozen=True)
class Row:
    """A line of the table."""

    name: str
    seeds: int
    exprate: Measure
    le1: Measure
    le2: Measure
    gain: Gain | None
    parameters: int  # of what recognition needs
    speed: float  # images in a second of CPU time
    minutes: float | None  # of CPU time in training

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        return asdict(self)


def make_rows(contenders: Sequence[Contender], results: Sequence[Result]) -> list[Row]:
    """The lines for all contenders that have results, in the order of the contenders."""
    by_name = {
        one.name: [result for result in results if result.name == one.name] for one in contenders
    }
    return [_row(one, by_name) for one in contenders if by_name[one.name]]


def _row(one: Contender, by_name: Mapping[str, Sequence[Result]]) -> Row:
    mine = by_name[one.name]
    within = _within(mine)
    exprate, le1, le2 = (
        Measure(100 * float(hits.mean()), _interval(_means(hits))) for hits in within
    )
    minutes = [result.minutes for result in mine if result.minutes is not None]
    base = by_name.get(one.baseline or "")
    return Row(
        one.name,
        len(mine),
        exprate,
        le1,
        le2,
        gain=_gain(str(one.baseline), within, _within(base)) if base else None,
        parameters=mine[0].parameters,
        speed=float(np.mean([result.speed for result in mine])),
        minutes=float(np.mean(minutes)) if minutes else None,
    )


def _within(results: Sequence[Result]) -> list[np.ndarray]:
    """For each tolerance, whether an expression is right: bool (seeds, expressions)."""
    distances = np.stack([result.distances for result in results])
    return [distances <= tolerance for tolerance in _TOLERANCES]


def _gain(baseline: str, own: Sequence[np.ndarray], base: Sequence[np.ndarray]) -> Gain:
    exprate, le1, le2 = (100 * float(a.mean() - b.mean()) for a, b in zip(own, base, strict=True))
    # The same expressions are drawn for both, so that what is hard for both tells nothing.
    drawn = _means(own[0]) - _means(base[0], seed=1)
    return Gain(baseline, exprate, le1, le2, _interval(drawn))


def _means(hits: np.ndarray, seed: int = 0) -> np.ndarray:
    """Shares in sets drawn anew, with replacement, from the expressions and from the seeds.

    Args:
        hits: bool (seeds, expressions).
        seed: decides which of the seeds are drawn; expressions are drawn the same way for all.

    Returns:
        float (samples), in per cent.
    """
    seeds, count = hits.shape
    shares = _drawn(count) @ hits.T.astype(np.float32) / count
    return 100 * np.asarray((shares * _drawn(seeds, 1 + seed)).sum(axis=1) / seeds)


@lru_cache(maxsize=8)
def _drawn(count: int, seed: int = 0) -> np.ndarray:
    """How often each of `count` things is drawn, with replacement: float32 (samples, count)."""
    rng = np.random.default_rng(seed)
    return rng.multinomial(count, np.full(count, 1 / count), _SAMPLES).astype(np.float32)


def _interval(samples: np.ndarray) -> tuple[float, float]:
    low, high = np.percentile(samples, _BOUNDS)
    return float(low), float(high)


def markdown(
    rows: Sequence[Row], contenders: Sequence[Contender], benchmark: Benchmark, count: int
) -> str:
    """The table and what must be known to read it.

    Args:
        rows: its lines.
        contenders: whose lines they are.
        benchmark: what was measured on.
        count: expressions of it.
    """
    header = ("model", "ExpRate", "95 %", "≤1", "≤2", "gain, 95 %", "parameters", "images/s")
    rule = ("---", *["---:"] * (len(header) - 1))
    lines = [header, rule, *(_cells(row) for row in rows)]
    table = "\n".join(f"| {' | '.join(line)} |" for line in lines)
    remarks = [_about(benchmark, count), *_training(contenders, rows), *_reading(rows)]
    return table + "\n\n" + "".join(f"- {remark}\n" for remark in remarks)


def _cells(row: Row) -> tuple[str, ...]:
    gain = row.gain
    gains = (gain.exprate, gain.le1, gain.le2) if gain else (None, None, None)
    exprate, le1, le2 = (
        f"{measure.value:.2f}" + ("" if more is None else f" ({_signed(more)})")
        for measure, more in zip((row.exprate, row.le1, row.le2), gains, strict=True)
    )
    low, high = row.exprate.interval
    return (
        row.name,
        exprate,
        f"{low:.1f}–{high:.1f}",
        le1,
        le2,
        " to ".join(_signed(bound, 1) for bound in gain.interval) if gain else "",
        f"{row.parameters / 1e6:.2f} M",
        f"{row.speed:.1f}",
    )


def _signed(value: float, digits: int = 2) -> str:
    return f"{value:+.{digits}f}".replace("-", "−")


def _about(benchmark: Benchmark, count: int) -> str:
    without = f" without the texts of {benchmark.leave_out}" if benchmark.leave_out else ""
    how = "greedy" if benchmark.greedy else f"beam {benchmark.beam}"
    return f"{benchmark.split}{without}: {count} expressions, {how}; ExpRate, ≤1, ≤2 in per cent."


def _training(contenders: Sequence[Contender], rows: Sequence[Row]) -> Iterator[str]:
    """How the models came to be, as far as that is known."""
    spent = [row.minutes for row in rows if row.minutes is not None]
    if spent:
        span = {f"{minutes:.1f}": None for minutes in (min(spent), max(spent))}
        yield f"Trained for {' to '.join(span)} CPU minutes; the last weights, none are chosen."
    configs = [one.config for one in contenders if one.config is not None]
    frozen = {
        (config.frozen.encoder, config.frozen.variants) for config in configs if config.frozen
    }
    for encoder, variants in sorted(frozen):
        drawn = f", and {variants} variants of each" if variants else ""
        yield (
            f"The encoder ({encoder}) is taken over and frozen: only what comes behind it is "
            f"trained, on its maps of the training images{drawn}."
        )
    if any(config.data.source == "ink" for config in configs):
        yield "Training also used the ink of the training set; the paper's models did not."


def _reading(rows: Sequence[Row]) -> Iterator[str]:
    """What the columns mean."""
    seeds = max(row.seeds for row in rows)
    over = (
        f"the expressions and {seeds} seeds"
        if seeds > 1
        else "the expressions; what chance does in training is not in them, there is one seed"
    )
    yield f"95 % intervals are by the bootstrap, over {over}."
    pairs = [f"{row.name} over {row.gain.baseline}" for row in rows if row.gain]
    if pairs:
        yield f"Gains, in brackets: {', '.join(pairs)}; their intervals are of paired differences."
    yield "Parameters, and images a second of CPU time (PyTorch), are those of recognition."
