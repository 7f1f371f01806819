"""Calibration of a model's confidence, and how reliable it is on validation data."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from posformer.evaluation.conventions import comparable
from posformer.evaluation.metrics import edit_distances, wilson_interval
from posformer.evaluation.predict import EvaluationSet, decode_each, decode_set
from posformer.evaluation.score_table import format_markdown
from posformer.models.model_folder import ModelFolder
from posformer.runtime import Calibration, Runtime, Thresholds, confidences, fit_calibration
from posformer.runtime.calibration import (
    DEFAULT_KIND,
    Reliability,
    cross_validate,
    measure_reliability,
    save_calibration,
)
from posformer.runtime.decoding import decode_at_all_scales
from posformer.runtime.language_prior import LanguageWeight, prior_of
from posformer.runtime.thresholds import choose_margin, choose_readable
from posformer.search import DecodingOptions, Hypothesis, Scores, adaptive_result

_THRESHOLDS = (0.3, 0.5, 0.7, 0.9)
_MIN_CALIBRATED = 30  # a kind of input with fewer images has no calibration of its own
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


class Graded(NamedTuple):
    """The best hypothesis for an image, compared with the truth."""

    hypothesis: Hypothesis
    correct: bool
    error_rate: float  # edit distance to the caption, divided by its length
    source: str  # of a photograph


def read_best(
    runtime: Runtime, examples: EvaluationSet, options: DecodingOptions, data: str = ""
) -> tuple[list[Graded], Thresholds]:
    """Decode validation data and choose the thresholds of the model.

    Args:
        runtime: The model.
        examples: Validation data.
        options: The options of full search.
        data: Description of the data, stored with the thresholds.

    Returns:
        The best hypothesis for each image, found by adaptive search with these thresholds if
        options and model permit it, and the thresholds.
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
            prior = prior_of(runtime, options)
            best = [adaptive_result(one, margin, options, prior)[0] for one in scores]
    graded = _grade(runtime, examples, best)
    return graded, Thresholds(readable_from(graded), margin, data)


def read_images(
    runtime: Runtime, examples: EvaluationSet, options: DecodingOptions
) -> dict[str, list[Graded]]:
    """Decode labeled photographs and return the best hypotheses by kind of input.

    Args:
        runtime: The model, with its thresholds.
        examples: Validation data.
        options: The options of full search.
    """
    best = [found[0] for (found,) in decode_set(runtime, examples, options)]
    by_kind: dict[str, list[Graded]] = {}
    for index, graded in enumerate(_grade(runtime, examples, best)):
        by_kind.setdefault(examples.input_kind(index), []).append(graded)
    return by_kind


def calibrate(
    runtime: Runtime,
    ink: EvaluationSet,
    photographs: Sequence[EvaluationSet],
    options: DecodingOptions,
    sources: Mapping[str, str],
) -> tuple[dict[str, CalibrationTrial], Thresholds]:
    """Choose the thresholds of a model and calibrate it for each kind of input.

    Args:
        runtime: The model; it gets the threshold of adaptive search that is found.
        ink: Validation data in ink.
        photographs: Labeled images; each is of the kind that `input_kind` says.
        options: The options of full search.
        sources: Descriptions of the `ink` and the `images`, stored with the calibrations.

    Returns:
        A calibration for each kind of input with enough examples, and the thresholds.
    """
    graded, thresholds = read_best(runtime, ink, options, sources["ink"])
    runtime.info["thresholds"] = thresholds.to_dict()
    by_kind = {DEFAULT_KIND: graded}
    for examples in photographs:
        for kind, members in read_images(runtime, examples, options).items():
            by_kind.setdefault(kind, []).extend(members)
    everything = [one for members in by_kind.values() for one in members]
    if photographs:
        data = f"{sources['ink']}; {sources['images']}"
        thresholds = replace(thresholds, readable=readable_from(everything), data=data)
    trials = {}
    for kind in sorted(by_kind, key=lambda kind: kind != DEFAULT_KIND):
        members = by_kind[kind]
        if kind == DEFAULT_KIND or len(members) >= _MIN_CALIBRATED:
            source = sources["ink" if kind == DEFAULT_KIND else "images"]
            trials[kind] = try_calibration(members, source)
    return trials, thresholds


