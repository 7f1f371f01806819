"""Layout of handwritten expressions: TeX-like rules with the irregularity of handwriting.

Lengths are in x-heights of the main line, x to the right, y down, with the baseline at y = 0.
Every part of an expression becomes a box of positioned symbols; boxes are combined to larger ones.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np

from posformer.errors import DataError, LatexError
from posformer.ink.aligned import AlignedInk
from posformer.latex.symbols import DELIMITER_PAIRS, SYMBOLS, fence_of, tokens_of
from posformer.latex.tree import WRITABLE_DEPTH, Node, Row, parse
from posformer.synthesis.bank import SymbolBank, SymbolSample
from posformer.synthesis.boxes import Box, hook_of, stretch_bar, stretch_radical
from posformer.synthesis.extents import SCRIPT_SIZE, vertical_extent
from posformer.synthesis.marks import MARKS, Shape, draw_mark, outline

AXIS = 0.52
"""Height of fraction bars and minus signs above the baseline."""

UNITS = 100.0
"""Units per x-height of the resulting ink, whose coordinates are integral like a tablet's."""

_DELIMITERS = tokens_of("delimiter", "bar")
_FRACTIONS, _ROOTS = tokens_of("fraction"), tokens_of("root")
_BINOMIALS, _STACKS, _FONTS = tokens_of("binomial"), tokens_of("stack"), tokens_of("font")
SPELLED_NAMES = {"\\bmod": "mod", "\\limsup": "lim sup", "\\liminf": "lim inf"}
"""How names are spelled, where it is not by their letters."""

_NAMES = tokens_of("function", "limit") | SPELLED_NAMES.keys()
_COMPACT = frozenset(("letter", "digit", "greek", "operator", "relation", "punctuation"))
_WIDEST = 3.5  # x-heights, of a symbol of these classes
_PAIRS = {**DELIMITER_PAIRS, "\\Vert": "\\Vert"}
_OPENING = {closing: opening for opening, closing in _PAIRS.items()}
_SPACING = {
    "operator": "binary",
    "relation": "relation",
    "arrow": "relation",
    "punctuation": "punctuation",
    "postfix": "punctuation",
    "bar": "bar",
    "delimiter": "delimiter",
    **dict.fromkeys(("function", "limit", "big"), "name"),
}
"""The kind of gap next to a class of symbols; next to all others it is ordinary."""

_GAPS: tuple[tuple[str, float], ...] = (
    ("relation", 0.9),
    ("binary", 0.7),
    ("name", 0.6),
    ("wide", 0.4),
    ("bar", 0.4),
    ("delimiter", 0.35),
    ("ordinary", 0.4),
    ("before punctuation", 0.35),
    ("after punctuation", 0.65),
)
"""Usual gap next to a kind of symbol; for two neighbors the kind listed first decides."""

_PRINT_GAPS: tuple[tuple[str, float], ...] = (
    ("relation", 0.75),
    ("binary", 0.6),
    ("name", 0.4),
    ("wide", 0.25),
    ("bar", 0.22),
    ("delimiter", 0.2),
    ("ordinary", 0.18),
    ("before punctuation", 0.18),
    ("after punctuation", 0.5),
)


@dataclass(frozen=True)
class Table:
    """Alignment and spacing of the cells of a multi-line expression; lengths in x-heights."""

    align: str  # l, c or r for each column, repeated
    gap: float  # between columns
    joint: float  # between a right-aligned and a left-aligned column: `x & = 1`
    indent: float = 0.0  # irregular indent of lines

    def share(self, column: int) -> float:
        """Return the share of the free space of a cell that is at its left."""
        return {"l": 0.0, "c": 0.5, "r": 1.0}[self.align[column % len(self.align)]]

    def gaps(self, columns: int) -> list[float]:
        """Return the gap after each column."""
        shares = [self.share(column) for column in range(columns + 1)]
        return [self.joint if pair == (1.0, 0.0) else self.gap for pair in pairwise(shares)]


_MATRIX = Table("c", gap=1.7, joint=1.7)
_TABLES = {
    "": Table("l", gap=0.6, joint=0.6, indent=0.5),
    "cases": Table("l", gap=1.7, joint=1.7, indent=0.3),
    "gathered": Table("c", gap=1.7, joint=1.7),
    **dict.fromkeys(("aligned", "align", "split"), Table("rl", gap=1.7, joint=0.7)),
}
"""By environment; "" is for lines outside of environments. All others are matrices."""


