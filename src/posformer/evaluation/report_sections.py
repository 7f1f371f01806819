"""The parts of a report that count: measures, levels, lengths, kinds of errors, symbols."""

from collections.abc import Sequence

from posformer.evaluation.error_kinds import count_errors
from posformer.evaluation.markup import Markup, element, joined
from posformer.evaluation.metrics import Row, Scores, wilson_interval
from posformer.evaluation.plots import Bar, bar_plot, heat_map, reliability_plot
from posformer.evaluation.predictions import Prediction
from posformer.evaluation.report_parts import (
    distances_of,
    intervals_of,
    meter,
    model_cells,
    panel,
    percents,
    remark,
    table,
)
from posformer.evaluation.score_table import HEADER, paper_remarks, range_text, table_lines
from posformer.evaluation.significance import Intervals
from posformer.evaluation.symbol_scores import (
    Confusion,
    SymbolScore,
    count_confusions,
    score_symbols,
)
from posformer.runtime.calibration import measure_reliability

__all__ = [
    "breakdown_section",
    "kinds_section",
    "level_and_length_plots",
    "measures_section",
    "reliability_section",
    "symbols_section",
]

_SYMBOLS_SHOWN = 20
_CONFUSIONS_SHOWN = 12
_HEAT_MAP_SIDE = 14
_DISTANCES = ((0, 0), (1, 1), (2, 2), (3, 3), (4, 5), (6, 10), (11, 20), (21, None))


def measures_section(
    predictions: Sequence[Prediction],
    scores: Scores,
    split: str | None,
    model: str,
    *,
    used_ink: bool,
) -> Markup:
    """The paper's table, our row with its intervals above the paper's."""
    intervals = intervals_of(predictions)
    own, *paper = table_lines(scores, split, model)
    notes = [
        "Small figures: 95 % intervals, by measuring 2,000 sets drawn from these expressions with "
        "replacement (bootstrap).",
        *paper_remarks(split, used_ink=used_ink),
    ]
    shown = panel(
        table(HEADER, [model_cells(own, intervals), *paper], own=True),
        element("ul", *(element("li", note) for note in notes), class_="remark"),
    )
    return joined([_tiles(scores, intervals), shown])


def breakdown_section(predictions: Sequence[Prediction], scores: Scores) -> Markup:
    """ExpRate by nested level and by length, and how far predictions are from the truth."""
    plots = level_and_length_plots([scores])
    far = panel(
        element("h3", "Distance from the truth"),
        bar_plot(_distance_bars(predictions), "Per cent of expressions by edit distance"),
        remark(
            "Per cent of the expressions by the number of token edits between them and the truth."
        ),
    )
    return element("div", *plots, far, class_="panels")


def level_and_length_plots(models: Sequence[Scores]) -> list[Markup]:
    """ExpRate by nested level and by length, of models on the same expressions side by side."""
    levels = [_rows_bar(rows) for rows in zip(*(one.by_level for one in models), strict=True)]
    lengths = [_rows_bar(rows) for rows in zip(*(one.by_length for one in models), strict=True)]
    whiskers = "Whiskers: 95 % intervals (Wilson)."
    return [
        panel(
            element("h3", "ExpRate by nested level"),
            bar_plot(levels, "ExpRate by nested level of the truth"),
            remark(
                f"By the greatest nested level of the truth; below, how many there are. {whiskers}"
            ),
        ),
        panel(
            element("h3", "ExpRate by length"),
            bar_plot(lengths, "ExpRate by the number of tokens of the truth"),
            remark(f"By the number of tokens of the truth. {whiskers}"),
        ),
    ]


