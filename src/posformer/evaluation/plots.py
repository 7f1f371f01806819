"""Small plots as SVG, coloured by the classes of the page they stand in."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from posformer.evaluation.markup import Markup, element, joined
from posformer.evaluation.significance import Interval

__all__ = ["Bar", "bar_plot", "heat_map", "reliability_plot"]

_WIDTH, _HEIGHT = 340, 200
_LABEL_WIDTH = 36
_LEFT, _RIGHT, _TOP, _BOTTOM = 34, 8, 16, 44  # around the field that the data are drawn in


@dataclass(frozen=True)
class Bar:
    """A group of bars above one label: the same share of one or more models."""

    label: str
    note: str
    """What stands below the label in small letters."""
    shares: tuple[float, ...]
    """Per cent, one for each model."""
    intervals: tuple[Interval, ...] = ()
    """Per cent; drawn as whiskers, one for each share."""


def bar_plot(bars: Sequence[Bar], title: str) -> Markup:
    """Shares of 0 to 100 per cent as upright bars, with their intervals as whiskers."""
    step = (_WIDTH - _LEFT - _RIGHT) / max(len(bars), 1)
    every = math.ceil(_LABEL_WIDTH / step)  # labels closer to each other than that would overlap
    groups = [
        _bar_group(bar, _LEFT + step * place, step, named=place % every == 0)
        for place, bar in enumerate(bars)
    ]
    return _figure(_WIDTH, _HEIGHT, title, *_percent_grid(), *groups)


def _bar_group(bar: Bar, left: float, step: float, *, named: bool) -> Markup:
    width = min(step * 0.72, 64) / len(bar.shares)
    first = left + step / 2 - width * len(bar.shares) / 2
    parts: list[Markup] = []
    for place, share in enumerate(bar.shares):
        x, y = first + width * place, _height_of(share)
        parts.append(_box(x + 1, y, width - 2, _height_of(0) - y, class_=f"bar model{place}"))
        if bar.intervals:
            low, high = map(_height_of, bar.intervals[place])
            parts.append(_line(x + width / 2, low, x + width / 2, high, class_="whisker"))
        if width > 24:
            # Beside a whisker, where it does not look like the whisker's end.
            aside, side = (3, " end") if bar.intervals else (0, "")
            middle = x + width / 2 - aside
            parts.append(_text(middle, y - 4, f"{share:.0f}", class_=f"value{side}"))
    if named:
        middle = left + step / 2
        parts.append(_text(middle, _height_of(0) + 15, bar.label, class_="label"))
        parts.append(_text(middle, _height_of(0) + 28, bar.note, class_="note"))
    shown = ", ".join(f"{share:.1f} %" for share in bar.shares)
    return element("g", element("title", f"{bar.label}: {shown} ({bar.note})"), *parts)


def reliability_plot(
    confidence: Sequence[float], accuracy: Sequence[float], counts: Sequence[int], title: str
) -> Markup:
    """How often readings of a confidence are right; points are as large as they are many.

    Args:
        confidence: Mean of each group of readings, 0 to 1; groups without any are left out.
        accuracy: Share of each that is right, 0 to 1.
        counts: How many readings each holds.
        title: What the plot shows, for those who cannot see it.
    """
    across = _WIDTH - _LEFT - _RIGHT
    groups = [group for group in zip(confidence, accuracy, counts, strict=True) if group[2]]
    points = [(_LEFT + across * sure, _height_of(100 * share)) for sure, share, _ in groups]
    most = max((count for *_, count in groups), default=1)
    marks = [
        element(
            "circle",
            element("title", f"confidence {sure:.2f}: {100 * share:.1f} % of {count} right"),
            cx=_number(x), cy=_number(y), r=_number(3 + 7 * (count / most) ** 0.5), class_="point",
        )
        for (x, y), (sure, share, count) in zip(points, groups, strict=True)
    ]  # fmt: skip
    ticks = [
        _text(_LEFT + across * tenth / 10, _height_of(0) + 15, f"{tenth / 10:.1f}", class_="label")
        for tenth in range(0, 11, 2)
    ]
    diagonal = _line(_LEFT, _height_of(0), _LEFT + across, _height_of(100), class_="ideal")
    path = " ".join(f"{_number(x)},{_number(y)}" for x, y in points)
    curve = element("polyline", points=path, class_="curve")
    name = _text(_LEFT + across / 2, _height_of(0) + 31, "confidence", class_="note")
    return _figure(_WIDTH, _HEIGHT, title, *_percent_grid(), *ticks, diagonal, curve, *marks, name)


def heat_map(
    rows: Sequence[str], columns: Sequence[str], counts: Sequence[Sequence[int]], title: str
) -> Markup:
    """A table of counts, the darker the greater; rows are named at the left, columns at the top.

    Args:
        rows: Their names.
        columns: Their names.
        counts: (rows, columns); cells of 0 stay empty.
        title: What it shows, for those who cannot see it.
    """
    side, left, top = 30, 86, 78
    most = max((count for row in counts for count in row), default=0) or 1
    parts: list[Markup] = []
    for place, name in enumerate(columns):
        x, y = left + side * (place + 0.5) + 4, top - 8
        turn = f"rotate(-55 {_number(x)} {_number(y)})"
        parts.append(_text(x, y, name, class_="token start", transform=turn))
    for down, (name, row) in enumerate(zip(rows, counts, strict=True)):
        y = top + side * down
        parts.append(_text(left - 8, y + side / 2 + 4, name, class_="token end"))
        for across, count in enumerate(row):
            x = left + side * across
            parts.append(_heat_cell(x, y, side, count, count / most))
    width, height = left + side * len(columns) + 40, top + side * len(rows) + 4
    return _figure(width, height, title, *parts)


def _heat_cell(x: float, y: float, side: float, count: int, strength: float) -> Markup:
    field = _box(x + 1, y + 1, side - 2, side - 2, class_="cell")
    if not count:
        return field
    strength = 0.15 + 0.85 * strength
    heat = _box(x + 1, y + 1, side - 2, side - 2, class_="heat", opacity=f"{strength:.2f}")
    kind = "count strong" if strength > 0.6 else "count"
    return joined([field, heat, _text(x + side / 2, y + side / 2 + 4, str(count), class_=kind)])


def _percent_grid() -> list[Markup]:
    parts: list[Markup] = []
    for percent in (0, 25, 50, 75, 100):
        y = _height_of(percent)
        parts.append(_line(_LEFT, y, _WIDTH - _RIGHT, y, class_="grid"))
        parts.append(_text(_LEFT - 6, y + 4, str(percent), class_="note end"))
    return parts


def _height_of(percent: float) -> float:
    return _TOP + (_HEIGHT - _TOP - _BOTTOM) * (1 - percent / 100)


def _figure(width: float, height: float, title: str, *parts: Markup) -> Markup:
    return element(
        "svg", *parts, viewBox=f"0 0 {_number(width)} {_number(height)}", role="img",
        aria_label=title, style=f"max-width:{_number(width * 1.5)}px",
    )  # fmt: skip


def _box(x: float, y: float, width: float, height: float, **attributes: object) -> Markup:
    return element(
        "rect", x=_number(x), y=_number(y), width=_number(width), height=_number(height),
        **attributes,
    )  # fmt: skip


def _line(x1: float, y1: float, x2: float, y2: float, **attributes: object) -> Markup:
    return element(
        "line", x1=_number(x1), y1=_number(y1), x2=_number(x2), y2=_number(y2), **attributes
    )


def _text(x: float, y: float, text: str, **attributes: object) -> Markup:
    return element("text", text, x=_number(x), y=_number(y), **attributes)


def _number(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")
