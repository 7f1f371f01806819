"""The position forest as text."""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from posformer.latex.forest import PositionForest
from posformer.latex.symbols import MAIN
from posformer.latex.tree import Node, Row, Tree, parse

_BRACES = ("{", "}")
_SCRIPTS = ("^", "_")
_LINE_BREAK = "\\\\"
_COLUMNS = ("token", "identifier", "level", "position")
_FORK, _LAST, _PASS, _GAP = "├─ ", "└─ ", "│  ", "   "


@dataclass
class _Line:
    """One line of a drawing: a tree, or several trees without branches in series."""

    branch: int  # the number of the row that opened the branch
    position: str
    depth: int
    tokens: list[str] = field(default_factory=list)
    fresh: bool = True  # holds no tree yet, at most the operator of a script


def draw_forest(forest: PositionForest) -> str:
    r"""Draw the trees of a forest, one below the other, in the order of the expression.

    The main body of a substructure is the root of a tree; what stands above is its left branch
    (`L`), what stands below is its right branch (`R`). Trees without branches share a line. Braces
    are left out. `x ^ { 2 } + \frac { 1 } { 3 }` becomes

        M  x
        └─ L  ^ 2
        M  +
        M  \frac
        ├─ L  1
        └─ R  3
    """
    lines = _lines(parse(forest.tokens, lenient=True))
    prefixes = _prefixes([line.depth for line in lines])
    return "\n".join(
        f"{prefix}{line.position}  {' '.join(line.tokens)}".rstrip()
        for prefix, line in zip(prefixes, lines, strict=True)
    )


def forest_records(forest: PositionForest) -> list[dict[str, str | int]]:
    """Return for every token an object with `token`, `identifier`, `level` and `position`."""
    columns = (forest.tokens, forest.identifiers(), forest.levels, forest.positions)
    return [dict(zip(_COLUMNS, row, strict=True)) for row in zip(*columns, strict=True)]


def forest_table(forest: PositionForest) -> str:
    """Return the records of a forest as a text table with a header line."""
    rows = [_COLUMNS, *(tuple(map(str, record.values())) for record in forest_records(forest))]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    )


def _lines(tree: Tree) -> list[_Line]:
    """Draw in reading order; the stack holds what is left and the line that it continues."""
    lines = [_Line(0, MAIN, 0)]
    stack: list[tuple[Node | Row | str, _Line]] = [(tree.root, lines[0])]
    while stack:
        part, around = stack.pop()
        if isinstance(part, Row):
            if part.position:
                around = _Line(part.number, part.position, around.depth + 1)
                lines.append(around)
                if part.owner is not None and part.owner.token in _SCRIPTS:
                    around.tokens.append(part.owner.token)
            stack += [(inner, around) for inner in _row_parts(part, tree)]
            continue
        last = lines[-1]
        is_root = isinstance(part, Node) and any(row.position for row in part.rows)
        is_full = is_root and not last.fresh
        if last.branch != around.branch or last.tokens[-1:] == [_LINE_BREAK] or is_full:
            last = replace(around, tokens=[], fresh=True)
            lines.append(last)
        token = part if isinstance(part, str) else part.token
        if token and token not in _BRACES:
            last.tokens.append(token)
            last.fresh = False
        if isinstance(part, Node):
            stack += [(inner, around) for inner in _node_parts(part)]
    return lines


def _row_parts(row: Row, tree: Tree) -> Iterator[Node | str]:
    """Yield the parts of a row from back to front; the owner of an environment draws its start."""
    if row.end >= 0 and tree.tokens[row.end] not in _BRACES:
        yield tree.tokens[row.end]
    yield from reversed(row.nodes)
    if row.start >= 0 and row.owner is not None and row.start != row.owner.index:
        yield tree.tokens[row.start]


def _node_parts(node: Node) -> Iterator[Row | str]:
    """Yield the parts of a node behind its token, from back to front."""
    for script in reversed(node.scripts):
        yield script.arguments[0]
    if node.limits >= 0:
        yield "\\limits"
    if node.scripts and node.arguments:
        yield ""  # returns to the line of the node, so that its scripts hang there
    yield from reversed(node.arguments)
    if node.option is not None:
        yield node.option


def _prefixes(depths: list[int]) -> list[str]:
    """Return the lines that lead to nodes of these depths; what follows decides on forks."""
    prefixes = []
    continues: list[bool] = []  # by depth: whether a later node hangs on the same parent
    for depth in reversed(depths):
        continues = [*continues, *[False] * (depth - len(continues))][:depth]
        passing = "".join(_PASS if more else _GAP for more in continues[:-1])
        fork = (_FORK if continues[-1] else _LAST) if depth else ""
        prefixes.append(passing + fork)
        continues[-1:] = [True] * min(depth, 1)
    return prefixes[::-1]
