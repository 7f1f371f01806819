"""The report of an evaluation: one HTML page that needs nothing beside itself."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

from posformer.atomic import atomic_write
from posformer.evaluation.markup import Markup, element, joined
from posformer.evaluation.metrics import Scores, evaluate_pairs
from posformer.evaluation.paired import Comparison
from posformer.evaluation.predictions import Prediction, write_predictions
from posformer.evaluation.report_errors import FindImage, comparison_section, errors_section
from posformer.evaluation.report_sections import (
    breakdown_section,
    kinds_section,
    measures_section,
    reliability_section,
    symbols_section,
)

__all__ = ["ReportOptions", "report_page", "write_report"]

_FOOTER = (
    "Tokens are compared as tokens. ExpRate: per cent of the expressions whose tokens are all "
    "right; ≤k: at most k tokens inserted, left out or replaced; CER: all such edits over all "
    "tokens of the truth. Nested levels are those of the position forest."
)


@dataclass(frozen=True)
class ReportOptions:
    """What a report says of where its predictions come from, and how much it shows."""

    title: str = "Evaluation"
    split: str | None = None
    """The benchmark, such as `2014`: the paper's rows for it are shown beside."""
    model: str = "this model"
    """What to call the model."""
    other: str = "the other model"
    """What to call the one it is compared with."""
    used_ink: bool = False
    """Whether the model saw the ink of the training set, which the paper's did not."""
    most_errors: int = 200
    """How many errors are shown, and as many of the expressions that changed sides."""


def write_report(
    folder: str | os.PathLike[str],
    predictions: Sequence[Prediction],
    find_image: FindImage | None = None,
    comparison: Comparison | None = None,
    options: ReportOptions | None = None,
) -> Path:
    """Write `index.html`, and the predictions beside it to be compared with later.

    Args:
        folder: Where to; it is made where it is missing.
        predictions: What is reported on.
        find_image: Gives for a name the image, uint8 (height, width), white ink on black, or
            None. Without it the errors are shown without images.
        comparison: With what another model predicts for the same expressions; see `compare`.
        options: What the page says and how much it shows.

    Returns:
        The page's path. The same input gives the same bytes.

    Raises:
        DataError: When there is nothing to report.
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
    """The page as text; arguments and errors as for `write_report`."""
    options = options or ReportOptions()
    scores = evaluate_pairs(
        [one.truth for one in predictions], [one.prediction for one in predictions]
    )
    sections = _sections(predictions, scores, comparison, find_image, options)
    style = files(__package__).joinpath("report.css").read_text(encoding="utf-8")
    head = element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", name="color-scheme", content="light dark"),
        element("title", options.title),
        element("style", Markup(style)),
    )
    body = element("body", *_top(scores, sections, options), *_main(sections))
    return "<!doctype html>\n" + element("html", head, body, lang="en") + "\n"


def _sections(
    predictions: Sequence[Prediction],
    scores: Scores,
    comparison: Comparison | None,
    find_image: FindImage | None,
    options: ReportOptions,
) -> dict[str, Markup]:
    """The parts of the page that have something to say, by their headings."""
    find, most = find_image or (lambda name: None), options.most_errors
    found = {
        "Measures": measures_section(
            predictions, scores, options.split, options.model, used_ink=options.used_ink
        ),
        "Comparison": comparison
        and comparison_section(comparison, (options.model, options.other), find, most),
        "Levels and lengths": breakdown_section(predictions, scores),
        "Kinds of errors": kinds_section(predictions),
        "Symbols": symbols_section(predictions),
        "Confidence": reliability_section(predictions),
        "Errors": errors_section(predictions, find, most),
    }
    return {name: section for name, section in found.items() if section}


def _top(scores: Scores, sections: dict[str, Markup], options: ReportOptions) -> list[Markup]:
    described = f"{options.model}, {scores.count:,} expressions"
    links = [element("a", name, href=f"#{_anchor(name)}") for name in sections]
    return [
        element("header", element("h1", options.title), element("p", described)),
        element("nav", element("div", *links), aria_label="Parts of the report"),
    ]


def _main(sections: dict[str, Markup]) -> list[Markup]:
    parts = [
        element("section", element("h2", name), section, id=_anchor(name))
        for name, section in sections.items()
    ]
    return [element("main", joined(parts)), element("footer", _FOOTER)]


def _anchor(name: str) -> str:
    return name.lower().replace(" ", "-")
