"""The report of an evaluation: one self-contained HTML page. Needs the extra `report`."""

import base64
import os
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import cv2
import numpy as np
from markupsafe import Markup

from posformer.atomic import atomic_write
from posformer.evaluation.error_kinds import ErrorAnalysis, analyze_error, count_errors
from posformer.evaluation.metrics import Scores, edit_distances, evaluate_pairs, wilson_interval
from posformer.evaluation.paired import Comparison
from posformer.evaluation.plots import (
    BarSeries,
    bar_chart,
    confusion_matrix,
    reliability_plot,
    stacked_bar,
)
from posformer.evaluation.predictions import Prediction, write_predictions
from posformer.evaluation.score_table import HEADER, paper_remarks, range_text, table_rows
from posformer.evaluation.significance import Intervals, bootstrap_intervals
from posformer.evaluation.symbol_scores import Confusion, count_confusions, score_symbols
from posformer.evaluation.token_alignment import Pair, align
from posformer.latex import encode_forest, is_structure
from posformer.runtime.calibration import Reliability, measure_reliability
from posformer.templating import render_template

FindImage = Callable[[str], np.ndarray | None]
"""Returns the image of a name, uint8 (height, width), white ink on black, or None."""

_CONFUSIONS_SHOWN = 12
_MATRIX_SIZE = 14
_MAX_IMAGE_WIDTH = 1200  # pixels; wider images are shrunk
_DISTANCE_BINS = ((0, 0), (1, 1), (2, 2), (3, 3), (4, 5), (6, 10), (11, 20), (21, 10**9))
_THRESHOLDS = (0.0, 0.5, 0.8, 0.9, 0.95, 0.99)
_ERROR_KINDS = {
    "symbols": "symbols only",
    "structure": "structure only",
    "both": "symbols and structure",
    "over": "over-parsing",
    "under": "under-parsing",
    "malformed": "not well-formed",
}


@dataclass(frozen=True)
class ReportOptions:
    """Titles of a report, and how much it shows."""

    title: str = "Evaluation"
    split: str | None = None
    """The benchmark, such as `2014`, whose results in the paper are added."""
    model: str = "this model"
    """Name of the model."""
    other: str = "the other model"
    """Name of the model it is compared with."""
    used_ink: bool = False
    """Whether the model was trained on the ink of the training set, unlike the paper's."""
    most_errors: int = 200
    """Maximum number of errors shown, in each list of errors."""


def write_report(
    folder: str | os.PathLike[str],
    predictions: Sequence[Prediction],
    find_image: FindImage | None = None,
    comparison: Comparison | None = None,
    options: ReportOptions | None = None,
) -> Path:
    """Write `index.html` and `predictions.jsonl`.

    Args:
        folder: Output folder; created if missing.
        predictions: The predictions to report.
        find_image: Returns the image of an expression. Without it errors have no images.
        comparison: Comparison with another model; see `compare`.
        options: Titles and limits.

    Returns:
        The path of the page. Equal arguments give equal files.

    Raises:
        DataError: If there are no predictions.
    """
    page = report_page(predictions, find_image, comparison, options)
    path = Path(folder) / "index.html"
    atomic_write(path, page)
    write_predictions(path.with_name("predictions.jsonl"), predictions)
    return path


def report_page(
    predictions: Sequence[Prediction],
    find_image: FindImage | None = None,
    comparison: Comparison | None = None,
    options: ReportOptions | None = None,
) -> str:
    """Return the page as text; arguments and errors as for `write_report`."""
    options = options or ReportOptions()
    scores = _scores(predictions)
    find = find_image or (lambda name: None)
    wrong = [one for one in predictions if not one.is_correct]
    wrong.sort(key=lambda one: -(one.confidence or 0.0))
    cards = [_card(one, find) for one in wrong[: options.most_errors]]
    return render_template(
        __package__,
        "report.html.j2",
        options=options,
        scores=scores,
        header=HEADER,
        models=[_model(predictions, scores, options.model)],
        paper=table_rows(scores, options.split)[1:],
        remarks=paper_remarks(options.split, used_ink=options.used_ink),
        comparison=comparison and _comparison(comparison, options, find),
        plots=[*_bin_charts([(options.model, scores)]), _distance_chart(predictions)],
        errors=count_errors(predictions),
        stacked_bar=stacked_bar,
        symbols=score_symbols(predictions),
        confusions=_confusions(predictions),
        reliability=_reliability(predictions),
        cards=cards,
        wrong=len(wrong),
        filters=_filters(cards),
    )


