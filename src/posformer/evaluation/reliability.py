"""Calibration of a model's confidence, and how reliable it is on validation data."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from posformer.evaluation.metrics import edit_distances, wilson_interval
from posformer.evaluation.predict import EvaluationSet, decode_each, decode_set
from posformer.evaluation.score_table import format_markdown
from posformer.runtime import Calibration, Runtime, Thresholds, confidences, fit_calibration
from posformer.runtime.calibration import Reliability, cross_validate, measure_reliability
from posformer.runtime.decoding import decode_at_all_scales
from posformer.runtime.thresholds import choose_margin, choose_readable
from posformer.search import DecodingOptions, Hypothesis, Scores, adaptive_result

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
        before, after = (
            measure_reliability(one, self.correct) for one in (self.before, self.after)
        )
        return before, after


def read_best(
    runtime: Runtime, examples: EvaluationSet, options: DecodingOptions, data: str = ""
) -> tuple[list[tuple[Hypothesis, bool]], Thresholds]:
    """Decode validation data and choose the thresholds of the model.

    Args:
        runtime: The model.
        examples: Validation data.
        options: The options of full search.
        data: Description of the data, stored with the thresholds.

    Returns:
        The best hypothesis for each image and whether it is correct, found by adaptive search with
        these thresholds if options and model permit it, and the thresholds.
    """

    def is_correct(sequences: Sequence[tuple[int, ...]]) -> NDArray[np.bool_]:
        found = (tuple(runtime.vocabulary.decode(one)) for one in sequences)
        return np.array([a == b for a, b in zip(found, examples.captions, strict=True)])

    full = replace(options, adaptive=False)
    best = [found[0] for (found,) in decode_set(runtime, examples, full)]
    margin = None
    if options.resolve(runtime.config.decoder.directions).adaptive:

        def decode(indices: Sequence[int]) -> list[Scores]:
            images = [examples.image(index) for index in indices]
            return decode_at_all_scales(runtime, images, options)

        scores = list(decode_each(examples, decode))
        margin = choose_margin(scores, is_correct, is_correct([one.tokens for one in best]))
        if margin is not None:
            best = [adaptive_result(one, margin, options)[0] for one in scores]
    lengths = np.array([max(len(caption), 1) for caption in examples.captions])
    found = [runtime.vocabulary.decode(one.tokens) for one in best]
    error_rates = edit_distances(examples.captions, found) / lengths
    thresholds = Thresholds(choose_readable(best, error_rates), margin, data)
    correct = is_correct([one.tokens for one in best]).tolist()
    return list(zip(best, correct, strict=True)), thresholds


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


def describe_thresholds(thresholds: Thresholds) -> str:
    """Return the thresholds as text, a line each."""
    readable, margin = thresholds.readable, thresholds.margin
    return "\n".join(
        (
            "not readable below a mean token probability of "
            + ("–" if readable is None else f"{readable:.2f}"),
            "adaptive search is off: it loses results"
            if margin is None
            else f"certain where no other hypothesis is within a factor of {np.exp(margin):.2f}",
        )
    )


def markdown_reliability(trial: CalibrationTrial) -> str:
    """Return the reliability curve and the effect of thresholds as Markdown tables."""
    before, after = trial.reliability
    bins = []
    for place, count in enumerate(after.counts):
        low, high = after.bounds[place : place + 2]
        means = (after.confidence[place], after.accuracy[place])
        cells = (f"{mean:.2f}" if count else "" for mean in means)
        bins.append((f"{low:.1f}–{high:.1f}", str(count), *cells))
    thresholds = []
    for threshold in _THRESHOLDS:
        unsure = trial.after < threshold
        shares = (unsure.mean(), _mean(trial.correct[~unsure]), _mean(unsure[~trial.correct]))
        cells = ("–" if np.isnan(share) else f"{100 * share:.0f} %" for share in shares)
        thresholds.append((str(threshold), *cells))
    unsure_header = ("unsure below", "unsure", "accuracy of the others", "errors caught")
    blocks = [
        f"{len(trial.correct)} predictions, {100 * trial.correct.mean():.1f} % correct; expected "
        f"calibration error {before.error:.3f} before, {after.error:.3f} after (cross-validated)",
        format_markdown(("confidence", "predictions", "mean confidence", "accuracy"), bins),
        format_markdown(unsure_header, thresholds),
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
    before, after = trial.reliability
    for reliability, confidence, name, marker, color in (
        (before, trial.before, "mean token probability", "s", COLORS[1]),
        (after, trial.after, "calibrated", "o", COLORS[0]),
    ):
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


def _points(reliability: Reliability) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return mean confidence and accuracy of the larger bins, and error bars (2, bins)."""
    counts = np.array(reliability.counts)
    used = counts >= _MIN_COUNT
    rates = np.array(reliability.accuracy)[used]
    bins = zip(rates, counts[used], strict=True)
    spans = [wilson_interval(round(rate * count), count) for rate, count in bins]
    lows, highs = np.array(spans).reshape(-1, 2).T / 100
    errors = np.maximum([rates - lows, highs - rates], 0)
    return np.array(reliability.confidence)[used], rates, errors


def _mean(values: np.ndarray) -> float:
    return float(values.mean()) if len(values) else float("nan")
