"""Small parts that the sections of a report are made of."""

from collections.abc import Sequence

from posformer.evaluation.markup import Markup, element, joined
from posformer.evaluation.metrics import edit_distances
from posformer.evaluation.predictions import Prediction
from posformer.evaluation.significance import Intervals, bootstrap_intervals

__all__ = [
    "distances_of",
    "intervals_of",
    "meter",
    "model_cells",
    "panel",
    "percents",
    "remark",
    "table",
]


def panel(*content: str) -> Markup:
    """A box of the page."""
    return element("div", *content, class_="panel")


def remark(text: str) -> Markup:
    """A paragraph in small letters that says how to read what stands above it."""
    return element("p", text, class_="remark")


def table(header: Sequence[str], rows: Sequence[Sequence[str]], *, own: bool = False) -> Markup:
    """A table, which scrolls sideways where it is too wide; `own` lifts out the first row."""
    head = element("tr", *(element("th", name, scope="col") for name in header))
    lines = [
        element(
            "tr",
            *(element("td", cell) for cell in row),
            class_="own" if own and place == 0 else None,
        )
        for place, row in enumerate(rows)
    ]
    body = element("table", element("thead", head), element("tbody", *lines))
    return element("div", body, class_="wide")


def meter(percent: float | None) -> Markup:
    """A share as a number and a bar; a dash where there is none."""
    if percent is None:
        return element("span", "–")
    bar = element("i", style=f"--share:{percent:.0f}%")
    return element("span", element("span", f"{percent:.1f}"), bar, class_="meter")


def percents(interval: Sequence[float]) -> str:
    """An interval in per cent."""
    low, high = interval
    return f"{low:.1f}–{high:.1f}"


def distances_of(predictions: Sequence[Prediction]) -> list[int]:
    """The edit distance of every prediction."""
    truths, guesses = zip(*((one.truth, one.prediction) for one in predictions), strict=True)
    return [int(distance) for distance in edit_distances(truths, guesses)]


def intervals_of(predictions: Sequence[Prediction]) -> Intervals:
    """The 95 % intervals of the measures of predictions."""
    lengths = [len(one.truth) for one in predictions]
    return bootstrap_intervals(distances_of(predictions), lengths)


def model_cells(line: Sequence[str], intervals: Intervals) -> list[str]:
    """The cells of a model's row of the main table, each measure with its interval below."""
    model, *values = line
    per_cent = (intervals.exprate, intervals.le1, intervals.le2, intervals.le3)
    bounds = [*map(percents, per_cent), "{:.4f}–{:.4f}".format(*intervals.cer)]
    cells = zip(values, bounds, strict=True)
    return [model, *(joined([value, element("small", bound)]) for value, bound in cells)]