def kinds_section(predictions: Sequence[Prediction]) -> Markup | None:
    """What the wrong predictions have wrong; None if all are right."""
    counts = count_errors(predictions)
    if not counts.wrong:
        return None
    what = _shares(
        "What is wrong",
        [
            ("Symbols only", "the structure is right", counts.symbols),
            (
                "Structure only",
                "all symbols are right, but not where they belong",
                counts.structure,
            ),
            ("Symbols and structure", "", counts.both),
        ],
    )
    much = _shares(
        "How much was read",
        [
            ("As many symbols as there are", "", counts.even),
            ("Too many: over-parsing", "symbols were read twice, or made up", counts.over),
            ("Too few: under-parsing", "symbols were left out", counts.under),
        ],
    )
    well = _shares(
        "Syntax",
        [
            ("Well-formed LaTeX, but wrong", "", counts.wrong - counts.malformed),
            ("Not well-formed", "braces, groups or scripts do not pair up", counts.malformed),
        ],
    )
    note = remark(
        f"Of {counts.wrong:,} wrong expressions. Symbols are the tokens with ink, in their order; "
        "the structure is what remains when each run of symbols is taken for one. "
        r"\frac and \sqrt are both."
    )
    return joined([element("div", what, much, well, class_="panels"), note])


def symbols_section(predictions: Sequence[Prediction]) -> Markup:
    """How well each symbol is read, and what it is taken for."""
    scores = score_symbols(predictions)
    confusions = count_confusions(predictions)
    parts = [panel(element("h3", "By symbol"), *_symbol_tables(scores))]
    if confusions:
        replaced = [one for one in confusions if one.truth and one.prediction]
        shown = [
            panel(element("h3", "Most frequent confusions"), _confusion_table(confusions)),
            *([_confusion_map(replaced)] if replaced else []),
        ]
        parts.insert(0, element("div", *shown, class_="panels"))
    return joined(parts)


def reliability_section(predictions: Sequence[Prediction]) -> Markup | None:
    """How far confidence can be trusted; None if there is none."""
    known = [one for one in predictions if one.confidence is not None]
    if not known:
        return None
    curve = measure_reliability(
        [one.confidence or 0.0 for one in known], [one.is_right for one in known]
    )
    plot = reliability_plot(
        curve.confidence, curve.accuracy, curve.counts, "Share of right readings by confidence"
    )
    note = remark(
        "Per cent of readings of like confidence that are right; on the dashed line confidence is "
        f"the chance to be right. Mean gap (expected calibration error): {curve.error:.3f} over "
        f"{len(known):,} expressions."
    )
    return element(
        "div",
        panel(element("h3", "Reliability"), plot, note),
        _thresholds(known),
        class_="panels",
    )


def _tiles(scores: Scores, intervals: Intervals) -> Markup:
    shown = [
        ("ExpRate", f"{scores.exprate:.2f} %", percents(intervals.exprate)),
        ("≤1 error", f"{scores.le1:.2f} %", percents(intervals.le1)),
        ("≤2 errors", f"{scores.le2:.2f} %", percents(intervals.le2)),
        ("≤3 errors", f"{scores.le3:.2f} %", percents(intervals.le3)),
        ("CER", f"{100 * scores.cer:.2f} %", percents(tuple(100 * end for end in intervals.cer))),
        ("Well-formed", f"{scores.syntax_validity:.2f} %", "of the predictions"),
    ]
    tiles = [
        element(
            "div", element("span", name), element("b", value), element("span", bounds),
            class_="tile main" if name == "ExpRate" else "tile",
        )
        for name, value, bounds in shown
    ]  # fmt: skip
    return element("div", *tiles, class_="tiles")


def _distance_bars(predictions: Sequence[Prediction]) -> list[Bar]:
    distances = distances_of(predictions)
    bars: list[Bar] = []
    for first, last in _DISTANCES:
        count = sum(first <= one and (last is None or one <= last) for one in distances)
        label = f"{first}+" if last is None else range_text(Row(first, last, count, 0.0))
        bars.append(Bar(label, str(count), (100 * count / len(distances),)))
    return bars


def _rows_bar(rows: Sequence[Row]) -> Bar:
    first = rows[0]
    intervals = tuple(
        wilson_interval(round(row.exprate * row.count / 100), row.count) for row in rows
    )
    return Bar(range_text(first), str(first.count), tuple(row.exprate for row in rows), intervals)


