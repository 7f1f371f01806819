r"""Label graphs for LgEval, the evaluation tool of the CROHME competitions.

Without strokes, a symbol is identified by its path from the first symbol, as in the offline task of
CROHME 2019 (symLG):

    O, x_1, x, 1.0, O           an object: its id, its label, a weight, its path
    O, 2_1, 2, 1.0, OSup
    R, x_1, 2_1, Sup, 1.0       a relation between two objects
"""

import os
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from posformer.atomic import atomic_write
from posformer.errors import DataError, LatexError
from posformer.evaluation.predictions import Prediction
from posformer.latex.symbols import LOWER, STRUCTURE_TOKENS, UPPER, tokens_of
from posformer.latex.tree import WRITABLE_DEPTH, Node, Row, parse

_LABELS = {",": "COMMA", "<": r"\lt", ">": r"\gt", r"\frac": "-"}
_NO_LABEL = "_"  # LgEval's own mark, for the base of a script that has none
_TABLE, _LINE, _CELL = "*M", "*R", "*Cell"  # CROHMELib's objects without ink
_STEPS = {"Right": "R"}  # how CROHME's converter spells relations in paths, where it differs
_RELATIONS = {UPPER: "Above", LOWER: "Below"}  # of arguments; all others are inside
_ROOTS = tokens_of("root")


class GraphObject(NamedTuple):
    """A symbol, a table, a line, or a cell."""

    id: str
    label: str
    path: str
    """The relations that lead to it from the first object, behind an `O`."""


class Relation(NamedTuple):
    """The relation of an object to its parent."""

    parent: str
    child: str
    label: str
    """Right, Sup, Sub, Above, Below or Inside; Nrow and NcellR lead to the next line and cell."""


def label_graph(tokens: Sequence[str]) -> tuple[tuple[GraphObject, ...], tuple[Relation, ...]]:
    r"""Return the objects and relations of an expression, which form a tree.

    Scripts of operators with `\limits` are below and above, others are sub- and superscripts. A
    script of a bare group belongs to the last symbol of its main line.

    Raises:
        LatexError: The tokens are not an expression; names the token.
    """
    grower = _Grower()
    root = parse(tokens, max_depth=WRITABLE_DEPTH).root
    lines = root.lines
    if len(lines) == len(lines[0]) == 1:
        grower.row(root.nodes, (None, ""))
    else:
        grower.table(root, (None, ""))
    return tuple(grower.objects), tuple(grower.relations)


def write_label_graphs(
    folder: str | os.PathLike[str], predictions: Iterable[Prediction]
) -> tuple[Path, Path]:
    """Write `truth/NAME.lg` and `prediction/NAME.lg` for LgEval's `evaluate prediction truth`.

    A prediction that is not an expression becomes a graph without objects.

    Returns:
        The two folders.

    Raises:
        DataError: A truth is not an expression, or two names become the same file.
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
        except LatexError as error:
            raise DataError(f"{one.name}: the truth has no label graph: {error}") from error
        try:
            text = _graph_text(one.name, one.prediction)
        except LatexError as error:
            text = f"# {one.name}\n# not an expression: {error}\n"
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


_Link = tuple[GraphObject | None, str]  # the parent of the next object, and their relation


class _Grower:
    """Grows the graph of an expression from its first object."""

    def __init__(self) -> None:
        self.objects: list[GraphObject] = []
        self.relations: list[Relation] = []
        self.counts: Counter[str] = Counter()

    def row(self, nodes: Sequence[Node], link: _Link) -> GraphObject | None:
        """Add the nodes of a row; return its last object on the main line, if there is any."""
        last: GraphObject | None = None
        for node in nodes:
            grown = self.node(node, link)
            if grown is not None:
                last, link = grown, (grown, "Right")
        return last

    def node(self, node: Node, link: _Link) -> GraphObject | None:
        """Add a node; return the parent of the next object, if there is any."""
        grown: GraphObject | None = None
        parts: list[tuple[Row | None, str]] = []
        if node.token == "{":
            grown = self.row(node.arguments[0].nodes, link)
        elif node.is_environment:
            grown = self.table(node.arguments[0], link)
        elif node.token in STRUCTURE_TOKENS:
            raise LatexError("does not belong to anything", node.token, node.index + 1)
        elif node.token:
            grown = self.add(_LABELS.get(node.token, node.token), link)
            relations = {} if node.token in _ROOTS else _RELATIONS
            parts = [(row, relations.get(row.position, "Inside")) for row in node.arguments]
            parts.append((node.option, "Above"))
        if node.scripts:
            grown = grown or self.add(_NO_LABEL, link)
            below, above = ("Below", "Above") if node.limits >= 0 else ("Sub", "Sup")
            parts += [(node.script("_"), below), (node.script("^"), above)]
        for row, relation in parts:
            if row is not None:
                self.row(row.nodes, (grown, relation))
        return grown

    def table(self, row: Row, link: _Link) -> GraphObject:
        table = self.add(_TABLE, link)
        to_line: _Link = (table, "Inside")
        for cells in row.lines:
            line = self.add(_LINE, to_line)
            to_line, to_cell = (line, "Nrow"), (line, "Inside")
            for nodes in cells:
                cell = self.add(_CELL, to_cell)
                to_cell = (cell, "NcellR")
                self.row(nodes, (cell, "Inside"))
        return table

    def add(self, label: str, link: _Link) -> GraphObject:
        self.counts[label] += 1
        parent, relation = link
        path = parent.path + _STEPS.get(relation, relation) if parent else "O"
        grown = GraphObject(f"{label}_{self.counts[label]}", label, path)
        self.objects.append(grown)
        if parent:
            self.relations.append(Relation(parent.id, grown.id, relation))
        return grown