def _scores(predictions: Sequence[Prediction]) -> Scores:
    return evaluate_pairs(
        [one.truth for one in predictions], [one.prediction for one in predictions]
    )


def _distances(predictions: Sequence[Prediction]) -> np.ndarray:
    truths, guesses = [one.truth for one in predictions], [one.prediction for one in predictions]
    return edit_distances(truths, guesses)


def _model(predictions: Sequence[Prediction], scores: Scores, name: str) -> dict[str, Any]:
    """Return the values of a model's row in the table of metrics."""
    lengths = [len(one.truth) for one in predictions]
    intervals: Intervals = bootstrap_intervals(_distances(predictions), lengths)
    return {"cells": table_rows(scores, model=name)[0], "intervals": asdict(intervals)}


def _comparison(comparison: Comparison, options: ReportOptions, find: FindImage) -> dict[str, Any]:
    names, sides = (options.model, options.other), (comparison.own, comparison.others)
    scores = [_scores(side) for side in sides]
    wrong = (
        [comparison.others[place] for place in comparison.gained],
        [comparison.own[place] for place in comparison.lost],
    )
    return {
        "result": comparison,
        "models": [_model(*one) for one in zip(sides, scores, names, strict=True)],
        "plots": _bin_charts(list(zip(names, scores, strict=True))),
        "changed": [
            {
                "model": name,
                "count": len(predictions),
                "cards": [_card(one, find) for one in predictions[: options.most_errors]],
            }
            for name, predictions in zip(names, wrong, strict=True)
        ],
    }


def _bin_charts(models: Sequence[tuple[str, Scores]]) -> list[dict[str, Any]]:
    """Return charts of ExpRate by nested level and by length, for models on the same data."""
    note = "Below each label: number of expressions. Error bars: 95 % Wilson intervals."
    charts = []
    for title, xlabel, field in (
        ("ExpRate by nested level", "nested level of the ground truth", "by_level"),
        ("ExpRate by length", "tokens in the ground truth", "by_length"),
    ):
        series = [
            BarSeries(
                name,
                [one.exprate for one in getattr(scores, field)],
                [
                    wilson_interval(round(one.exprate * one.count / 100), one.count)
                    for one in getattr(scores, field)
                ],
            )
            for name, scores in models
        ]
        bins = getattr(models[0][1], field)
        labels, counts = [range_text(one) for one in bins], [one.count for one in bins]
        svg = bar_chart(labels, counts, series, xlabel, "ExpRate (%)")
        charts.append({"title": title, "svg": svg, "note": note})
    return charts


def _distance_chart(predictions: Sequence[Prediction]) -> dict[str, Any]:
    distances = _distances(predictions)
    counts = [int(((low <= distances) & (distances <= high)).sum()) for low, high in _DISTANCE_BINS]
    labels = ["0", "1", "2", "3", "4–5", "6–10", "11–20", "21+"]
    series = BarSeries("", [100 * count / len(distances) for count in counts])
    svg = bar_chart(labels, counts, [series], "token edits", "expressions (%)")
    note = "Below each label: number of expressions. Edits: insertions, deletions, replacements."
    return {"title": "Edit distance", "svg": svg, "note": note}


def _confusions(predictions: Sequence[Prediction]) -> dict[str, Any]:
    found = count_confusions(predictions)
    replaced = [one for one in found if one.truth and one.prediction]
    return {
        "top": found[:_CONFUSIONS_SHOWN],
        "others": sum(one.count for one in found[_CONFUSIONS_SHOWN:]),
        "matrix": _confusion_matrix(replaced) if replaced else None,
    }


