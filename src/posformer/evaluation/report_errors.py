"""The parts of a report that show expressions: the errors, and two models side by side."""

import base64
from collections.abc import Callable, Sequence

import cv2
import numpy as np

from posformer.evaluation.error_kinds import Mistake, find_mistake
from posformer.evaluation.markup import Markup, element, joined
from posformer.evaluation.metrics import evaluate_pairs
from posformer.evaluation.paired import Comparison
from posformer.evaluation.predictions import Prediction
from posformer.evaluation.report_parts import (
    intervals_of,
    model_cells,
    panel,
    remark,
    table,
)
from posformer.evaluation.report_sections import level_and_length_plots
from posformer.evaluation.score_table import HEADER, table_lines
from posformer.evaluation.token_alignment import Pair, align
from posformer.latex import encode_forest, is_structure

__all__ = ["FindImage", "comparison_section", "errors_section"]

FindImage = Callable[[str], np.ndarray | None]
"""Gives for a name the image, uint8 (height, width), white ink on black, or None."""

_WIDEST = 1200  # pixels; a wider image would be shown smaller anyway

_FILTERS = {
    "all": "all",
    "symbols": "symbols only",
    "structure": "structure only",
    "both": "symbols and structure",
    "over": "over-parsing",
    "under": "under-parsing",
    "malformed": "not well-formed",
}


def errors_section(predictions: Sequence[Prediction], find: FindImage, most: int) -> Markup:
    """The wrong predictions, those that were surest first, at most so many."""
    wrong = [one for one in predictions if not one.is_right]
    if not wrong:
        return panel("There are none.")
    wrong.sort(key=lambda one: -(one.confidence or 0.0))
    cards = [_error_card(one, find) for one in wrong[:most]]
    order = (
        "the surest first" if any(one.confidence for one in wrong) else "in the order of the set"
    )
    left = f"; {len(wrong) - most:,} more are left out" if len(wrong) > most else ""
    about = (
        f"{len(cards):,} of {len(wrong):,} errors, {order}{left}. The upper line is the truth, the "
        "lower line what was read; green is what should be there, red what was read instead, "
        "hatched where a token is missing."
    )
    shown = [find_mistake(one.truth, one.prediction) for one in wrong[:most]]
    filters = _filters([mistake for mistake in shown if mistake])
    return joined([remark(about), filters, element("div", *cards, class_="cards")])


def comparison_section(
    comparison: Comparison, names: tuple[str, str], find: FindImage, most: int
) -> Markup:
    """Two models on the same expressions: measures, test, plots, and what changed sides.

    Args:
        comparison: Of the two.
        names: Of the two, the reported one first.
        find: Gives the images.
        most: How many of the expressions that changed sides are shown.
    """
    both = [
        evaluate_pairs([one.truth for one in some], [one.prediction for one in some])
        for some in (comparison.own, comparison.others)
    ]
    rows = [
        model_cells(table_lines(scores, None, name)[0], intervals_of(some))
        for scores, name, some in zip(both, names, (comparison.own, comparison.others), strict=True)
    ]
    legend = [
        element("span", element("i", class_=f"kind{place}"), name)
        for place, name in enumerate(names)
    ]
    plots = element("div", *level_and_length_plots(both), class_="panels")
    return joined(
        [
            panel(table(HEADER, rows, own=True), remark(_verdict(comparison))),
            panel(_sides_table(comparison, names)),
            element("div", *legend, class_="models"),
            plots,
            *_changed(comparison, names, find, most),
        ]
    )


def _verdict(comparison: Comparison) -> str:
    chance = "hardly chance" if comparison.p_value < 0.05 else "within what chance alone would give"
    left = comparison.left_out
    only = f" {left:,} expressions that only one of the two has seen are left out." if left else ""
    return f"{comparison.summary()}: {chance} (at the 5 % level).{only}"


def _sides_table(comparison: Comparison, names: tuple[str, str]) -> Markup:
    own, other = names
    gained, lost = len(comparison.gained), len(comparison.lost)
    rows = [
        [f"{own}: right", f"{comparison.both_right:,}", f"{gained:,}"],
        [f"{own}: wrong", f"{lost:,}", f"{comparison.both_wrong:,}"],
    ]
    return table(("expressions", f"{other}: right", f"{other}: wrong"), rows)


