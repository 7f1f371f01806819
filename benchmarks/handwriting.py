"""Compare synthetic handwriting with real handwriting of the same expressions.

python benchmarks/handwriting.py --ink CORPUS [--split S] [--every N]

Lays out the expressions of a corpus with the corpus's own symbols. Prints the 10th, 50th and 90th
percentile of the lengths that a layout determines, for both. Lengths are in x-heights of the line,
except for the size of images.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from posformer.data.ink_dataset import load_ink
from posformer.errors import LatexError
from posformer.ink.aligned import AlignedInk
from posformer.ink.alignment import in_pixels
from posformer.ink.render import rendered_size
from posformer.latex.symbols import SYMBOLS, tokens_of
from posformer.latex.tree import Node, baselines, parse, walk
from posformer.synthesis.bank import SymbolBank
from posformer.synthesis.extents import fit_row
from posformer.synthesis.layout import lay_out

Box = tuple[float, float, float, float]

_FRACTIONS, _ROOTS = tokens_of("fraction"), tokens_of("root")


class Measured:
    """Bounding boxes of the tokens and parts of one expression."""

    def __init__(self, ink: AlignedInk) -> None:
        self.tokens = ink.tokens
        self.boxes: dict[int, Box] = {}
        for place, strokes in enumerate(ink.alignment):
            if strokes:
                points = np.concatenate([ink.strokes[stroke] for stroke in strokes])
                self.boxes[place] = (*points.min(axis=0).tolist(), *points.max(axis=0).tolist())

    def line(self, nodes: Sequence[Node]) -> tuple[float, float] | None:
        """Baseline and x-height of a row."""
        places = [node.index for node in nodes if not node.arguments and node.index in self.boxes]
        edges = [self.boxes[place] for place in places]
        return fit_row(
            [self.tokens[place] for place in places],
            [box[1] for box in edges],
            [box[3] for box in edges],
        )

    def box(self, *nodes: Node) -> Box | None:
        """The box around all ink of a part of the expression."""
        places = [node.index for node in walk(nodes)]
        found = np.array([self.boxes[place] for place in places if place in self.boxes])
        if not len(found):
            return None
        return (*found[:, :2].min(axis=0).tolist(), *found[:, 2:].max(axis=0).tolist())


def lengths(ink: AlignedInk) -> Iterator[tuple[str, float]]:
    """Yield the name and value of all lengths of an expression."""
    height, width = rendered_size(in_pixels(ink).strokes)
    yield from (("image height, pixels", height), ("image width, pixels", width))
    try:
        tree = parse(ink.tokens)
    except LatexError:
        return
    measured = Measured(ink)
    for nodes in baselines(tree):
        line = measured.line(nodes)
        if line is None:
            continue
        for left, right in pairwise(nodes):
            before, after = measured.box(left), measured.box(right)
            if before and after:
                yield "gap between neighbours", (after[0] - before[2]) / line[1]
        for node in nodes:
            yield from _of_scripts(measured, node, *line)
            yield from _of_parts(measured, node, line[1])


def _of_scripts(
    ink: Measured, node: Node, baseline: float, unit: float
) -> Iterator[tuple[str, float]]:
    symbol = SYMBOLS.get(node.token)
    if symbol is not None and symbol.limits:
        return
    for name, operator, side in (("subscript", "_", 1), ("superscript", "^", -1)):
        row = node.script(operator)
        line = None if row is None else ink.line(row.nodes)
        if line is not None:
            yield f"{name} size", line[1] / unit
            yield f"{name} baseline, away from the row's", side * (line[0] - baseline) / unit


def _of_parts(ink: Measured, node: Node, unit: float) -> Iterator[tuple[str, float]]:
    box = ink.boxes.get(node.index)
    parts = [part for row in node.arguments if (part := ink.box(*row.nodes)) is not None]
    if box is None or len(parts) < len(node.arguments):
        return
    if node.token in _FRACTIONS:
        upper, lower = parts
        yield "numerator above bar", (box[1] - upper[3]) / unit
        yield "denominator below bar", (lower[1] - box[3]) / unit
        widest = max(upper[2] - upper[0], lower[2] - lower[0])
        yield "overhang of bar", (box[2] - box[0] - widest) / 2 / unit
    elif node.token in _ROOTS:
        yield "radical above radicand", (parts[0][1] - box[1]) / unit
        yield "radical left of radicand", (parts[0][0] - box[0]) / unit


def collect(inks: Sequence[AlignedInk]) -> dict[str, list[float]]:
    found: dict[str, list[float]] = defaultdict(list)
    for ink in inks:
        for name, length in lengths(ink):
            found[name].append(length)
    return found


def main(
    ink: Annotated[Path, typer.Option(help="InkML corpus.")],
    split: str = "train",
    every: Annotated[int, typer.Option(help="Use every Nth expression.")] = 4,
) -> None:
    corpus = load_ink(ink, split)
    bank, rng = SymbolBank.from_inks(corpus), np.random.default_rng(0)
    chosen = corpus[::every]
    synthetic = collect([lay_out(real.tokens, bank, rng) for real in chosen])
    print(f"{'':40}{'count':>7}  {'real 10/50/90 %':>22}  {'synthetic 10/50/90 %':>22}")
    for name, real in collect(chosen).items():
        shown = [
            "".join(f"{value:7.2f}" for value in np.percentile(lot, [10, 50, 90]))
            for lot in (real, synthetic[name])
        ]
        print(f"{name:40}{len(real):7}  {shown[0]:>22}  {shown[1]:>22}")


if __name__ == "__main__":
    typer.run(main)
