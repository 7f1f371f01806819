"""How far the confidence of a model can be trusted: fitted and tried on validation data."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from posformer.errors import PosformerError
from posformer.evaluation.metrics import wilson_interval
from posformer.evaluation.predict import EvaluationSet
from posformer.runtime import Calibration, Runtime, confidences, decode_images, fit_calibration
from posformer.runtime.calibration import Reliability, cross_validate, measure_reliability
from posformer.search import DecodingOptions, Hypothesis

__all__ = [
    "CalibrationTrial",
    "draw_reliability",
    "markdown_reliability",
    "read_best",
    "try_calibration",
]

_TOGETHER = 64  # images held in memory at a time
_THRESHOLDS = (0.3, 0.5, 0.7, 0.9)
_TOO_FEW = 5  # readings in a bin, of which a share says nothing


@dataclass(frozen=True)
class CalibrationTrial:
    """A calibration, and how sure a model was of each reading with it and without."""

    calibration: Calibration  # fitted on all readings
    correct: np.ndarray  # bool (readings,), whether every token is right
    before: np.ndarray  # float64 (readings,), the mean probability of a token
    after: np.ndarray  # float64 (readings,), each by a curve fitted on others (cross-validation)

    @property
    def reliability(self) -> tuple[Reliability, Reliability]:
        """The curve before and after."""
        return (
            measure_reliability(self.before, self.correct),
            measure_reliability(self.after, self.correct),
        )


def read_best(
    runtime: Runtime, examples: EvaluationSet, options: DecodingOptions
) -> Iterator[tuple[Hypothesis, bool]]:
    """The best hypothesis of every image, and whether it is right."""
    for first in range(0, len(examples), _TOGETHER):
        numbers = range(first, min(first + _TOGETHER, len(examples)))
        found = decode_images(runtime, [examples.image(number) for number in numbers], options)
        for number, best in zip(numbers, found, strict=True):
            tokens = tuple(runtime.vocabulary.decode(best[0].tokens))
            yield best[0], tokens == examples.captions[number]


def try_calibration(readings: list[tuple[Hypothesis, bool]], data: str) -> CalibrationTrial:
    """Fit confidence to readings, and try it on those that it was not fitted on.

    Args:
        readings: what `read_best` found.
        data: what is said of where they came from.
    """
    hypotheses, correct = [one for one, _ in readings], np.array([right for _, right in readings])
    calibration = fit_calibration(hypotheses, correct, data)
    before = np.array([confidences([one], None)[0] for one in hypotheses])
    return CalibrationTrial(calibration, correct, before, cross_validate(hypotheses, correct))


def markdown_reliability(trial: CalibrationTrial) -> str:
    """The reliability curve and what a threshold would do, as tables."""
    before, after = trial.reliability
    lines = [
        f"{len(trial.correct)} readings, {100 * trial.correct.mean():.1f} % right; expected "
        f"calibration error {before.error:.3f} before, {after.error:.3f} after (cross-validated)",
        "",
        "| confidence | readings | mean confidence | right |",
        "| --- | ---: | ---: | ---: |",
    ]
    for place, count in enumerate(after.counts):
        name = f"{after.bounds[place]:.1f}–{after.bounds[place + 1]:.1f}"
        found = f"{after.confidence[place]:.2f} | {after.accuracy[place]:.2f}" if count else "|"
        lines.append(f"| {name} | {count} | {found} |")
    lines += [
        "",
        "| unsure below | called unsure | right among the others | wrong ones that are caught |",
        "| ---: | ---: | ---: | ---: |",
    ]
    for threshold in _THRESHOLDS:
        unsure = trial.after < threshold
        shares = (unsure.mean(), _mean(trial.correct[~unsure]), _mean(unsure[~trial.correct]))
        cells = ("–" if np.isnan(share) else f"{100 * share:.0f} %" for share in shares)
        lines.append(f"| {threshold} | {' | '.join(cells)} |")
    return "\n".join(lines)


def draw_reliability(trial: CalibrationTrial, path: Path) -> None:
    """Draw the reliability curve before and after; the ending of the path tells the format.

    Raises:
        PosformerError: If it cannot be written there.
    """
    import matplotlib
    from matplotlib.figure import Figure

    figure = Figure(figsize=(5.2, 5.2), layout="constrained")
    curves, counts = figure.subplots(2, 1, height_ratios=(4, 1), sharex=True)
    curves.plot((0, 1), (0, 1), color="0.7", linewidth=1)
    names = ("mean probability of a token", "calibrated")
    for reliability, sure, name, colour in zip(
        trial.reliability, (trial.before, trial.after), names, ("C1", "C0"), strict=True
    ):
        means, rates, around = _points(reliability)
        label = f"{name} (error {reliability.error:.3f})"
        curves.errorbar(means, rates, around, fmt="o-", capsize=3, color=colour, label=label)
        counts.hist(sure, bins=reliability.bounds, histtype="step", color=colour)
    curves.set(ylabel="share that is right", ylim=(-0.02, 1.02), xlim=(0, 1))
    curves.legend(loc="upper left", frameon=False)
    counts.set(xlabel="confidence", ylabel="readings")
    try:
        with matplotlib.rc_context({"svg.hashsalt": "posformer"}):  # the same file every time
            dated = {"Date": None} if path.suffix == ".svg" else None
            figure.savefig(path, dpi=120, metadata=dated)
    except (OSError, ValueError) as error:
        raise PosformerError(f"{path}: {error}") from error


def _points(reliability: Reliability) -> tuple[list[float], list[float], np.ndarray]:
    """Bins that hold enough readings: confidence, accuracy, and (2, bins) its 95 % interval."""
    used = [place for place, count in enumerate(reliability.counts) if count >= _TOO_FEW]
    means = [reliability.confidence[place] for place in used]
    rates = [reliability.accuracy[place] for place in used]
    counts = [reliability.counts[place] for place in used]
    around = [
        np.array(wilson_interval(round(rate * count), count)) / 100
        for rate, count in zip(rates, counts, strict=True)
    ]
    spans = [(rate - low, high - rate) for rate, (low, high) in zip(rates, around, strict=True)]
    return means, rates, np.maximum(np.array(spans).reshape(-1, 2).T, 0)


def _mean(values: np.ndarray) -> float:
    return float(values.mean()) if len(values) else float("nan")