@dataclass(frozen=True)
class LayoutStyle:
    """Lengths of the layout, in x-heights, and their random variation."""

    script_size: float = SCRIPT_SIZE  # of a script relative to its base
    smallest: float = 0.36  # size below which nested scripts do not shrink further
    upper_drop: float = 0.25  # baseline of a superscript below the top of a tall base
    upper_height: float = 1.05  # minimum height of a superscript's baseline above that of its base
    lower_drop: float = -0.05  # baseline of a subscript below the bottom of a deep base
    lower_depth: float = 0.3  # minimum depth of a subscript's baseline below that of its base
    script_gap: float = 0.23  # between a base and its scripts
    limit_gap: float = 0.38  # between a big operator and its limits
    fraction_size: float = 0.82  # of numerator and denominator relative to the line
    fraction_gap: float = 0.38  # between bar and numerator or denominator
    overhang: float = 0.28  # of a fraction bar on each side
    radical_size: float = 0.9  # of the radicand relative to the line
    radical_gap: float = 0.8  # between the bar of a radical and the radicand
    line_gap: float = 1.2  # between lines
    accent_gap: float = 0.25  # between an accent and what it stands on
    rule: float = 0.0  # thickness of lines in print; 0 for strokes of a pen
    exact: bool = False  # symbols keep their size and baseline, as the glyphs of a font do
    gaps: tuple[tuple[str, float], ...] = _GAPS  # between neighbors, by kind
    sum_limits_beside: float = 0.06  # share of sums with limits beside the operator
    integral_limits_beside: float = 0.3  # share of integrals with limits beside the operator
    spacing: float = 1.0  # factor on all gaps between symbols
    irregularity: float = 1.0  # factor on all of the following
    size_habit: float = 0.16  # relative, of sizes between writers
    length_habit: float = 0.28  # relative, of gaps between writers
    wander: float = 0.06  # of the baseline from symbol to symbol
    size_jitter: float = 0.06  # relative, of a symbol
    part_jitter: float = 0.13  # relative, of the size of a script, numerator, …
    spacing_jitter: float = 0.32  # relative, of a gap between neighbors
    spacing_shift: float = 0.18  # absolute, of a gap between neighbors
    gap_jitter: float = 0.45  # relative, of any other gap
    shift_jitter: float = 0.22  # of the position of a script, a fraction bar, …
    rotation: float = 0.03  # of a symbol, in radians
    slant: float = 0.03  # of a symbol, as a tangent
    slope: float = 0.015  # of the whole expression, in radians

    def for_writer(self, rng: np.random.Generator) -> LayoutStyle:
        """Return the style of a random writer."""
        return replace(
            self,
            **self._vary(_SIZES, self.size_habit, rng),
            **self._vary(_LENGTHS, self.length_habit, rng),
        )

    def _vary(
        self, names: Sequence[str], spread: float, rng: np.random.Generator
    ) -> dict[str, Any]:
        factors = np.exp(rng.normal(0.0, spread * self.irregularity, len(names))).tolist()
        return {
            name: getattr(self, name) * factor for name, factor in zip(names, factors, strict=True)
        }


_SIZES = ("script_size", "fraction_size", "radical_size", "upper_height")
_LENGTHS = (
    "lower_depth",
    "script_gap",
    "limit_gap",
    "fraction_gap",
    "overhang",
    "radical_gap",
    "line_gap",
    "spacing",
)

NATURAL = LayoutStyle()
"""Lengths and variation measured on handwritten expressions."""

PRINT = LayoutStyle(
    script_size=0.7,
    smallest=0.5,
    upper_drop=0.6,
    upper_height=0.95,
    lower_drop=0.15,
    lower_depth=0.4,
    script_gap=0.1,
    limit_gap=0.35,
    fraction_size=0.9,
    fraction_gap=0.3,
    overhang=0.12,
    radical_size=1.0,
    radical_gap=0.3,
    line_gap=1.1,
    accent_gap=0.18,
    rule=0.1,
    exact=True,
    gaps=_PRINT_GAPS,
    sum_limits_beside=0.25,
    integral_limits_beside=0.8,
    irregularity=0.0,
)
"""Lengths of TeX, without variation, for symbols that are contours; see `AlignedInk.filled`."""


def lay_out(
    tokens: Sequence[str],
    bank: SymbolBank,
    rng: np.random.Generator,
    style: LayoutStyle = NATURAL,
    writer: str | None = None,
    name: str = "",
) -> AlignedInk:
    """Lay out an expression with the symbols of a bank.

    Args:
        tokens: The caption.
        bank: The symbols.
        rng: Random generator.
        style: Lengths and their variation.
        writer: The writer of the symbols; by default a random one who wrote many of the tokens.
            Missing symbols come from writers of similar style.
        name: Name of the result.

    Returns:
        The ink, aligned with the tokens.

    Raises:
        LatexError: The tokens are not an expression that can be written down.
        DataError: Nobody wrote one of the tokens.
    """
    tree = parse(tokens, max_depth=WRITABLE_DEPTH)
    if writer is None:
        writer = choose_writer(tokens, bank, rng)
    box = _LayoutEngine(tokens, bank, rng, style.for_writer(rng), writer).lines(tree.root, 1.0)
    if not box.pieces:
        raise LatexError("there is nothing to write")
    slope = float(rng.normal(0.0, style.slope * style.irregularity))
    strokes, alignment = _strokes(box, len(tokens), slope)
    return AlignedInk(name, tuple(tokens), strokes, alignment, writer, filled=style.rule > 0)


