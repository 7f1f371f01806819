"""The report of an evaluation: one self-contained HTML page. Needs the extra `report`."""

import base64
import os
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import cv2
import numpy as np
from markupsafe import Markup

from posformer.atomic import atomic_write
from posformer.evaluation import plots
from posformer.evaluation.error_kinds import analyze_error, count_errors
from posformer.evaluation.kind_scores import score
from posformer.evaluation.metrics import Scores, edit_distances
from posformer.evaluation.paired import Comparison
from posformer.evaluation.predictions import Prediction, write_predictions
from posformer.evaluation.score_table import HEADER, paper_remarks, range_text, table_rows
from posformer.evaluation.significance import Intervals, bootstrap_intervals
from posformer.evaluation.symbol_scores import Confusion, count_confusions, score_symbols
from posformer.latex import encode_forest, is_structure
from posformer.runtime.calibration import measure_reliability
from posformer.templating import render_template

FindImage = Callable[[str], np.ndarray | None]
"""Returns the image of a name, uint8 (height, width), white ink on black, or None."""

_CONFUSIONS_SHOWN = 12
_MATRIX_SIZE = 14
_MAX_IMAGE_WIDTH = 1200  # pixels; wider images are shrunk
_DISTANCES = {"0": 0, "1": 1, "2": 2, "3": 3, "4–5": 4, "6–10": 6, "11–20": 11, "21+": 21}
_THRESHOLDS = (0.0, 0.5, 0.8, 0.9, 0.95, 0.99)
_Chart = tuple[str, Markup, str]  # title, plot, note
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
    scores = score(predictions)
    find = find_image or (lambda name: None)
    wrong = [one for one in predictions if not one.is_correct]
    wrong.sort(key=lambda one: -(one.confidence or 0.0))
    cards = [_card(one, find(one.name)) for one in wrong[: options.most_errors]]
    kinds = Counter(kind for card in cards for kind in card["error"].kinds)
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
        stacked_bar=plots.stacked_bar,
        symbols=score_symbols(predictions),
        confusions=_confusions(predictions),
        reliability=_reliability(predictions),
        cards=cards,
        wrong=len(wrong),
        error_kinds=_ERROR_KINDS,
        filters=[(kind, name, kinds[kind]) for kind, name in _ERROR_KINDS.items() if kinds[kind]],
    )


def _distances(found: Sequence[Prediction]) -> np.ndarray:
    return edit_distances([one.truth for one in found], [one.prediction for one in found])


def _model(
    predictions: Sequence[Prediction], scores: Scores, name: str
) -> tuple[tuple[str, ...], Intervals]:
    """Return a model's row in the table of metrics, and the intervals of its cells."""
    lengths = [len(one.truth) for one in predictions]
    intervals = bootstrap_intervals(_distances(predictions), lengths)
    return table_rows(scores, model=name)[0], intervals


def _comparison(comparison: Comparison, options: ReportOptions, find: FindImage) -> dict[str, Any]:
    names, sides = (options.model, options.other), (comparison.own, comparison.others)
    scores = [score(side) for side in sides]
    changed = []
    wrong = ((comparison.others, comparison.gained), (comparison.own, comparison.lost))
    for name, (side, places) in zip(names, wrong, strict=True):
        shown = [side[place] for place in places[: options.most_errors]]
        changed.append((name, len(places), [_card(one, find(one.name)) for one in shown]))
    return {
        "result": comparison,
        "models": [_model(*one) for one in zip(sides, scores, names, strict=True)],
        "plots": _bin_charts(list(zip(names, scores, strict=True))),
        "changed": changed,
    }


def _bin_charts(models: Sequence[tuple[str, Scores]]) -> list[_Chart]:
    """Return charts of ExpRate by nested level and by length, for models on the same data."""
    note = "Below each label: number of expressions. Error bars: 95 % Wilson intervals."
    charts = []
    for title, xlabel, field in (
        ("ExpRate by nested level", "nested level of the ground truth", "by_level"),
        ("ExpRate by length", "tokens in the ground truth", "by_length"),
    ):
        found = [(name, getattr(scores, field)) for name, scores in models]
        counts = {range_text(one): one.count for one in found[0][1]}
        percents = [(name, [one.exprate for one in bins]) for name, bins in found]
        svg = plots.bar_chart(counts, percents, xlabel, "ExpRate (%)", intervals=True)
        charts.append((title, svg, note))
    return charts


def _distance_chart(predictions: Sequence[Prediction]) -> _Chart:
    bounds = [*_DISTANCES.values(), np.inf]
    counts = np.histogram(_distances(predictions), bounds)[0].tolist()
    percents = [100 * count / len(predictions) for count in counts]
    bars, series = dict(zip(_DISTANCES, counts, strict=True)), [("", percents)]
    svg = plots.bar_chart(bars, series, "token edits", "expressions (%)", intervals=False)
    note = "Below each label: number of expressions. Edits: insertions, deletions, replacements."
    return "Edit distance", svg, note


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
    truths, guesses = dict[str, None](), dict[str, None]()
    for one in replaced:
        more = {**truths, str(one.truth): None}, {**guesses, str(one.prediction): None}
        if max(map(len, more)) <= _MATRIX_SIZE:
            truths, guesses = more
    times = {(one.truth, one.prediction): one.count for one in replaced}
    counts = [[times.get((truth, guess), 0) for guess in guesses] for truth in truths]
    others = sum(times.values()) - sum(map(sum, counts))
    return {"svg": plots.confusion_matrix([*truths], [*guesses], counts), "others": others}


def _reliability(predictions: Sequence[Prediction]) -> dict[str, Any] | None:
    known = [one for one in predictions if one.confidence is not None]
    if not known:
        return None
    confidence = np.array([one.confidence for one in known])
    correct = np.array([one.is_correct for one in known])
    curve = measure_reliability(confidence, correct)
    thresholds = []
    for limit in _THRESHOLDS:
        kept = correct[confidence >= limit]
        rate = 100 * float(kept.mean()) if len(kept) else None
        thresholds.append((limit, len(kept), 100 * len(kept) / len(known), rate))
    return {
        "svg": plots.reliability_plot(curve),
        "error": curve.error,
        "count": len(known),
        "thresholds": thresholds,
    }


def _card(one: Prediction, image: np.ndarray | None) -> dict[str, Any]:
    """Return the values of a wrong prediction's card."""
    pairs = one.pairs
    tokens = [[token for token in (pair.truth, pair.prediction) if token] for pair in pairs]
    inkless = [all(map(is_structure, both)) for both in tokens]
    return {
        "prediction": one,
        "error": analyze_error(one.truth, one.prediction),
        "edits": sum(pair.kind != "same" for pair in pairs),
        "level": encode_forest(one.truth, lenient=True).complexity,
        "image": None if image is None else _embedded(image),
        "pairs": list(zip(pairs, inkless, strict=True)),
    }


def _embedded(image: np.ndarray) -> dict[str, Any]:
    """Return a data URI of an image, black ink on white, and its size."""
    height, width = image.shape
    if width > _MAX_IMAGE_WIDTH:
        width, height = _MAX_IMAGE_WIDTH, max(1, height * _MAX_IMAGE_WIDTH // width)
        image = cv2.resize(image, (width, height), interpolation=cv2.INTER_AREA)
    _, png = cv2.imencode(".png", 255 - image)
    data = base64.b64encode(png.tobytes()).decode("ascii")
    return {"uri": Markup(f"data:image/png;base64,{data}"), "width": width, "height": height}
