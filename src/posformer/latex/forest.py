"""Position forest coding: the position of every token in the nest of scripts, fractions and roots.

Each token belongs to a branch of a tree. The root is the main line, `M`; a substructure opens an
upper branch `L`, a lower branch `R`, or both. A branch knows its parent, so that nested levels and
relative positions take constant time per token at any depth.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from posformer.latex.symbols import LOWER, MAIN, UPPER
from posformer.latex.tree import parse

Coding = Literal["paper", "authors"]

POSITION_CODES = {MAIN: 3, UPPER: 4, LOWER: 5}
"""The numbers of relative positions; 0 is padding, 1 and 2 are `<sos>` and `<eos>`."""


@dataclass(frozen=True)
class PositionForest:
    """The position of every token of an expression.

    Attributes:
        tokens: The tokens, n of them.
        nested_levels: The nested level of each token: 0 on the main line. (n)
        relative_positions: The relative position of each token: `M` on the main line, `L` in an
            upper branch, `R` in a lower one. (n)
        branches: The branch each token belongs to; 0 is the main line. (n)
        parents: The parent of each branch; that of the main line is -1.
        branch_positions: The relative position of each branch.
        coding: `paper` counts an operator and the braces of a group to the group, `authors` to
            its surroundings.
    """

    tokens: tuple[str, ...]
    nested_levels: tuple[int, ...]
    relative_positions: tuple[str, ...]
    branches: tuple[int, ...]
    parents: tuple[int, ...]
    branch_positions: tuple[str, ...]
    coding: Coding = "paper"

    def __len__(self) -> int:
        return len(self.tokens)

    @property
    def levels(self) -> tuple[int, ...]:
        """The nested level of each token."""
        return self.nested_levels

    @property
    def positions(self) -> tuple[str, ...]:
        """The relative position of each token."""
        return self.relative_positions

    @property
    def complexity(self) -> int:
        """The structural complexity: the greatest nested level."""
        return max(self.nested_levels, default=0)

    def identifiers(self) -> list[str]:
        """Return the position identifier of every token, such as `MLLR`.

        In the `authors` coding an identifier is the positions of the enclosing groups and a final
        `M`. Space grows with the square of the depth; `identifier_codes` does not.
        """
        spelled = [""]
        for parent, position in zip(self.parents[1:], self.branch_positions[1:], strict=True):
            spelled.append(spelled[parent] + position)
        paper = self.coding == "paper"
        spelled = [MAIN + path if paper else path + MAIN for path in spelled]
        return [spelled[branch] for branch in self.branches]

    def reversed(self) -> "PositionForest":
        """Return the forest of the same tokens read from right to left."""
        of_tokens = ("tokens", "nested_levels", "relative_positions", "branches")
        return replace(self, **{name: getattr(self, name)[::-1] for name in of_tokens})


def encode_forest(
    tokens: Sequence[str], *, coding: Coding = "paper", lenient: bool = False
) -> PositionForest:
    r"""Encode an expression as a position forest, in linear time.

    Args:
        tokens: Tokens in caption form. An argument that is one token needs no braces.
        coding: `paper`: an operator, its group and the braces of the group share an identifier;
            `authors`: operators and braces count to their surroundings, as in the public program.
        lenient: Close what is left open and ignore what closes nothing. For model output.

    Raises:
        LatexError: Braces, environments or arguments do not pair up; names the token and its
            number. Never raised if `lenient`.
    """
    if coding not in ("paper", "authors"):
        raise ValueError(f"coding must be 'paper' or 'authors', not {coding!r}")
    tree = parse(tuple(tokens), lenient=lenient)
    parents, positions, levels = [-1], [MAIN], [0]
    branch_of = [0]  # the branch of each row
    moved: list[tuple[int, int]] = []  # tokens that do not belong to the branch of their row
    for row in tree.rows[1:]:
        outer = branch_of[row.parent]
        if not row.position:
            branch_of.append(outer)
            continue
        branch = len(parents)
        branch_of.append(branch)
        parents.append(outer)
        positions.append(row.position)
        levels.append(levels[outer] + 1)
        owner = row.owner
        if coding == "authors":
            moved += [(row.start, outer), (row.end, outer)]
        elif owner is not None and owner.arguments[0] is row:
            moved.append((owner.index, branch))
    branches = [branch_of[row] for row in tree.row_of]
    for index, branch in moved:
        if index >= 0:
            branches[index] = branch
    return PositionForest(
        tuple(tree.tokens),
        tuple([levels[branch] for branch in branches]),
        tuple([positions[branch] for branch in branches]),
        tuple(branches),
        tuple(parents),
        tuple(positions),
        coding,
    )


def complexity(tokens: Sequence[str]) -> int:
    """Return the structural complexity of an expression: its greatest nested level."""
    return encode_forest(tokens).complexity


def identifier_codes(forest: PositionForest, length: int = 5) -> list[list[int]]:
    """Return the position identifiers as numbers: 0 pad, 3 `M`, 4 `L`, 5 `R`.

    Args:
        forest: The forest of n tokens.
        length: The length to cut or pad identifiers to; the outermost positions are kept.

    Returns:
        n rows of `length` numbers. Rows of one branch are equal but not the same object.
    """
    paper = forest.coding == "paper"
    paths: list[list[int]] = [[POSITION_CODES[MAIN]] if paper else []]
    for parent, position in zip(forest.parents[1:], forest.branch_positions[1:], strict=True):
        path = paths[parent]
        # Beyond `length` all branches look alike: sharing keeps a deep nest within bounded memory.
        paths.append(path if len(path) >= length else [*path, POSITION_CODES[position]])
    closing = [] if paper else [POSITION_CODES[MAIN]]
    rows = [([*path, *closing] + [0] * length)[:length] for path in paths]
    return [list(rows[branch]) for branch in forest.branches]