def choose_writer(
    tokens: Sequence[str], bank: SymbolBank, rng: np.random.Generator, tries: int = 12
) -> str:
    """Return, of a few random writers, the one who wrote most of the tokens."""
    needed = bank.tokens.intersection(tokens)
    sampled = rng.integers(len(bank.lead_writers), size=tries).tolist()
    candidates = [bank.lead_writers[index] for index in sampled]
    return max(candidates, key=lambda writer: len(needed & bank.written_by(writer)))


def _strokes(
    box: Box, tokens: int, slope: float
) -> tuple[tuple[np.ndarray, ...], tuple[tuple[int, ...], ...]]:
    """Return the strokes of a box in the order of the tokens, and the strokes of each token."""
    rotation = UNITS * np.array([[1.0, slope], [-slope, 1.0]], np.float32)
    strokes: list[np.ndarray] = []
    alignment: list[tuple[int, ...]] = [()] * tokens
    for piece in sorted(box.pieces, key=lambda piece: piece.index):
        points = np.rint((piece.points + np.array([piece.x, piece.y], np.float32)) @ rotation)
        alignment[piece.index] += tuple(range(len(strokes), len(strokes) + len(piece.lengths)))
        start = 0
        for length in piece.lengths:
            strokes.append(points[start : start + length])
            start += length
    return tuple(strokes), tuple(alignment)


