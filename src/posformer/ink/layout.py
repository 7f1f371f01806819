"""Writing an expression down: handwritten symbols placed by TeX-like rules, as a hand would.

Lengths are in x-heights of the main row, x to the right, y down, the baseline of a row at y = 0.
Every part of an expression becomes a box of placed symbols; boxes are joined to larger ones.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from posformer.ink.aligned import AlignedInk
from posformer.ink.bank import SymbolBank, SymbolSample
from posformer.ink.boxes import Box, hook_of, stretch_bar, stretch_radical
from posformer.ink.expression import (
    Fraction,
    Group,
    Item,
    Lines,
    Radical,
    Row,
    Scripted,
    Symbol,
    parse,
)
from posformer.ink.metrics import DELIMITERS, OPERATORS, reach

AXIS = 0.6
"""Height of fraction bars and minus signs above the baseline."""

UNITS = 100.0
"""Ink units of an x-height in the result."""

_PAIRS = {")": "(", "]": "[", "\\}": "\\{", "|": "|"}

_KINDS = {
    "binary": "+ - \\pm \\times \\div \\cdot /",
    "relation": "= < > \\leq \\geq \\neq \\rightarrow \\in",
    "punctuation": ", . ! \\prime",
    "delimiter": " ".join(DELIMITERS),
    "name": "\\sin \\cos \\tan \\log \\lim \\ln \\exp \\max \\min \\sum \\int \\prod",
}
_KIND = {token: kind for kind, tokens in _KINDS.items() for token in tokens.split()}

_GAPS: tuple[tuple[str, float], ...] = (
    ("relation", 0.6),
    ("binary", 0.48),
    ("name", 0.42),
    ("wide", 0.42),
    ("delimiter", 0.28),
    ("ordinary", 0.32),
)
"""Usual gap beside a kind of item; of two neighbours the kind listed first decides."""


@dataclass(frozen=True)
class LayoutStyle:
    """How a hand lays out symbols: usual lengths, in x-heights, and how far it strays from them."""

    script_size: float = 0.68  # of a script relative to its base
    smallest: float = 0.42  # size below which nested scripts do not shrink
    upper_drop: float = 0.3  # baseline of a superscript below the top of its base
    lower_drop: float = 0.45  # baseline of a subscript below the bottom of its base
    limit_gap: float = 0.3  # between a big operator and its limits
    fraction_size: float = 0.92  # of numerator and denominator relative to the row
    fraction_gap: float = 0.35  # between bar and numerator or denominator
    overhang: float = 0.25  # of a fraction bar on each side
    radical_gap: float = 0.3  # between a radical's bar and what is under it
    line_gap: float = 1.1  # between lines
    sum_limits_beside: float = 0.12  # share of sums with limits at their side
    integral_limits_beside: float = 0.8  # share of integrals with limits at their side
    spacing: float = 1.0  # factor on all gaps between symbols
    irregularity: float = 1.0  # factor on all of the following; 0 leaves only the choice of samples
    habit: float = 0.12  # relative difference of a writer's usual lengths from these
    wander: float = 0.05  # of the baseline from symbol to symbol
    size_jitter: float = 0.05  # relative, of a symbol
    gap_jitter: float = 0.35  # relative, of a gap
    shift_jitter: float = 0.1  # of the place of a script
    rotation: float = 0.03  # of a symbol, in radians
    slant: float = 0.03  # of a symbol, as a tangent
    slope: float = 0.015  # of the whole expression, in radians

    def in_hand(self, rng: np.random.Generator) -> LayoutStyle:
        """This style as one writer has it: all usual lengths a little different."""
        spread = self.habit * self.irregularity
        names = ("limit_gap", "fraction_gap", "overhang", "radical_gap", "line_gap")
        factors = np.exp(rng.normal(0.0, 2 * spread, len(names))).tolist()
        sizes = np.exp(rng.normal(0.0, spread, 3) * (0.7, 0.5, 1.2)).tolist()
        drops = rng.normal(0.0, spread, 2).tolist()
        return replace(
            self,
            script_size=min(0.85, self.script_size * sizes[0]),
            fraction_size=min(1.0, self.fraction_size * sizes[1]),
            spacing=self.spacing * sizes[2],
            upper_drop=self.upper_drop + drops[0],
            lower_drop=self.lower_drop + drops[1],
            **{
                name: getattr(self, name) * factor
                for name, factor in zip(names, factors, strict=True)
            },
        )


NATURAL = LayoutStyle()
"""Lengths and irregularity as measured on handwritten expressions."""


def lay_out(
    tokens: Sequence[str],
    bank: SymbolBank,
    rng: np.random.Generator,
    style: LayoutStyle = NATURAL,
    writer: str | None = None,
    name: str = "",
) -> AlignedInk:
    """Write an expression with symbols of a bank.

    Args:
        tokens: The expression in caption form.
        bank: Where symbols come from.
        rng: All chance comes from here.
        style: The usual lengths and the irregularity of the hand.
        writer: Whose symbols to use; without it one is drawn who wrote many of the tokens.
            Symbols the writer never wrote come from similar hands.
        name: Name of the result.

    Returns:
        The ink; every token that has ink is aligned with its strokes.

    Raises:
        ExpressionError: The tokens are not an expression.
        BankError: Nobody wrote one of the tokens.
    """
    tree = parse(tokens)
    hand = writer if writer is not None else choose_writer(tokens, bank, rng)
    box = _Scribe(tokens, bank, rng, style.in_hand(rng), hand).lines(tree, 1.0)
    slope = float(rng.normal(0.0, style.slope * style.irregularity))
    strokes, alignment = _strokes(box, len(tokens), slope)
    return AlignedInk(name, tuple(tokens), strokes, alignment, hand)


def choose_writer(
    tokens: Sequence[str], bank: SymbolBank, rng: np.random.Generator, tries: int = 6
) -> str:
    """Of a few writers drawn by chance, the one who wrote most of the tokens."""
    needed = bank.tokens.intersection(tokens)
    drawn = [bank.writers[place] for place in rng.integers(len(bank.writers), size=tries).tolist()]
    return max(drawn, key=lambda writer: len(needed & bank.written_by(writer)))


def _strokes(
    box: Box, tokens: int, slope: float
) -> tuple[tuple[np.ndarray, ...], tuple[tuple[int, ...], ...]]:
    """The strokes of a box in the order of the tokens, and which of them write each token."""
    turned = UNITS * np.array([[1.0, slope], [-slope, 1.0]], np.float32)
    strokes: list[np.ndarray] = []
    alignment: list[tuple[int, ...]] = [()] * tokens
    for piece in sorted(box.pieces, key=lambda piece: piece.place):
        points = (piece.points + np.array([piece.x, piece.y], np.float32)) @ turned
        alignment[piece.place] = tuple(range(len(strokes), len(strokes) + len(piece.lengths)))
        start = 0
        for length in piece.lengths:
            strokes.append(points[start : start + length])
            start += length
    return tuple(strokes), tuple(alignment)


class _Scribe:
    """Lays out one expression in one hand."""

    def __init__(
        self,
        tokens: Sequence[str],
        bank: SymbolBank,
        rng: np.random.Generator,
        style: LayoutStyle,
        writer: str,
    ) -> None:
        self.tokens, self.bank, self.rng, self.style, self.writer = tokens, bank, rng, style, writer

    def noise(self, spread: float) -> float:
        """A length that strays from 0, but never far."""
        drawn = max(-2.5, min(2.5, float(self.rng.standard_normal())))
        return drawn * spread * self.style.irregularity

    def factor(self, spread: float) -> float:
        return math.exp(self.noise(spread))

    # Lines and rows.

    def lines(self, lines: Lines, size: float) -> Box:
        """Lines and their cells under each other; a single line stays as it is."""
        cells = [[self.row(row, size) for row in line] for line in lines.lines]
        if len(cells) == 1 and len(cells[0]) == 1:
            return cells[0][0]
        widths = [0.0] * max(len(line) for line in cells)
        for line in cells:
            for column, cell in enumerate(line):
                widths[column] = max(widths[column], cell.width)
        box, baseline = Box(), 0.0
        for number, line in enumerate(cells):
            if number:
                gap = size * self.style.line_gap * self.factor(0.2)
                baseline += gap - min(cell.top for cell in line)
            x = abs(self.noise(0.5)) * size
            for cell, width in zip(line, widths, strict=False):
                box.put(cell, x, baseline)
                x += width + 0.6 * size * self.factor(0.3)
            baseline += max(cell.bottom for cell in line)
        return _centred(box, size)

    def row(self, row: Row, size: float) -> Box:
        box = Box()
        x, wander = 0.0, 0.0
        for number, (item, inner) in enumerate(zip(row.items, self.boxes(row, size), strict=True)):
            if number:
                x += self.gap(row.items[number - 1], item) * size
            wander = 0.7 * wander + self.noise(self.style.wander) * size
            box.put(inner, x, wander)
            x += inner.width
        return box

    def boxes(self, row: Row, size: float) -> list[Box]:
        """The items of a row; delimiters come last, for they grow with what they enclose."""
        boxes = {
            place: self.item(item, size)
            for place, item in enumerate(row.items)
            if self.delimiter(item) is None
        }
        for place, enclosed in self.enclosed(row.items):
            inner = [boxes[other] for other in enclosed if other in boxes]
            boxes[place] = self.item(row.items[place], size, inner)
        for place, item in enumerate(row.items):
            if place not in boxes:
                inner = [boxes[other] for other in (place - 1, place + 1) if other in boxes]
                boxes[place] = self.item(item, size, inner)
        return [boxes[place] for place in range(len(row.items))]

    def enclosed(self, items: Sequence[Item]) -> list[tuple[int, range]]:
        """Places of matching delimiters with what stands between them, inner pairs first."""
        pairs: list[tuple[int, range]] = []
        opened: list[tuple[str, int]] = []
        for place, item in enumerate(items):
            token = self.delimiter(item)
            if token is None:
                continue
            if opened and _PAIRS.get(token) == opened[-1][0]:
                start = opened.pop()[1]
                pairs.extend((end, range(start + 1, place)) for end in (start, place))
            elif token in _PAIRS.values():
                opened.append((token, place))
        return pairs

    def delimiter(self, item: Item) -> str | None:
        base = item.base if isinstance(item, Scripted) else item
        if isinstance(base, Symbol) and self.tokens[base.place] in DELIMITERS:
            return self.tokens[base.place]
        return None

    def gap(self, left: Item, right: Item) -> float:
        kinds = self.kind(left), self.kind(right)
        if kinds[1] == "punctuation":
            usual = 0.2
        elif kinds[0] == "punctuation":
            usual = 0.45
        else:
            usual = next(gap for kind, gap in _GAPS if kind in kinds)
        return usual * self.style.spacing * self.factor(self.style.gap_jitter)

    def kind(self, item: Item) -> str:
        base = item.base if isinstance(item, Scripted) else item
        if isinstance(base, Symbol):
            return _KIND.get(self.tokens[base.place], "ordinary")
        return "ordinary" if base is None else "wide"

    # Items.

    def item(self, item: Item, size: float, inner: Sequence[Box] = ()) -> Box:
        if isinstance(item, Symbol):
            return self.symbol(item.place, size, inner)
        if isinstance(item, Fraction):
            return self.fraction(item, size)
        if isinstance(item, Radical):
            return self.radical(item, size)
        if isinstance(item, Group):
            return self.row(item.row, size)
        if isinstance(item, Lines):
            return self.lines(item, size)
        return self.scripted(item, size, inner)

    def symbol(self, place: int, size: float, inner: Sequence[Box]) -> Box:
        token = self.tokens[place]
        if token in DELIMITERS and inner:
            top, bottom = min(box.top for box in inner), max(box.bottom for box in inner)
            if bottom - top > 2.2 * size:
                return self.stretched(place, top, bottom, size)
        sample = self.bank.choose(token, self.rng, self.writer)
        usual = reach(token)
        scale = size / sample.unit * self.factor(self.style.size_jitter)
        if usual.height >= 0.5:
            drawn = max(sample.height * scale / size, 1e-6)
            scale *= min(max(drawn, 0.75 * usual.height), 1.3 * usual.height) / drawn
        rise = sample.baseline * scale / size
        rise = min(max(rise, usual.top - 0.3), usual.top + 0.3)
        return self.placed(place, sample, (scale, scale), -rise * size)

    def stretched(self, place: int, top: float, bottom: float, size: float) -> Box:
        """A delimiter that covers a height, a little more or less at both ends."""
        span = (bottom - top) * self.factor(0.06) + 0.1 * size
        middle = (top + bottom) / 2 + self.noise(0.06) * size
        sample = self.nearest(
            self.tokens[place], lambda sample: abs(math.log(sample.relative_height * size / span))
        )
        plain, down = size / sample.unit, span / sample.height
        across = plain * min(max(down / plain, 0.7), 3.0) ** 0.4
        return self.placed(place, sample, (across, down), middle - span / 2, wobble=0.4)

    def nearest(
        self, token: str, distance: Callable[[SymbolSample], float], tries: int = 5
    ) -> SymbolSample:
        """Of a few samples the one that has to be stretched least."""
        drawn = [self.bank.choose(token, self.rng, self.writer) for _ in range(tries)]
        return min(drawn, key=distance)

    def placed(
        self,
        place: int,
        sample: SymbolSample,
        scale: tuple[float, float],
        top: float,
        wobble: float = 1.0,
    ) -> Box:
        """A symbol scaled and turned a little, the upper edge of its ink at `top`."""
        turn = self.noise(self.style.rotation) * wobble
        slant = self.noise(self.style.slant) * wobble
        across, down = scale
        matrix = np.array([[across, across * turn], [down * (-slant - turn), down]], np.float32)
        return Box.of(place, sample.points @ matrix, sample.lengths, top)

    def fraction(self, item: Fraction, size: float) -> Box:
        inner = max(size * self.style.fraction_size, min(size, self.style.smallest))
        upper, lower = self.row(item.upper, inner), self.row(item.lower, inner)
        width = max(upper.width, lower.width, 0.6 * size)
        length = width + 2 * self.style.overhang * size * self.factor(0.4)
        bar = self.bar(item.place, length, size)
        box = Box()
        top, bottom = bar.top, bar.bottom
        box.put(bar, 0.0, 0.0)
        for part, above in ((upper, True), (lower, False)):
            gap = self.style.fraction_gap * size * self.factor(0.3)
            y = top - gap - part.bottom if above else bottom + gap - part.top
            slack = length - part.width
            box.put(part, slack / 2 + self.noise(0.15) * slack, y)
        return box

    def bar(self, place: int, length: float, size: float) -> Box:
        token = "\\frac" if "\\frac" in self.bank.tokens else "-"
        sample = self.nearest(
            token, lambda sample: abs(math.log((sample.width / sample.unit + 0.01) * size / length))
        )
        points = stretch_bar(sample, length, thickest=min(0.3 * size, 0.12 * length))
        box = Box.of(place, points, sample.lengths, 0.0)
        return _centred(box, size)

    def radical(self, item: Radical, size: float) -> Box:
        body = self.row(item.body, size)
        gap = self.style.radical_gap * size * self.factor(0.3)
        top = min(body.top, -0.9 * size) - gap
        bottom = max(body.bottom, 0.0) + self.noise(0.1) * size
        bar = body.width + size * (0.25 + 0.3 * self.factor(0.4))
        sign, hook = self.radical_sign(item.place, top, bottom, bar, size)
        box = Box()
        box.put(sign, 0.0, 0.0)
        box.put(body, hook + 0.15 * size * self.factor(0.3), 0.0)
        return box if item.degree is None else self.with_degree(box, item.degree, hook, size)

    def radical_sign(
        self, place: int, top: float, bottom: float, bar: float, size: float
    ) -> tuple[Box, float]:
        """The sign with its bar, and where the bar begins."""
        height = bottom - top
        drawn = [self.bank.choose("\\sqrt", self.rng, self.writer) for _ in range(5)]
        hooks = [(sample, hook_of(sample)) for sample in drawn]
        barred = [(sample, hook) for sample, hook in hooks if hook is not None]
        sample, hook = min(
            barred or [(drawn[0], 0.5 * drawn[0].width)],
            key=lambda pair: abs(math.log(pair[0].relative_height * size / height)),
        )
        plain, down = size / sample.unit, height / max(sample.height, 1e-6)
        sign = hook * plain * (min(max(down / plain, 0.5), 2.5) ** 0.6)
        sign = min(max(sign, 0.5 * size), 1.6 * size)
        points = stretch_radical(sample, hook, sign, bar, height)
        return Box.of(place, points, sample.lengths, top), sign

    def with_degree(self, radical: Box, degree: Row, hook: float, size: float) -> Box:
        """A root with its index above the left half of the sign."""
        index = self.row(degree, max(0.55 * size, min(size, 0.8 * self.style.smallest)))
        middle = (radical.top + radical.bottom) / 2
        right = 0.5 * hook + self.noise(0.08) * size
        shift = max(0.0, index.width - right)
        box = Box()
        box.put(index, max(0.0, right - index.width), middle - 0.1 * size - index.bottom)
        box.put(radical, shift, 0.0)
        return box

    # Scripts.

    def scripted(self, item: Scripted, size: float, inner: Sequence[Box]) -> Box:
        base = Box() if item.base is None else self.item(item.base, size, inner)
        token = self.tokens[item.base.place] if isinstance(item.base, Symbol) else ""
        wanted = size * self.style.script_size * self.factor(0.06)
        script = max(wanted, min(self.style.smallest, 0.9 * size))
        upper = None if item.upper is None else self.row(item.upper, script)
        lower = None if item.lower is None else self.row(item.lower, script)
        if token in OPERATORS and self.under_and_over(token):
            return self.with_limits(base, lower, upper, size)
        return self.with_scripts(base, lower, upper, size)

    def under_and_over(self, token: str) -> bool:
        beside = {"\\int": self.style.integral_limits_beside, "\\lim": 0.0}
        return float(self.rng.random()) >= beside.get(token, self.style.sum_limits_beside)

    def with_limits(self, base: Box, lower: Box | None, upper: Box | None, size: float) -> Box:
        """A big operator with limits above and below its middle."""
        widest = max(part.width for part in (base, lower, upper) if part is not None)
        top, bottom = base.top, base.bottom
        box = Box()
        box.put(base, (widest - base.width) / 2, 0.0)
        for part, above in ((upper, True), (lower, False)):
            if part is not None:
                gap = self.style.limit_gap * size * self.factor(0.3)
                y = top - gap - part.bottom if above else bottom + gap - part.top
                x = (widest - part.width) / 2 + self.noise(0.1) * size
                box.put(part, max(x, 0.0), y)
        return box

    def with_scripts(self, base: Box, lower: Box | None, upper: Box | None, size: float) -> Box:
        """Scripts at the right of their base, above each other if there are both."""
        top, bottom = (base.top, base.bottom) if base.pieces else (-1.2 * size, 0.0)
        right = base.width
        box = Box()
        box.put(base, 0.0, 0.0)
        ceiling = math.inf
        if upper is not None:
            drop = self.style.upper_drop + self.noise(self.style.shift_jitter)
            y = min(top + drop * size, -0.7 * size)
            y = min(y, -0.45 * size - upper.bottom)
            ceiling = y + upper.bottom
            box.put(upper, right + self.script_gap(size), y)
        if lower is not None:
            drop = self.style.lower_drop + self.noise(self.style.shift_jitter)
            y = max(bottom + drop * size, 0.3 * size)
            y = max(y, -0.5 * size - lower.top)
            if upper is not None:
                y = max(y, ceiling + 0.12 * size - lower.top)
            box.put(lower, right + self.script_gap(size), y)
        return box

    def script_gap(self, size: float) -> float:
        return size * (0.1 * self.style.spacing + abs(self.noise(0.1)))


def _centred(box: Box, size: float) -> Box:
    """A box with the axis of its row through its middle."""
    centred = Box()
    centred.put(box, 0.0, -AXIS * size - (box.top + box.bottom) / 2)
    return centred