def _shares(title: str, parts: Sequence[tuple[str, str, int]]) -> Markup:
    """A bar cut into named shares, and what each of them is."""
    total = sum(count for *_, count in parts) or 1
    bar = [
        element("i", class_=f"kind{place}", style=f"flex:{count}", title=f"{name}: {count}")
        for place, (name, _, count) in enumerate(parts)
        if count
    ]
    legend = [
        element(
            "li",
            element("i", class_=f"kind{place}"),
            element("span", name, element("small", meaning)),
            element("b", f"{count:,} ({100 * count / total:.0f} %)"),
        )
        for place, (name, meaning, count) in enumerate(parts)
    ]
    return panel(
        element("h3", title),
        element("div", *bar, class_="shares", aria_hidden="true"),
        element("ul", *legend, class_="legend"),
    )


def _symbol_tables(scores: Sequence[SymbolScore]) -> list[Markup]:
    header = ("symbol", "in the truth", "read", "precision", "expressions", "ExpRate of these")
    rows = [
        [
            element("code", one.token), f"{one.count:,}", meter(one.recall if one.count else None),
            meter(one.precision if one.predicted else None),
            f"{one.expressions:,}", meter(one.exprate if one.expressions else None),
        ]
        for one in scores
    ]  # fmt: skip
    note = remark(
        "Read: per cent of the symbols of the truth that the prediction has in their place; "
        "precision: per cent of the symbols predicted that are there."
    )
    parts = [table(header, rows[:_SYMBOLS_SHOWN]), note]
    if rows[_SYMBOLS_SHOWN:]:
        more = element("summary", f"{len(rows) - _SYMBOLS_SHOWN} rarer symbols")
        parts.insert(1, element("details", more, table(header, rows[_SYMBOLS_SHOWN:])))
    return parts


def _confusion_table(confusions: Sequence[Confusion]) -> Markup:
    rows = [
        [_token(one.truth, "not there"), _token(one.prediction, "left out"), f"{one.count:,}"]
        for one in confusions[:_CONFUSIONS_SHOWN]
    ]
    left = sum(one.count for one in confusions[_CONFUSIONS_SHOWN:])
    note = [remark(f"{left:,} further errors are of rarer kinds.")] if left else []
    return joined([table(("truth", "prediction", "times"), rows), *note])


def _token(token: str | None, absent: str) -> Markup:
    return element("code", token) if token else element("em", absent)


def _confusion_map(replaced: Sequence[Confusion]) -> Markup:
    """The symbols that are confused most, by what they are taken for."""
    rows: list[str] = []
    columns: list[str] = []
    for one in replaced:
        truth, guess = str(one.truth), str(one.prediction)
        if _fits(rows, truth) and _fits(columns, guess):
            rows += [truth] * (truth not in rows)
            columns += [guess] * (guess not in columns)
    times = {(one.truth, one.prediction): one.count for one in replaced}
    counts = [[times.get((row, column), 0) for column in columns] for row in rows]
    left = sum(times.values()) - sum(map(sum, counts))
    image = heat_map(rows, columns, counts, "Symbols by what they were taken for")
    note = f"Truth at the left, prediction at the top. {left:,} confusions are not shown."
    return panel(
        element("h3", "Confusion"), element("div", image, class_="wide heatmap"), remark(note)
    )


def _fits(names: Sequence[str], token: str) -> bool:
    return token in names or len(names) < _HEAT_MAP_SIDE


def _thresholds(known: Sequence[Prediction]) -> Markup:
    """What is left, and how much of it is right, when unsure readings are set aside."""
    rows: list[list[str]] = []
    for limit in (0.0, 0.5, 0.8, 0.9, 0.95, 0.99):
        kept = [one for one in known if (one.confidence or 0.0) >= limit]
        right = sum(one.is_right for one in kept)
        rate = meter(100 * right / len(kept) if kept else None)
        rows.append(
            [
                f"at least {limit:.2f}",
                f"{len(kept):,}",
                f"{100 * len(kept) / len(known):.1f} %",
                rate,
            ]
        )
    return panel(
        element("h3", "When unsure readings are set aside"),
        table(("confidence", "expressions", "kept", "ExpRate"), rows),
    )