class _LayoutEngine:
    """Lays out one expression in the style of one writer."""

    def __init__(
        self,
        tokens: Sequence[str],
        bank: SymbolBank,
        rng: np.random.Generator,
        style: LayoutStyle,
        writer: str,
    ) -> None:
        self.tokens, self.bank, self.rng, self.style, self.writer = tokens, bank, rng, style, writer
        self.normals: list[float] = []
        self.font = ""  # the command around the current row, such as `\\mathbb`

    def noise(self, spread: float) -> float:
        """Return a random length with standard deviation `spread`, clipped."""
        if not self.normals:
            self.normals = np.clip(self.rng.standard_normal(64), -2.5, 2.5).tolist()
        return self.normals.pop() * spread * self.style.irregularity

    def factor(self, spread: float) -> float:
        return math.exp(self.noise(spread))

    # Lines and rows.

    def lines(self, row: Row, size: float) -> Box:
        """Lay out lines and their cells below each other."""
        cells = [[self.row(nodes, size) for nodes in line] for line in row.lines]
        if len(cells) == 1 and len(cells[0]) == 1:
            box = cells[0][0]
        else:
            box = _centered(self.grid(cells, self.table(row.owner), size), size)
        if row.owner is None or not box.pieces:
            return box
        return self.fenced(row.start, row.end, box, size)

    def table(self, environment: Node | None) -> Table:
        """Return the alignment and spacing of cells."""
        if environment is None:
            return _TABLES[""]
        name = environment.token[len("\\begin{") : -1].rstrip("*")
        table = _TABLES.get(name, _MATRIX)
        letters = environment.option.nodes if environment.option else ()
        columns = "".join(node.token for node in letters if node.token in ("l", "c", "r"))
        return replace(table, align=columns) if columns else table

    def grid(self, cells: Sequence[Sequence[Box]], table: Table, size: float) -> Box:
        """Arrange cells in lines and columns."""
        widths = [0.0] * max(len(line) for line in cells)
        for line in cells:
            for column, cell in enumerate(line):
                widths[column] = max(widths[column], cell.width)
        gaps = [gap * size * self.factor(0.2) for gap in table.gaps(len(widths))]
        box, baseline = Box(), 0.0
        for number, line in enumerate(cells):
            if number:
                gap = size * self.style.line_gap * self.factor(0.2)
                baseline += gap - min(cell.top for cell in line)
            x = abs(self.noise(table.indent)) * size
            for column, (cell, width) in enumerate(zip(line, widths, strict=False)):
                slack = (width - cell.width) * table.share(column)
                shift = self.noise(0.15) * size if column else 0.0
                box.put(cell, x + slack + shift, baseline)
                x += width + gaps[column]
            baseline += max(cell.bottom for cell in line)
        return box

    def fenced(self, begin: int, end: int, inner: Box, size: float) -> Box:
        """Add the delimiters of an environment: a brace, parentheses, bars."""
        box, x = Box(), 0.0
        top, bottom = inner.top, inner.bottom
        gap = 0.45 * size * self.style.spacing
        for symbol in fence_of(self.tokens[begin]):
            fence = self.stretched(begin, symbol, (top, bottom), size)
            box.put(fence, x, 0.0)
            x = box.width + gap * self.factor(0.3)
        box.put(inner, x, 0.0)
        for symbol in fence_of(self.tokens[end]):
            fence = self.stretched(end, symbol, (top, bottom), size)
            box.put(fence, box.width + gap * self.factor(0.3), 0.0)
        return box

    def row(self, nodes: Sequence[Node], size: float) -> Box:
        box = Box()
        x, wander = 0.0, 0.0
        for number, (node, inner) in enumerate(zip(nodes, self.boxes(nodes, size), strict=True)):
            if number:
                x += self.gap(nodes[number - 1], node) * size
            wander = 0.7 * wander + self.noise(self.style.wander) * size
            box.put(inner, x, wander)
            x += inner.width
        return box

    def boxes(self, nodes: Sequence[Node], size: float) -> list[Box]:
        """Lay out a row; delimiters come last, because they grow with their content."""
        boxes = {
            index: self.node(node, size)
            for index, node in enumerate(nodes)
            if node.token not in _DELIMITERS
        }
        for index, enclosed in _enclosed(nodes):
            inner = [boxes[other] for other in enclosed if other in boxes]
            boxes[index] = self.node(nodes[index], size, inner)
        for index, node in enumerate(nodes):
            if index not in boxes:
                inner = [boxes[other] for other in (index - 1, index + 1) if other in boxes]
                boxes[index] = self.node(node, size, inner)
        return [boxes[index] for index in range(len(nodes))]

    def gap(self, left: Node, right: Node) -> float:
        kinds = _spacing(left), _spacing(right)
        if kinds[1] == "punctuation":
            kinds = ("before punctuation", "before punctuation")
        elif kinds[0] == "punctuation":
            kinds = ("after punctuation", "after punctuation")
        usual = next(gap for kind, gap in self.style.gaps if kind in kinds)
        # Round delimiters may overlap their content, but nothing may overlap a script.
        is_symbol = not (left.scripts or left.arguments)
        loose = 1.7 if "delimiter" in kinds and is_symbol else 1.0
        gap = usual * self.style.spacing * self.factor(self.style.spacing_jitter)
        return max(gap + self.noise(self.style.spacing_shift * loose), -0.2 * loose)

    # Nodes.

    def node(self, node: Node, size: float, inner: Sequence[Box] = ()) -> Box:
        return self.scripted(node, size, inner) if node.scripts else self.base(node, size, inner)

    def base(self, node: Node, size: float, inner: Sequence[Box]) -> Box:
        """Lay out a node without its scripts."""
        if not node.arguments:
            return self.symbol(node.index, size, inner) if node.token else Box()
        if node.token == "{":
            return self.row(node.arguments[0].nodes, size)
        if node.is_environment:
            return self.lines(node.arguments[0], size)
        if node.token in _FRACTIONS:
            return self.fraction(node, size)
        if node.token in _ROOTS:
            return self.radical(node, size)
        if node.token in _FONTS:
            return self.styled(node, size)
        if node.token in _STACKS:
            return self.stack(node, size)
        if node.token in _BINOMIALS:
            return self.binomial(node, size)
        if node.token in MARKS:
            return self.marked(node, size)
        raise LatexError("cannot be written by hand yet", node.token, node.index + 1)

    def symbol(self, index: int, size: float, inner: Sequence[Box]) -> Box:
        token = self.tokens[index]
        if token in _DELIMITERS and inner:
            top, bottom = min(box.top for box in inner), max(box.bottom for box in inner)
            if bottom - top > 2.2 * size:
                return self.stretched(index, token, (top, bottom), size)
        if token in _NAMES and token not in self.bank.tokens:
            return self.spelled(index, size)
        if self.font:
            return self.styled_letter(index, size)
        return self.letter(index, token, size)

    def letter(self, index: int, token: str, size: float) -> Box:
        """A symbol in its usual size."""
        sample = self.plausible(token)
        if self.style.exact:
            return self.exact(index, sample, size)
        usual = vertical_extent(token)
        scale = size / sample.unit * self.factor(self.style.size_jitter)
        if usual.height >= 0.5:
            height = max(sample.height * scale / size, 1e-6)
            scale *= min(max(height, 0.75 * usual.height), 1.3 * usual.height) / height
        rise = sample.baseline * scale / size
        rise = min(max(rise, usual.top - 0.3), usual.top + 0.3)
        return self.placed(index, sample, (scale, scale), -rise * size)

    def plausible(self, token: str, tries: int = 4) -> SymbolSample:
        """A sample; a minus sign as long as a fraction bar or a torn plus sign is a slip."""
        symbol = SYMBOLS.get(token)
        sample = self.bank.choose(token, self.rng, self.writer)
        if symbol is None or symbol.kind not in _COMPACT:
            return sample
        for _ in range(tries):
            if sample.width < _WIDEST * sample.unit:
                break
            sample = self.bank.choose(token, self.rng, self.writer)
        return sample

    def exact(self, index: int, sample: SymbolSample, size: float) -> Box:
        """A glyph as it is in its font; big operators are larger and centered, as in TeX."""
        symbol = SYMBOLS.get(sample.token)
        if symbol is None or symbol.kind != "big":
            scale = size / sample.unit
            return self.placed(index, sample, (scale, scale), -sample.baseline * scale)
        scale = size * (4.8 if "int" in sample.token else 3.0) / sample.height
        return _centered(self.placed(index, sample, (scale, scale), 0.0), size)

    def spelled(self, index: int, size: float) -> Box:
        """A function name that nobody wrote, with the letters of the writer."""
        token = self.tokens[index]
        box, x = Box(), 0.0
        for letter in SPELLED_NAMES.get(token, token[1:]):
            if letter == " ":
                x += 0.3 * size
                continue
            inner = self.letter(index, letter, size)
            box.put(inner, x, self.noise(0.5 * self.style.wander) * size)
            x += inner.width + 0.16 * size * self.factor(0.4)
        return box

    def styled(self, node: Node, size: float) -> Box:
        r"""The argument of a command such as `\mathbb`; the ink belongs to the letters."""
        outer, self.font = self.font, node.token.replace("scr", "cal")
        try:
            return self.row(node.arguments[0].nodes, size)
        finally:
            self.font = outer

    def styled_letter(self, index: int, size: float) -> Box:
        token = self.tokens[index]
        styled = f"{self.font}{{{token}}}"
        if styled in self.bank.tokens:
            return self.letter(index, styled, size)
        if self.font != r"\mathbb" or not token.isalnum():
            raise DataError(f"the symbol bank has no ink for '{styled}'")
        box = self.letter(index, token, size)  # with a second stem
        top, bottom = 0.97 * box.top, 0.97 * box.bottom
        stem = self.mark(index, lambda _, height: [([(0, 0), (0, height)], ())], 0, bottom - top)
        box.put(stem, (0.15 + max(self.noise(0.06), -0.1)) * size, top)
        return box

    def stretched(self, index: int, symbol: str, covered: tuple[float, float], size: float) -> Box:
        """Lay out a delimiter that covers a vertical range, with some variation."""
        top, bottom = covered
        span = (bottom - top) * self.factor(0.06) + 0.1 * size
        middle = (top + bottom) / 2 + self.noise(0.06) * size
        sample = self.nearest(
            symbol, lambda sample: abs(math.log(sample.relative_height * size / span))
        )
        plain, down = size / sample.unit, span / sample.height
        across = plain * min(max(down / plain, 0.7), 3.0) ** 0.4
        return self.placed(index, sample, (across, down), middle - span / 2, wobble=0.4)

    def nearest(
        self, token: str, distance: Callable[[SymbolSample], float], tries: int = 5
    ) -> SymbolSample:
        """Return, of a few random samples, the one with the smallest distance."""
        candidates = [self.bank.choose(token, self.rng, self.writer) for _ in range(tries)]
        return min(candidates, key=distance)

    def placed(
        self,
        index: int,
        sample: SymbolSample,
        scale: tuple[float, float],
        top: float,
        wobble: float = 1.0,
    ) -> Box:
        """Return the box of a scaled, slightly rotated symbol whose ink begins at `top`."""
        turn = self.noise(self.style.rotation) * wobble
        slant = self.noise(self.style.slant) * wobble
        across, down = scale
        matrix = np.array([[across, across * turn], [down * (-slant - turn), down]], np.float32)
        return Box.of(index, sample.points @ matrix, sample.lengths, top)

    def mark(self, index: int, shape: Shape, width: float, height: float) -> Box:
        """Strokes drawn by rule, the upper edge at the baseline."""
        strokes = draw_mark(shape, width, height, self.noise)
        if self.style.rule:
            strokes = [outline(stroke, self.style.rule) for stroke in strokes]
        lengths = tuple(len(stroke) for stroke in strokes)
        return Box.of(index, np.concatenate(strokes), lengths, 0.0)

    def marked(self, node: Node, size: float) -> Box:
        """An accent, something around its argument, or an arrow with its labels."""
        mark = MARKS[node.token]
        if mark.place == "alone":
            return self.long_arrow(node, size)
        circled = node.token == r"\textcircled"
        body = self.row(node.arguments[0].nodes, 0.7 * size if circled else size)
        if not body.pieces:
            body = Box(0.8 * size, -size, 0.0)
        if mark.place == "around":
            return self.surrounded(node, body, size)
        height = mark.height * size * self.factor(0.2)
        if mark.width:
            width = mark.width * size * self.factor(0.3)
        else:
            width = max(body.width + self.noise(0.15) * size, 0.5 * size)
        accent = self.accent(node.index, mark.shape, (width, height), size)
        lean = 0.12 * size if mark.width and mark.place == "above" else 0.0  # tops lean right
        x = (body.width - accent.width) / 2 + lean + self.noise(0.15) * size
        gap = self.style.accent_gap * size * self.factor(1.5 * self.style.gap_jitter)
        y = body.bottom + gap if mark.place == "below" else body.top - gap - accent.bottom
        shift = max(0.0, -x)
        box = Box()
        box.put(body, shift, 0.0)
        box.put(accent, x + shift, y)
        return box

    def accent(self, index: int, shape: Shape, extent: tuple[float, float], size: float) -> Box:
        """An accent of its own glyph if the bank has one, else drawn by rule."""
        token = self.tokens[index]
        if token not in self.bank.tokens:
            return self.mark(index, shape, *extent)
        sample = self.bank.choose(token, self.rng, self.writer)
        scale = size / sample.unit
        return self.placed(index, sample, (scale, scale), 0.0)

    def surrounded(self, node: Node, body: Box, size: float) -> Box:
        """A circle or a frame around something, or strokes through it."""
        shape = MARKS[node.token].shape
        margin = 0.1 if node.token.endswith("cancel") else 0.35
        margin *= size * self.factor(0.2)
        width, height = body.width + 2 * margin, body.bottom - body.top + 2 * margin
        if node.token == r"\textcircled":
            height = width = max(width, height)
        box = Box()
        x, middle = (width - body.width) / 2, (body.top + body.bottom) / 2
        box.put(body, x, 0.0)
        box.put(self.mark(node.index, shape, width, height), 0.0, middle - height / 2)
        return box

    def long_arrow(self, node: Node, size: float) -> Box:
        """An arrow as long as the labels above and below it."""
        script = self.part_size(size, self.style.script_size)
        upper = self.row(node.arguments[0].nodes, script)
        lower = None if node.option is None else self.row(node.option.nodes, script)
        longest = max(upper.width, lower.width if lower else 0.0) + 1.2 * size * self.factor(0.2)
        mark = MARKS[node.token]
        arrow = self.mark(node.index, mark.shape, max(longest, 2 * size), mark.height * size)
        return self.with_limits(_centered(arrow, size), lower, upper, size)

    def stack(self, node: Node, size: float) -> Box:
        """Something small above or below something else."""
        small, base = node.arguments
        label = self.row(small.nodes, self.part_size(size, self.style.script_size))
        below = node.token == r"\underset"
        body = self.row(base.nodes, size)
        lower, upper = (label, None) if below else (None, label)
        return self.with_limits(body, lower, upper, size)

    def binomial(self, node: Node, size: float) -> Box:
        """Two rows between parentheses."""
        inner = self.part_size(size, self.style.fraction_size)
        upper, lower = (self.row(part.nodes, inner) for part in node.arguments)
        gap = (self.style.fraction_gap + 0.3) * size * self.factor(self.style.gap_jitter)
        width = max(upper.width, lower.width)
        rows = Box()
        rows.put(upper, (width - upper.width) / 2, 0.0)
        rows.put(lower, (width - lower.width) / 2, upper.bottom + gap - lower.top)
        rows = _centered(rows, size)
        covered = (rows.top, rows.bottom)
        box = self.stretched(node.index, "(", covered, size)
        gap = 0.3 * size * self.style.spacing
        box.put(rows, box.width + gap * self.factor(0.3), 0.0)
        closing = self.stretched(node.index, ")", covered, size)
        box.put(closing, box.width + gap * self.factor(0.3), 0.0)
        return box

    def fraction(self, node: Node, size: float) -> Box:
        inner = self.part_size(size, self.style.fraction_size)
        upper, lower = (self.row(part.nodes, inner) for part in node.arguments)
        width = max(upper.width, lower.width, 0.6 * size)
        overhang = self.style.overhang + max(self.noise(0.2), -0.3)
        if any(_holds_fraction(part) for part in node.arguments):
            overhang = abs(overhang) + 0.2  # the main bar must be the longest
        length = width + 2 * size * overhang
        bar = self.bar(node.index, length, size)
        box = Box()
        top, bottom = bar.top, bar.bottom
        box.put(bar, 0.0, 0.0)
        for part, above in ((upper, True), (lower, False)):
            gap = self.style.fraction_gap * size * self.factor(self.style.gap_jitter)
            y = top - gap - part.bottom if above else bottom + gap - part.top
            slack = length - part.width
            box.put(part, slack / 2 + self.noise(0.05) * length, y)
        return box

    def part_size(self, size: float, relative: float) -> float:
        """Return the size of a part: smaller than its parent, but readable."""
        wanted = size * relative * self.factor(self.style.part_jitter)
        return min(max(wanted, min(self.style.smallest, 0.9 * size)), size)

    def bar(self, index: int, length: float, size: float) -> Box:
        if self.style.rule:
            points = _rectangle(0.0, 0.0, length, self.style.rule)
            return _centered(Box.of(index, points, (4,), 0.0), size)
        token = "\\frac" if "\\frac" in self.bank.tokens else "-"
        sample = self.nearest(
            token, lambda sample: abs(math.log((sample.width / sample.unit + 0.01) * size / length))
        )
        points = stretch_bar(sample, length, thickest=min(0.3 * size, 0.12 * length))
        box = Box.of(index, points, sample.lengths, 0.0)
        return _centered(box, size, self.noise(self.style.shift_jitter) * size)

    def radical(self, node: Node, size: float) -> Box:
        inner = self.part_size(size, self.style.radical_size)
        body = self.row(node.arguments[0].nodes, inner)
        gap = self.style.radical_gap * inner * self.factor(self.style.gap_jitter)
        top = min(body.top, -0.9 * inner) - gap
        bottom = max(body.bottom, 0.0) + self.noise(0.35) * inner
        before, behind = (0.12, 0.25) if self.style.rule else (0.4, 0.9)
        bar = body.width + inner * (behind + max(self.noise(0.6), -0.6))
        sign, hook = self.radical_sign(node.index, (top, bottom), bar, 0.8 * gap, size)
        box = Box()
        box.put(sign, 0.0, 0.0)
        box.put(body, hook + before * inner * self.factor(0.4), 0.0)
        return box if node.option is None else self.with_degree(box, node.option, hook, size)

    def radical_sign(
        self, index: int, span: tuple[float, float], bar: float, clearance: float, size: float
    ) -> tuple[Box, float]:
        """Return the sign with its bar, and the x coordinate where the bar begins."""
        height = span[1] - span[0]
        candidates = [self.bank.choose("\\sqrt", self.rng, self.writer) for _ in range(5)]
        hooks = [(sample, hook_of(sample)) for sample in candidates]
        barred = [(sample, hook) for sample, hook in hooks if hook is not None]
        if self.style.exact or (self.style.rule and not barred):
            return self.printed_radical(index, span, bar, size)
        sample, hook = min(
            barred or [(candidates[0], 0.5 * candidates[0].width)],
            key=lambda pair: abs(math.log(pair[0].relative_height * size / height)),
        )
        plain, down = size / sample.unit, height / max(sample.height, 1e-6)
        sign = hook * plain * min(max(down / plain, 0.5), 2.5) ** 0.8
        sign = min(max(sign, 0.7 * size), 2.5 * size)
        points = stretch_radical(sample, hook, sign, bar, height, clearance)
        return Box.of(index, points, sample.lengths, span[0]), sign

    def printed_radical(
        self, index: int, span: tuple[float, float], bar: float, size: float
    ) -> tuple[Box, float]:
        """The sign of a font, stretched, with a bar at its upper right corner."""
        sample = self.bank.choose("\\sqrt", self.rng, self.writer)
        height, plain = span[1] - span[0], size / sample.unit
        down = height / sample.height
        across = plain * min(max(down / plain, 0.7), 2.0) ** 0.4
        width, rule = sample.width * across, self.style.rule
        points = sample.points * np.array([across, down], np.float32)
        line = _rectangle(width - 0.5 * rule, 0.0, width + bar, rule)
        lengths = (*sample.lengths, 4)
        return Box.of(index, np.concatenate([points, line]), lengths, span[0]), width

    def with_degree(self, radical: Box, degree: Row, hook: float, size: float) -> Box:
        """Add the index of a root above the left half of the sign."""
        degree_box = self.row(degree.nodes, max(0.55 * size, min(size, 0.8 * self.style.smallest)))
        middle = (radical.top + radical.bottom) / 2
        right = 0.5 * hook + self.noise(0.08) * size
        shift = max(0.0, degree_box.width - right)
        box = Box()
        box.put(
            degree_box, max(0.0, right - degree_box.width), middle - 0.1 * size - degree_box.bottom
        )
        box.put(radical, shift, 0.0)
        return box

    # Scripts.

    def scripted(self, node: Node, size: float, inner: Sequence[Box]) -> Box:
        base = self.base(node, size, inner)
        lower_row, upper_row = node.script("_"), node.script("^")
        if lower_row is None and upper_row is not None and _is_primes(upper_row):
            return self.with_primes(base, self.row(upper_row.nodes, size), size)
        script = self.part_size(size, self.style.script_size)
        raised = script
        if upper_row is not None and _is_degree(upper_row) and not self.style.exact:
            raised = script * 1.5 * self.factor(0.3)  # people write it larger than a composition
        upper = None if upper_row is None else self.row(upper_row.nodes, raised)
        lower = None if lower_row is None else self.row(lower_row.nodes, script)
        symbol = SYMBOLS.get(node.token)
        if node.token in ("\\overbrace", "\\underbrace"):
            return self.with_limits(base, lower, upper, size)
        if symbol is not None and symbol.limits and self.under_and_over(node.token):
            return self.with_limits(base, lower, upper, size)
        return self.with_scripts(base, lower, upper, size)

    def with_primes(self, base: Box, primes: Box, size: float) -> Box:
        """Add primes, which are as high as in the row of the base."""
        box = Box()
        box.put(base, 0.0, 0.0)
        lift = min(0.0, box.top + 1.5 * size)
        box.put(primes, box.width + self.script_gap(size), lift)
        return box

    def under_and_over(self, token: str) -> bool:
        beside = {"\\int": self.style.integral_limits_beside, "\\lim": 0.0}
        return float(self.rng.random()) >= beside.get(token, self.style.sum_limits_beside)

    def with_limits(self, base: Box, lower: Box | None, upper: Box | None, size: float) -> Box:
        """Add limits above and below a big operator."""
        widest = max(part.width for part in (base, lower, upper) if part is not None)
        top, bottom = base.top, base.bottom
        box = Box()
        box.put(base, (widest - base.width) / 2, 0.0)
        for part, above in ((upper, True), (lower, False)):
            if part is not None:
                gap = self.style.limit_gap * size * self.factor(self.style.gap_jitter)
                y = top - gap - part.bottom if above else bottom + gap - part.top
                x = (widest - part.width) / 2 + self.noise(0.1) * size
                box.put(part, max(x, 0.0), y)
        return box

    def with_scripts(self, base: Box, lower: Box | None, upper: Box | None, size: float) -> Box:
        """Add scripts at the right of their base."""
        style = self.style
        top, bottom = (base.top, base.bottom) if base.pieces else (-size, 0.0)
        right = base.width
        box = Box()
        box.put(base, 0.0, 0.0)
        ceiling = -math.inf
        if upper is not None:
            rise = max(style.upper_height, -top / size - style.upper_drop)
            y = -size * max(rise + self.noise(style.shift_jitter), 0.65)
            y = min(y, -0.6 * size - upper.bottom)
            ceiling = y + upper.bottom
            box.put(upper, max(0.0, right + self.script_gap(size)), y)
        if lower is not None:
            drop = max(style.lower_depth, bottom / size + style.lower_drop)
            y = size * max(drop + self.noise(style.shift_jitter), 0.2)
            y = max(y, -0.6 * size - lower.top, ceiling + 0.1 * size - lower.top)
            box.put(lower, max(0.0, right + self.script_gap(size)), y)
        return box

    def script_gap(self, size: float) -> float:
        gap = self.style.script_gap + self.noise(self.style.spacing_shift)
        return size * max(gap, -0.03)


