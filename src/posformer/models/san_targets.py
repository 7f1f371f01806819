"""Targets of SAN: the symbol layout tree, depth first, with a decision at every branching.

After a symbol follows one of: the next symbol on its row, the end of the row, or `struct`, which
opens one or more branches. The rest of the row is then the branch `right`. Branches are decoded in
the order of `RELATIONS`; the end of a row continues with the innermost open branch, and the
expression ends with its last row.

SAN decides on `struct` and then on each relation. Here, both are one step: there is one id for
every set of relations. A start without a symbol (`^ { 14 } C`), which the conversion of the
authors cannot represent, is a symbol without a token.
"""

from collections.abc import Sequence

from posformer.latex import Vocabulary
from posformer.latex.layout_tree import (
    RELATIONS,
    RIGHT,
    LayoutNode,
    layout_tokens,
    layout_tree,
)
from posformer.models.target_coding import TargetSteps, token_id


class SanTargets:
    """Captions to the decisions of SAN and back; see `TargetCoding`.

    Attributes:
        blank: id of the symbol without a token.
        end: id of the end of a row that is not the last.
        first_set: id of the set {above}; `first_set - 1 + bits` is the set whose bit i is relation
            i.
        size: number of ids.
    """

    def __init__(self, vocabulary: Vocabulary) -> None:
        self.vocabulary = vocabulary
        self.blank = len(vocabulary)
        self.end = self.blank + 1
        self.first_set = self.end + 1
        self.size = self.first_set + 2 ** len(RELATIONS) - 1

    def encode(self, tokens: Sequence[str], allow_unknown: bool = False) -> TargetSteps:
        """Return the steps of a caption; see `TargetCoding.encode`."""
        nodes = layout_tree(tokens)
        opened = [0] * len(nodes)
        for node in nodes[1:]:
            opened[node.parent] |= 1 << node.relation
        ids, sources = [], []
        for node, bits in zip(nodes, opened, strict=True):
            ids.append(
                token_id(self.vocabulary, node.token, allow_unknown) if node.token else self.blank
            )
            sources.append(node.source)
            if bits != 1 << RIGHT:
                ids.append(self.first_set - 1 + bits if bits else self.end)
                sources.append(-1)
        ids[-1:] = [self.vocabulary.eos]  # the last row ends the expression
        return TargetSteps([self.vocabulary.sos, *ids[:-1]], ids, sources or [-1])

    def decode(self, steps: Sequence[int]) -> list[str]:
        """Return the caption of decoded steps, without start and end."""
        nodes: list[LayoutNode] = []
        open_branches: list[tuple[int, int]] = []
        place = -1, RIGHT  # of the next symbol: its parent and its relation
        for step in steps:
            if step < self.end:
                nodes.append(LayoutNode(self._token(step), *place, -1))
                place = len(nodes) - 1, RIGHT
                continue
            if step >= self.first_set:
                if place[1] != RIGHT or not nodes:  # a branch that begins with a branching
                    nodes.append(LayoutNode("", *place, -1))
                    place = len(nodes) - 1, RIGHT
                bits = step - self.first_set + 1
                opened = [one for one in range(len(RELATIONS)) if bits >> one & 1]
                open_branches += [(place[0], one) for one in reversed(opened)]
            if not open_branches:
                break
            place = open_branches.pop()
        return layout_tokens(nodes)

    def max_steps(self, tokens: int) -> int:
        """Return how many steps a caption of so many tokens takes at most, without the end."""
        return tokens + 1

    def _token(self, step: int) -> str:
        return (
            "" if step == self.blank else "".join(self.vocabulary.decode([step], skip_special=True))
        )