def _confusion_matrix(replaced: Sequence[Confusion]) -> dict[str, Any]:
    """Return the matrix of the most frequent confusions, and the number of all others."""
    truths: list[str] = []
    guesses: list[str] = []
    for one in replaced:
        truth, guess = str(one.truth), str(one.prediction)
        if all(
            token in tokens or len(tokens) < _MATRIX_SIZE
            for token, tokens in ((truth, truths), (guess, guesses))
        ):
            truths += [truth] * (truth not in truths)
            guesses += [guess] * (guess not in guesses)
    times = {(one.truth, one.prediction): one.count for one in replaced}
    counts = [[times.get((truth, guess), 0) for guess in guesses] for truth in truths]
    others = sum(times.values()) - sum(map(sum, counts))
    return {"svg": confusion_matrix(truths, guesses, counts), "others": others}


def _reliability(predictions: Sequence[Prediction]) -> dict[str, Any] | None:
    known = [one for one in predictions if one.confidence is not None]
    if not known:
        return None
    confidence = np.array([one.confidence for one in known])
    correct = np.array([one.is_correct for one in known])
    curve: Reliability = measure_reliability(confidence, correct)
    thresholds = []
    for limit in _THRESHOLDS:
        kept = correct[confidence >= limit]
        rate = 100 * float(kept.mean()) if len(kept) else None
        thresholds.append((limit, len(kept), 100 * len(kept) / len(known), rate))
    return {
        "svg": reliability_plot(curve.confidence, curve.accuracy, curve.counts),
        "error": curve.error,
        "count": len(known),
        "thresholds": thresholds,
    }


def _card(one: Prediction, find: FindImage) -> dict[str, Any]:
    """Return the values of a wrong prediction's card."""
    error = analyze_error(one.truth, one.prediction)
    assert error is not None, "only wrong predictions have cards"
    pairs, image = align(one.truth, one.prediction), find(one.name)
    return {
        "name": one.name,
        "kinds": _kinds(error),
        "facts": _facts(one, error, pairs),
        "well_formed": error.well_formed,
        "image": None if image is None else _embedded(image),
        "pairs": [(pair, _is_inkless(pair)) for pair in pairs],
    }


def _kinds(error: ErrorAnalysis) -> list[str]:
    return [error.kind, error.parsing, *([] if error.well_formed else ["malformed"])]


def _facts(one: Prediction, error: ErrorAnalysis, pairs: Sequence[Pair]) -> list[str]:
    edits = sum(pair.kind != "same" for pair in pairs)
    facts = [
        f"{edits} edit{'s' if edits > 1 else ''}, {len(one.truth)} tokens",
        f"level {encode_forest(one.truth, lenient=True).complexity}",
        _ERROR_KINDS[error.kind],
    ]
    if error.surplus:
        facts.append(f"{error.surplus:+d} symbol{'s' if abs(error.surplus) > 1 else ''}")
    if one.confidence is not None:
        facts.append(f"confidence {one.confidence:.2f}")
    return facts


def _is_inkless(pair: Pair) -> bool:
    return all(token is None or is_structure(token) for token in (pair.truth, pair.prediction))


def _embedded(image: np.ndarray) -> dict[str, Any]:
    """Return a data URI of an image, black ink on white, and its size."""
    height, width = image.shape
    if width > _MAX_IMAGE_WIDTH:
        width, height = _MAX_IMAGE_WIDTH, max(1, height * _MAX_IMAGE_WIDTH // width)
        image = cv2.resize(image, (width, height), interpolation=cv2.INTER_AREA)
    _, png = cv2.imencode(".png", 255 - image)
    data = base64.b64encode(png.tobytes()).decode("ascii")
    return {"uri": Markup(f"data:image/png;base64,{data}"), "width": width, "height": height}


def _filters(cards: Sequence[dict[str, Any]]) -> list[tuple[str, str, int]]:
    """Return class, label and number of cards of each kind of error that occurs."""
    counts = {kind: sum(kind in card["kinds"] for card in cards) for kind in _ERROR_KINDS}
    return [(kind, _ERROR_KINDS[kind], count) for kind, count in counts.items() if count]