def _rectangle(left: float, top: float, right: float, bottom: float) -> np.ndarray:
    """The corners of a rectangle, float32 (4, 2)."""
    return np.array([[left, top], [right, top], [right, bottom], [left, bottom]], np.float32)


def _enclosed(nodes: Sequence[Node]) -> list[tuple[int, range]]:
    """Return the indices of matching delimiters with the range between them, inner pairs first."""
    pairs: list[tuple[int, range]] = []
    opened: list[tuple[str, int]] = []
    for index, node in enumerate(nodes):
        if opened and _OPENING.get(node.token) == opened[-1][0]:
            start = opened.pop()[1]
            pairs.extend((end, range(start + 1, index)) for end in (start, index))
        elif node.token in _PAIRS:
            opened.append((node.token, index))
    return pairs


def _spacing(node: Node) -> str:
    """Return the kind of gap next to a node."""
    if node.arguments:
        return "wide"
    symbol = SYMBOLS.get(node.token)
    return "ordinary" if symbol is None else _SPACING.get(symbol.kind, "ordinary")


def _is_primes(row: Row) -> bool:
    return all(node.token == "\\prime" and not node.scripts for node in row.nodes)


def _is_degree(row: Row) -> bool:
    return [node.token for node in row.nodes] == ["\\circ"]


def _holds_fraction(row: Row) -> bool:
    return any(node.token in _FRACTIONS and not node.scripts for node in row.nodes)


def _centered(box: Box, size: float, shift: float = 0.0) -> Box:
    """Center a box vertically on the axis of its row, plus a shift."""
    centered = Box()
    centered.put(box, 0.0, shift - AXIS * size - (box.top + box.bottom) / 2)
    return centered
