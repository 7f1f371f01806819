"""The comparison table: metrics, gains and bootstrap intervals."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from posformer.comparison.candidates import Candidate
from posformer.comparison.runs import Benchmark, Result
from posformer.evaluation.score_table import format_markdown
from posformer.evaluation.significance import Interval, bootstrap_sums, percentile_interval

_TOLERANCES = (0, 1, 2)  # token edits: ExpRate, ≤1, ≤2


@dataclass(frozen=True)
class Estimate:
    """A percentage of the expressions."""

    value: float  # mean over seeds
    interval: Interval  # 95 %


@dataclass(frozen=True)
class Gain:
    """Difference to the baseline, in points."""

    baseline: str
    exprate: float
    le1: float
    le2: float
    interval: Interval  # 95 %, of the gain in ExpRate


@dataclass(frozen=True)
class TableRow:
    """A row of the table."""

    name: str
    seeds: int
    exprate: Estimate
    le1: Estimate
    le2: Estimate
    gain: Gain | None
    parameters: int  # used in recognition
    speed: float  # images per second of CPU time
    minutes: float | None  # CPU time of the training


def make_rows(candidates: Sequence[Candidate], results: Sequence[Result]) -> list[TableRow]:
    """Return a row for each candidate with results, in the order of the candidates."""
    by_name = {
        one.name: [result for result in results if result.name == one.name] for one in candidates
    }
    return [_row(one, by_name) for one in candidates if by_name[one.name]]


def _row(one: Candidate, by_name: Mapping[str, Sequence[Result]]) -> TableRow:
    own = by_name[one.name]
    correct = _correct(own)
    intervals = [percentile_interval(*_bootstrap_means(hits)) for hits in correct]
    means = [100 * float(hits.mean()) for hits in correct]
    exprate, le1, le2 = map(Estimate, means, intervals)
    minutes = [result.minutes for result in own if result.minutes is not None]
    spent = float(np.mean(minutes)) if minutes else None
    speed = float(np.mean([result.speed for result in own]))
    baseline = by_name.get(one.baseline or "")
    gain = _gain(str(one.baseline), correct, _correct(baseline)) if baseline else None
    size = own[0].parameters
    return TableRow(one.name, len(own), exprate, le1, le2, gain, size, speed, spent)


def _correct(results: Sequence[Result]) -> list[np.ndarray]:
    """Return for each tolerance which expressions are correct, bool (seeds, expressions)."""
    distances = np.stack([result.distances for result in results])
    return [distances <= tolerance for tolerance in _TOLERANCES]


def _gain(baseline: str, own: Sequence[np.ndarray], base: Sequence[np.ndarray]) -> Gain:
    exprate, le1, le2 = (100 * float(a.mean() - b.mean()) for a, b in zip(own, base, strict=True))
    # Paired: both models are resampled with the same expressions.
    ours, theirs = _bootstrap_means(own[0], base[0])
    return Gain(baseline, exprate, le1, le2, percentile_interval(ours - theirs))


def _bootstrap_means(*models: np.ndarray) -> list[np.ndarray]:
    """Resample expressions and training seeds.

    Args:
        models: For each model bool (seeds, expressions), whether an expression is correct.

    Returns:
        For each model the resampled percentages, float (samples,).
    """
    sums = bootstrap_sums(np.concatenate(models).T.astype(np.float64))
    rng, first = np.random.default_rng(0), 0
    means = []
    for correct in models:
        seeds, count = correct.shape
        chosen = rng.multinomial(seeds, np.full(seeds, 1 / seeds), len(sums))
        own = sums[:, first : first + seeds] / count
        means.append(100 * (own * chosen).sum(axis=1) / seeds)
        first += seeds
    return means


def markdown(
    rows: Sequence[TableRow], candidates: Sequence[Candidate], benchmark: Benchmark, count: int
) -> str:
    """Return the table with remarks as Markdown.

    Args:
        rows: Rows of the table.
        candidates: The candidates of the rows.
        benchmark: The benchmark of the results.
        count: Number of expressions in the benchmark.
    """
    header = ("model", "ExpRate", "95 %", "≤1", "≤2", "gain, 95 %", "parameters", "images/s")
    table = format_markdown(header, [_cells(row) for row in rows])
    training, columns = _training_remarks(candidates, rows), _column_remarks(rows)
    remarks = (_describe(benchmark, count), *training, *columns)
    return table + "\n\n" + "".join(f"- {remark}\n" for remark in remarks)


def _cells(row: TableRow) -> tuple[str, ...]:
    gain = row.gain
    exprate, le1, le2 = (f"{one.value:.2f}" for one in (row.exprate, row.le1, row.le2))
    gain_interval = ""
    if gain:
        exprate += f" ({_signed(gain.exprate)})"
        le1 += f" ({_signed(gain.le1)})"
        le2 += f" ({_signed(gain.le2)})"
        gain_interval = " to ".join(_signed(bound, 1) for bound in gain.interval)
    interval = "–".join(f"{bound:.1f}" for bound in row.exprate.interval)
    size, speed = f"{row.parameters / 1e6:.2f} M", f"{row.speed:.1f}"
    return row.name, exprate, interval, le1, le2, gain_interval, size, speed


def _signed(value: float, digits: int = 2) -> str:
    return f"{value:+.{digits}f}".replace("-", "−")


def _describe(benchmark: Benchmark, count: int) -> str:
    without = f" without the texts of {benchmark.leave_out}" if benchmark.leave_out else ""
    search = "greedy" if benchmark.greedy else f"beam {benchmark.beam}"
    return f"{benchmark.split}{without}: {count} expressions, {search}; ExpRate, ≤1, ≤2 in percent."


def _training_remarks(candidates: Sequence[Candidate], rows: Sequence[TableRow]) -> Iterator[str]:
    minutes = [row.minutes for row in rows if row.minutes is not None]
    if minutes:
        span = {f"{value:.1f}": None for value in (min(minutes), max(minutes))}
        yield f"Trained for {' to '.join(span)} CPU minutes; last weights, no checkpoint selection."
    configs = [one.config for one in candidates if one.config is not None]
    frozen = [config.frozen for config in configs if config.frozen]
    for encoder, variants in sorted({(one.encoder, one.variants) for one in frozen}):
        augmented = f" and {variants} augmented variants of each" if variants else ""
        yield (
            f"The encoder ({encoder}) is frozen: the decoders are trained on its feature maps of "
            f"the training images{augmented}."
        )
    if any(config.data.source == "ink" for config in configs):
        yield "Training also used the ink of the training set; the paper's models did not."


def _column_remarks(rows: Sequence[TableRow]) -> Iterator[str]:
    seeds = max(row.seeds for row in rows)
    alone = "; with one seed they do not include the variance of training"
    over = f" and {seeds} seeds" if seeds > 1 else alone
    yield f"95 % intervals: bootstrap over expressions{over}."
    pairs = [f"{row.name} over {row.gain.baseline}" for row in rows if row.gain]
    if pairs:
        yield f"Gains in parentheses: {', '.join(pairs)}; their intervals are paired."
    yield "Parameters and images per second of CPU time (PyTorch) are those of recognition."