def _changed(
    comparison: Comparison, names: tuple[str, str], find: FindImage, most: int
) -> list[Markup]:
    """The expressions that one of the models alone reads right, with what the other reads."""
    groups = [
        (f"Right by {names[0]} alone", [comparison.others[place] for place in comparison.gained]),
        (f"Right by {names[1]} alone", [comparison.own[place] for place in comparison.lost]),
    ]
    parts: list[Markup] = []
    for title, wrong in groups:
        cards = [_error_card(one, find) for one in wrong[:most]]
        left = f", {len(wrong) - most:,} of them not shown" if len(wrong) > most else ""
        summary = element("summary", f"{title}: {len(wrong):,} expressions{left}")
        parts.append(element("details", summary, element("div", *cards, class_="cards")))
    return parts


def _filters(mistakes: Sequence[Mistake]) -> Markup:
    """Buttons that choose a kind of errors, by the style sheet alone."""
    classes = [_classes(mistake) for mistake in mistakes]
    labels: list[Markup] = []
    rules: list[str] = []
    for name, words in _FILTERS.items():
        count = len(classes) if name == "all" else sum(name in one for one in classes)
        if not count:
            continue
        button = element(
            "input", type="radio", name="kind", id=f"show-{name}", checked=name == "all"
        )
        labels.append(element("label", button, f"{words} ({count:,})"))
        if name != "all":
            rules.append(
                f"#errors:has(#show-{name}:checked) .cards > :not(.{name}){{display:none}}"
            )
    legend = element("legend", "Show")
    style = element("style", Markup("\n".join(rules)))
    return joined([element("fieldset", legend, *labels, class_="filters"), style])


def _classes(mistake: Mistake) -> list[str]:
    return [mistake.kind, mistake.parsing, *([] if mistake.well_formed else ["malformed"])]


def _error_card(one: Prediction, find: FindImage) -> Markup:
    mistake = find_mistake(one.truth, one.prediction)
    assert mistake is not None, "only wrong predictions have cards"
    pairs = align(one.truth, one.prediction)
    image = find(one.name)
    shown = [] if image is None else [_image(image, f"handwriting of {one.name}")]
    return element(
        "article",
        element("h3", one.name),
        element("ul", *_facts(one, mistake, pairs), class_="facts"),
        *shown,
        _alignment(pairs),
        class_=" ".join(["card", *_classes(mistake)]),
    )


def _facts(one: Prediction, mistake: Mistake, pairs: Sequence[Pair]) -> list[Markup]:
    distance = sum(pair.kind != "same" for pair in pairs)
    facts = [
        f"{distance} edit{'s' if distance > 1 else ''} of {len(one.truth)} tokens",
        f"level {encode_forest(one.truth, lenient=True).complexity}",
        _FILTERS[mistake.kind],
    ]
    if mistake.surplus:
        facts.append(f"{mistake.surplus:+d} symbol{'s' if abs(mistake.surplus) > 1 else ''}")
    if one.confidence is not None:
        facts.append(f"confidence {one.confidence:.2f}")
    found = [element("li", fact) for fact in facts]
    if not mistake.well_formed:
        found.append(element("li", "not well-formed", class_="bad"))
    return found


def _alignment(pairs: Sequence[Pair]) -> Markup:
    names = element("span", element("span", "truth"), element("span", "read"), class_="pair names")
    return element("div", names, *map(_pair, pairs), class_="alignment")


def _pair(pair: Pair) -> Markup:
    """A token above what was read for it; what differs is marked for eyes and for programs."""
    same = pair.kind == "same"
    inkless = all(token is None or is_structure(token) for token in (pair.truth, pair.prediction))
    return element(
        "span",
        element("span" if same else "del", pair.truth or " "),
        element("span" if same else "ins", pair.prediction or " "),
        class_=f"pair {pair.kind}" + (" inkless" if inkless else ""),
    )


def _image(image: np.ndarray, about: str) -> Markup:
    """An image as part of the page: black ink on white, (height, width)."""
    height, width = image.shape
    if width > _WIDEST:
        height = max(1, height * _WIDEST // width)
        image = cv2.resize(image, (_WIDEST, height), interpolation=cv2.INTER_AREA)
    _, data = cv2.imencode(".png", 255 - image)
    address = "data:image/png;base64," + base64.b64encode(data.tobytes()).decode("ascii")
    return element(
        "img", src=address, alt=about, width=image.shape[1], height=image.shape[0],
        loading="lazy",
    )  # fmt: skip