def store_calibrations(
    model: Path,
    trials: Mapping[str, CalibrationTrial],
    thresholds: Thresholds,
    language: LanguageWeight | None = None,
) -> ModelFolder:
    """Store calibrations, thresholds and the weight of the language model in a model folder."""
    fitted = {kind: trial.calibration for kind, trial in trials.items()}
    ink = fitted.pop(DEFAULT_KIND)
    entries = {"thresholds": thresholds.to_dict()}
    if language is not None:
        entries["language"] = asdict(language)
    return save_calibration(model, ink, fitted, **entries)


def readable_from(graded: Sequence[Graded]) -> float | None:
    """Return the threshold below which a result is not readable, see `choose_readable`."""
    error_rates = [one.error_rate for one in graded]
    return choose_readable([one.hypothesis for one in graded], error_rates)


def _grade(runtime: Runtime, examples: EvaluationSet, best: Sequence[Hypothesis]) -> list[Graded]:
    """Compare the best hypothesis for each image with its caption."""
    found = [tuple(runtime.vocabulary.decode(one.tokens)) for one in best]
    if examples.photographs is not None:
        found = [comparable(tokens) for tokens in found]
    distances = edit_distances(examples.captions, found).tolist()
    graded = []
    for index, (hypothesis, distance) in enumerate(zip(best, distances, strict=True)):
        length = max(len(examples.captions[index]), 1)
        source = "" if examples.photographs is None else examples.photographs[index].source
        graded.append(Graded(hypothesis, distance == 0, distance / length, source))
    return graded


def try_calibration(predictions: Sequence[Graded], data: str) -> CalibrationTrial:
    """Fit a calibration, and cross-validate it on the same predictions.

    Photographs of one source are in one fold: a calibration has to hold for sources it has not
    seen.

    Args:
        predictions: From `read_best` or `read_images`.
        data: Description of the data, stored with the calibration.
    """
    hypotheses = [one.hypothesis for one in predictions]
    correct = np.array([one.correct for one in predictions])
    calibration = fit_calibration(hypotheses, correct, data)
    before = np.array([confidences([one], None)[0] for one in hypotheses])
    sources = [one.source for one in predictions]
    groups = sources if len(set(sources)) > 1 else None
    after = cross_validate(hypotheses, correct, groups=groups)
    return CalibrationTrial(calibration, correct, before, after)


def describe_thresholds(thresholds: Thresholds) -> str:
    """Return the thresholds as text, a line each."""
    readable, margin = thresholds.readable, thresholds.margin
    return "\n".join(
        (
            "not readable below a mean token probability of "
            + ("–" if readable is None else f"{readable:.2f}"),
            "adaptive search is off: it loses more than one in a hundred images"
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


def draw_reliability(trials: Mapping[str, CalibrationTrial], path: Path) -> None:
    """Plot the reliability curves before and after calibration.

    Args:
        trials: The calibrations by kind of input, side by side.
        path: Output file; its extension selects the format.

    Raises:
        PosformerError: If the file cannot be written.
    """
    from matplotlib.figure import Figure

    from posformer.plotting import COLORS, save_figure

    figure = Figure(figsize=(1.2 + 4 * len(trials), 5.4), layout="constrained")
    panels = figure.subplots(
        2, len(trials), height_ratios=(4, 1), sharex=True, sharey="row", squeeze=False
    )
    for (curves, counts), (kind, trial) in zip(panels.T, trials.items(), strict=True):
        curves.plot((0, 1), (0, 1), "--", color="0.6", linewidth=1, label="perfect calibration")
        before, after = trial.reliability
        for reliability, confidence, name, marker, color in (
            (before, trial.before, "mean token probability", "s", COLORS[1]),
            (after, trial.after, "calibrated", "o", COLORS[0]),
        ):
            means, rates, errors = _points(reliability)
            label = f"{name} (ECE {reliability.error:.3f})"
            curves.errorbar(
                means, rates, errors, marker=marker, capsize=3, color=color, label=label
            )
            counts.hist(confidence, bins=reliability.bounds, histtype="step", color=color)
        curves.set(ylim=(-0.02, 1.02), xlim=(0, 1), title=f"{kind} ({len(trial.correct)})")
        curves.legend(loc="upper left", frameon=False)
        counts.set(xlabel="confidence")
        for axes in (curves, counts):
            axes.spines[["top", "right"]].set_visible(False)
            axes.grid(color="0.92")
            axes.set_axisbelow(True)
    panels[0, 0].set_ylabel("accuracy (95 % interval)")
    panels[1, 0].set_ylabel("predictions")
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
