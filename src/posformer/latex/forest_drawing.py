"""The position forest as text that people can look at."""

from dataclasses import dataclass, field

from posformer.latex.forest import PositionForest
from posformer.latex.grammar import SUBSTRUCTURES

_BRACES = ("{", "}")
_SCRIPTS = ("^", "_")
_FORK, _LAST, _PASS, _GAP = "├─ ", "└─ ", "│  ", "   "


@dataclass
class _Node:
    """A run of tokens of one branch that nothing interrupts."""

    branch: int
    depth: int
    tokens: list[str] = field(default_factory=list)


def draw_forest(forest: PositionForest) -> str:
    r"""Draw the trees of a forest, one below the other in the order of the expression.

    The main line `M` is the root; substructures hang on the symbols before them as upper (`L`) and
    lower (`R`) branches. Braces are left out. `x ^ { 2 } + 1` becomes

        M  x
        └─ L  ^ 2
        M  + 1
    """
    nodes = _nodes(forest)
    prefixes = _prefixes([node.depth for node in nodes])
    return "\n".join(
        f"{prefix}{forest.letters[node.branch]}  {' '.join(node.tokens)}".rstrip()
        for prefix, node in zip(prefixes, nodes, strict=True)
    )


def forest_records(forest: PositionForest) -> list[dict[str, str | int]]:
    """For every token an object with `token`, `identifier`, `level` and `position`."""
    columns = zip(forest.tokens, forest.identifiers(), forest.levels, forest.positions, strict=True)
    return [
        {"token": token, "identifier": identifier, "level": level, "position": position}
        for token, identifier, level, position in columns
    ]


def forest_table(forest: PositionForest) -> str:
    """The records of a forest as a table of text, under a line of their names."""
    records = forest_records(forest)
    names = ("token", "identifier", "level", "position")
    rows = [names, *(tuple(str(record[name]) for name in names) for record in records)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    )


def _nodes(forest: PositionForest) -> list[_Node]:
    nodes = [_Node(0, 0)]
    path = [0]  # the branches from the main line to the last node
    line_ended = False
    for token, branch, starts in zip(forest.tokens, forest.branches, _starts(forest), strict=True):
        if token in _BRACES:
            continue
        if starts and nodes[-1].branch != (parent := forest.parents[branch]):
            # Else a fraction behind `x ^ { 2 }` would look like a third branch of x.
            path = _path_to(forest, parent)
            nodes.append(_Node(parent, len(path) - 1))
        if branch != nodes[-1].branch or line_ended:
            before, path = path, _path_to(forest, branch)
            nodes += [
                _Node(step, depth)
                for depth, step in enumerate(path)
                if step == branch or before[depth : depth + 1] != [step]
            ]
        nodes[-1].tokens.append(token)
        line_ended = token == r"\\"  # lines are trees in series
    return nodes


def _starts(forest: PositionForest) -> list[bool]:
    """For every token whether it is a command, no script, that opens its own branch."""
    seen = {0}
    starts = []
    for token, branch in zip(forest.tokens, forest.branches, strict=True):
        starts.append(branch not in seen and token in SUBSTRUCTURES and token not in _SCRIPTS)
        seen.add(branch)
    return starts


def _path_to(forest: PositionForest, branch: int) -> list[int]:
    path = []
    while branch >= 0:
        path.append(branch)
        branch = forest.parents[branch]
    return path[::-1]


def _prefixes(depths: list[int]) -> list[str]:
    """The lines that lead to nodes of these depths; whether one forks shows in what follows it."""
    prefixes = []
    continues: list[bool] = []  # by depth: whether a later node hangs on the same parent
    for depth in reversed(depths):
        continues = [*continues, *[False] * (depth - len(continues))][:depth]
        passing = "".join(_PASS if more else _GAP for more in continues[:-1])
        fork = (_FORK if continues[-1] else _LAST) if depth else ""
        prefixes.append(passing + fork)
        continues[-1:] = [True] * min(depth, 1)
    return prefixes[::-1]
