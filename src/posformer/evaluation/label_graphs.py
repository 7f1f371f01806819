r"""Expressions as label graphs, for LgEval, the evaluation tool of the CROHME competitions.

Without strokes or boxes a symbol is known by its path from the first one, as CROHME 2019 laid down
for its offline task (symLG):

    O, x_1, x, 1.0, O           an object: its id, its label, a weight, its path
    O, 2_1, 2, 1.0, OSup
    R, x_1, 2_1, Sup, 1.0       a relation between two objects
"""

import os
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from posformer.atomic import atomic_write
from posformer.errors import DataError
from posformer.evaluation.predictions import Prediction
from posformer.latex.commands import COMMANDS
from posformer.latex.grammar import LOWER, SUBSTRUCTURES, UPPER
from posformer.synthesis.expression import (
    ExpressionError,
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

__all__ = ["GraphObject", "Relation", "label_graph", "write_label_graphs"]

_LABELS = {",": "COMMA", "<": r"\lt", ">": r"\gt", r"\frac": "-"}
_NO_LABEL = "_"  # LgEval's own mark, for the base of a script that has none
_TABLE, _LINE, _CELL = "*M", "*R", "*Cell"  # CROHMELib's objects without ink
_STEPS = {"Right": "R"}  # how CROHME's converter spells relations in paths, where it differs
_SIDES = {UPPER: "Above", LOWER: "Below"}

# Where the groups behind other commands go; fractions, roots and scripts have items of their own.
_ARGUMENTS = {
    name: ("Inside",) * command.arguments
    for name, command in COMMANDS.items()
    if command.template[0] == name
} | {name: tuple(_SIDES[letter] for letter in one.arguments) for name, one in SUBSTRUCTURES.items()}


@dataclass(frozen=True)
class GraphObject:
    """A symbol of a label graph, or a table, a line or a cell."""

    id: str
    label: str
    path: str
    """The relations that lead to it from the first object, behind an `O`."""


@dataclass(frozen=True)
class Relation:
    """How an object stands to the one it hangs on."""

    parent: str
    child: str
    label: str
    """Right, Sup, Sub, Above, Below or Inside; Nrow and NcellR lead to the next line and cell."""


def label_graph(tokens: Sequence[str]) -> tuple[tuple[GraphObject, ...], tuple[Relation, ...]]:
    r"""The objects and relations of an expression, a tree.

    Scripts of operators with `\limits` stand below and above, others are sub- and superscripts; a
    script of a bare group hangs on the last symbol of its main line.

    Raises:
        ExpressionError: When the tokens are no expression; names the token.
    """
    grower = _Grower(tokens)
    tree = parse(tokens)
    if len(tree.lines) == len(tree.lines[0]) == 1:
        grower.row(tree.lines[0][0], None)
    else:
        grower.table(tree, None)
    return tuple(grower.objects), tuple(grower.relations)


def write_label_graphs(
    folder: str | os.PathLike[str], predictions: Iterable[Prediction]
) -> tuple[Path, Path]:
    """Write `truth/NAME.lg` and `prediction/NAME.lg` for LgEval's `evaluate prediction truth`.

    Predictions that are no expression become graphs without objects, which are wrong throughout.

    Returns:
        The two folders.

    Raises:
        DataError: When a truth is no expression, or two names become the same file.
    """
    truths, guesses = Path(folder) / "truth", Path(folder) / "prediction"
    written: set[str] = set()
    for one in predictions:
        file = re.sub(r"[^\w.-]+", "_", one.name) + ".lg"
        if file in written:
            raise DataError(f"{one.name}: another expression has the label graph {file}")
        written.add(file)
        try:
            atomic_write(truths / file, _graph_text(one.name, one.truth))
        except ExpressionError as error:
            raise DataError(f"{one.name}: the truth has no label graph: {error}") from error
        try:
            text = _graph_text(one.name, one.prediction)
        except ExpressionError as error:
            text = f"# {one.name}\n# no expression: {error}\n"
        atomic_write(guesses / file, text)
    return truths, guesses


def _graph_text(name: str, tokens: Sequence[str]) -> str:
    objects, relations = label_graph(tokens)
    lines = [
        f"# {name}",
        f"# Objects({len(objects)}):",
        *(f"O, {one.id}, {one.label}, 1.0, {one.path}" for one in objects),
        "",
        f"# Relations({len(relations)}):",
        *(f"R, {one.parent}, {one.child}, {one.label}, 1.0" for one in relations),
    ]
    return "\n".join(lines) + "\n"


_Link = tuple[GraphObject, str]  # what the next object hangs on, and how


class _Grower:
    """Grows the tree of an expression from its first object."""

    def __init__(self, tokens: Sequence[str]) -> None:
        self.tokens = tokens
        self.objects: list[GraphObject] = []
        self.relations: list[Relation] = []
        self.counts: Counter[str] = Counter()

    def row(self, row: Row, link: _Link | None) -> GraphObject | None:
        """Adds a row; gives its last object on the main line, if there is any."""
        last: GraphObject | None = None
        arguments: list[_Link] = []
        for item in row.items:
            group = item.base if isinstance(item, Scripted) else item
            if arguments and last and isinstance(group, Group):
                self.row(group.row, arguments.pop(0))
                self.scripts(item, last)
                continue
            grown = self.item(item, link)
            arguments = []
            if grown is None:
                continue
            last, link = grown, (grown, "Right")
            if isinstance(item, Symbol):
                arguments = [(grown, side) for side in self.argument_sides(item)]
        return last

    def item(self, item: Item, link: _Link | None) -> GraphObject | None:
        """Adds an item; gives the object that what follows hangs on."""
        if isinstance(item, Group):
            return self.row(item.row, link)
        if isinstance(item, Lines):
            return self.table(item, link)
        if isinstance(item, Scripted):
            base = None if item.base is None else self.item(item.base, link)
            base = base or self.add(_NO_LABEL, link)
            self.scripts(item, base)
            return base
        return self.symbol(item, link)

    def symbol(self, item: Symbol | Fraction | Radical, link: _Link | None) -> GraphObject:
        token = self.tokens[item.place]
        grown = self.add(_LABELS.get(token, token), link)
        if isinstance(item, Fraction):
            self.row(item.upper, (grown, "Above"))
            self.row(item.lower, (grown, "Below"))
        elif isinstance(item, Radical):
            self.row(item.body, (grown, "Inside"))
            self.row(item.degree or Row(()), (grown, "Above"))
        return grown

    def scripts(self, item: Item, base: GraphObject) -> None:
        if isinstance(item, Scripted):
            lower, upper = ("Below", "Above") if item.limits else ("Sub", "Sup")
            self.row(item.lower or Row(()), (base, lower))
            self.row(item.upper or Row(()), (base, upper))

    def table(self, lines: Lines, link: _Link | None) -> GraphObject:
        table = self.add(_TABLE, link)
        to_line: _Link = (table, "Inside")
        for cells in lines.lines:
            line = self.add(_LINE, to_line)
            to_line, to_cell = (line, "Nrow"), (line, "Inside")
            for row in cells:
                cell = self.add(_CELL, to_cell)
                to_cell = (cell, "NcellR")
                self.row(row, (cell, "Inside"))
        return table

    def add(self, label: str, link: _Link | None) -> GraphObject:
        self.counts[label] += 1
        path = "O" if link is None else link[0].path + _STEPS.get(link[1], link[1])
        grown = GraphObject(f"{label}_{self.counts[label]}", label, path)
        self.objects.append(grown)
        if link is not None:
            self.relations.append(Relation(link[0].id, grown.id, link[1]))
        return grown

    def argument_sides(self, item: Symbol) -> Sequence[str]:
        return _ARGUMENTS.get(self.tokens[item.place], ())
