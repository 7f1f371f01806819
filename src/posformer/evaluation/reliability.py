"""Calibration of a model's confidence, and how reliable it is on validation data."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from posformer.evaluation.metrics import wilson_interval
from posformer.evaluation.predict import EvaluationSet, decode_set
from posformer.evaluation.score_table import format_markdown
from posformer.runtime import Calibration, Runtime, confidences, fit_calibration
from posformer.runtime.calibration import Reliability, cross_validate, measure_reliability
from posformer.search import DecodingOptions, Hypothesis

_THRESHOLDS = (0.3, 0.5, 0.7, 0.9)
_MIN_COUNT = 5  # a bin with fewer predictions is not plotted


@dataclass(frozen=True)
class CalibrationTrial:
    """A calibration, with the confidence of each prediction before and after it."""

    calibration: Calibration  # fitted on all predictions
    correct: np.ndarray  # bool (predictions,), whether every token is correct
    before: np.ndarray  # float64 (predictions,), the mean token probability
    after: np.ndarray  # float64 (predictions,), cross-validated calibrated confidence

    @property
    def reliability(self) -> tuple[Reliability, Reliability]:
        """Return the reliability curves before and after calibration."""
        return (
            measure_reliability(self.before, self.correct),
            measure_reliability(self.after, self.correct),
        )


def read_best(
    runtime: Runtime, examples: EvaluationSet, options: DecodingOptions
) -> Iterator[tuple[Hypothesis, bool]]:
    """Yield the best hypothesis for each image and whether it is correct."""
    decoded = decode_set(runtime, examples, options)
    for caption, (best, *_) in zip(examples.captions, decoded, strict=True):
        yield best, tuple(runtime.vocabulary.decode(best.tokens)) == caption


def try_calibration(predictions: list[tuple[Hypothesis, bool]], data: str) -> CalibrationTrial:
    """Fit a calibration, and cross-validate it on the same predictions.

    Args:
        predictions: Hypotheses and whether they are correct, from `read_best`.
        data: Description of the data, stored with the calibration.
    """
    hypotheses = [hypothesis for hypothesis, _ in predictions]
    correct = np.array([is_correct for _, is_correct in predictions])
    calibration = fit_calibration(hypotheses, correct, data)
    before = np.array([confidences([one], None)[0] for one in hypotheses])
    return CalibrationTrial(calibration, correct, before, cross_validate(hypotheses, correct))


def markdown_reliability(trial: CalibrationTrial) -> str:
    """Return the reliability curve and the effect of thresholds as Markdown tables."""
    before, after = trial.reliability
    bins = [
        (
            f"{after.bounds[place]:.1f}–{after.bounds[place + 1]:.1f}",
            str(count),
            f"{after.confidence[place]:.2f}" if count else "",
            f"{after.accuracy[place]:.2f}" if count else "",
        )
        for place, count in enumerate(after.counts)
    ]
    thresholds = []
    for threshold in _THRESHOLDS:
        unsure = trial.after < threshold
        shares = (unsure.mean(), _mean(trial.correct[~unsure]), _mean(unsure[~trial.correct]))
        cells = ("–" if np.isnan(share) else f"{100 * share:.0f} %" for share in shares)
        thresholds.append((str(threshold), *cells))
    blocks = [
        f"{len(trial.correct)} predictions, {100 * trial.correct.mean():.1f} % correct; expected "
        f"calibration error {before.error:.3f} before, {after.error:.3f} after (cross-validated)",
        format_markdown(("confidence", "predictions", "mean confidence", "accuracy"), bins),
        format_markdown(
            ("unsure below", "unsure", "accuracy of the others", "errors caught"), thresholds
        ),
    ]
    return "\n\n".join(blocks)


def draw_reliability(trial: CalibrationTrial, path: Path) -> None:
    """Plot the reliability curves before and after calibration.

    Args:
        trial: The calibration.
        path: Output file; its extension selects the format.

    Raises:
        PosformerError: If the file cannot be written.
    """
    from matplotlib.figure import Figure

    from posformer.plotting import COLORS, save_figure

    figure = Figure(figsize=(5.2, 5.4), layout="constrained")
    curves, counts = figure.subplots(2, 1, height_ratios=(4, 1), sharex=True)
    curves.plot((0, 1), (0, 1), "--", color="0.6", linewidth=1, label="perfect calibration")
    curves_of = zip(
        trial.reliability,
        (trial.before, trial.after),
        ("mean token probability", "calibrated"),
        ("s", "o"),
        (COLORS[1], COLORS[0]),
        strict=True,
    )
    for reliability, confidence, name, marker, color in curves_of:
        means, rates, errors = _points(reliability)
        label = f"{name} (ECE {reliability.error:.3f})"
        curves.errorbar(means, rates, errors, marker=marker, capsize=3, color=color, label=label)
        counts.hist(confidence, bins=reliability.bounds, histtype="step", color=color)
    curves.set(ylabel="accuracy (95 % interval)", ylim=(-0.02, 1.02), xlim=(0, 1))
    curves.legend(loc="upper left", frameon=False)
    counts.set(xlabel="confidence", ylabel="predictions")
    for axes in (curves, counts):
        axes.spines[["top", "right"]].set_visible(False)
        axes.grid(color="0.92")
        axes.set_axisbelow(True)
    save_figure(figure, path)


def _points(reliability: Reliability) -> tuple[list[float], list[float], np.ndarray]:
    """Return mean confidence and accuracy of the larger bins, and error bars (2, bins)."""
    bins = zip(reliability.confidence, reliability.accuracy, reliability.counts, strict=True)
    used = [one for one in bins if one[2] >= _MIN_COUNT]
    spans = []
    for _, rate, count in used:
        low, high = wilson_interval(round(rate * count), count)
        spans.append((rate - low / 100, high / 100 - rate))
    errors = np.maximum(np.array(spans).reshape(-1, 2).T, 0)
    return [mean for mean, *_ in used], [rate for _, rate, _ in used], errors


def _mean(values: np.ndarray) -> float:
    return float(values.mean()) if len(values) else float("nan")
