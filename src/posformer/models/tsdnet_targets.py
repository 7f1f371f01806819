"""Targets of TSDNet: the nodes of the symbol layout tree, depth first, each with its parent.

Every node takes two steps: its symbol together with its relation, and a pointer to its parent.
Node 0 is the root, which has no symbol; the first symbol is its child. The end takes the place of
a symbol.
"""

from collections.abc import Sequence

from posformer.errors import LatexError
from posformer.latex import Vocabulary
from posformer.latex.layout_tree import RELATIONS, LayoutNode, layout_tokens, layout_tree
from posformer.models.target_coding import TargetSteps, token_id

MAX_NODES = 512  # of a tree, with the root


class TsdnetTargets:
    """Captions to the decisions of TSDNet and back; see `TargetCoding`.

    Attributes:
        blank: number of the symbol without a token; other symbols have the ids of their tokens.
        first_pair: id of symbol 0 in relation 0; a pair of symbol and relation has the id
            `first_pair + symbol * len(RELATIONS) + relation`.
        first_pointer: id of the pointer to the root.
        size: number of ids.
    """

    def __init__(self, vocabulary: Vocabulary) -> None:
        self.vocabulary = vocabulary
        self.blank = len(vocabulary)
        self.first_pair = len(vocabulary)
        self.first_pointer = self.first_pair + (self.blank + 1) * len(RELATIONS)
        self.size = self.first_pointer + MAX_NODES

    def encode(self, tokens: Sequence[str], allow_unknown: bool = False) -> TargetSteps:
        """Return the steps of a caption; see `TargetCoding.encode`.

        Raises:
            LatexError: The caption has too many symbols.
        """
        nodes = layout_tree(tokens)
        if len(nodes) >= MAX_NODES:
            raise LatexError(f"a caption has {len(nodes)} symbols; TSDNet reads {MAX_NODES - 1}")
        ids, sources = [], []
        for node in nodes:
            symbol = self.blank
            if node.token:
                symbol = token_id(self.vocabulary, node.token, allow_unknown)
            ids.append(self.first_pair + symbol * len(RELATIONS) + node.relation)
            ids.append(self.first_pointer + node.parent + 1)
            sources += [node.source, -1]
        ids.append(self.vocabulary.eos)
        return TargetSteps([self.vocabulary.sos, *ids[:-1]], ids, [*sources, -1])

    def decode(self, steps: Sequence[int]) -> list[str]:
        """Return the caption of decoded steps, without start and end; depth-first order or not."""
        nodes: list[LayoutNode] = []
        for pair, pointer in zip(steps[::2], steps[1::2], strict=False):
            symbol, relation = divmod(pair - self.first_pair, len(RELATIONS))
            parent = pointer - self.first_pointer - 1
            if not 0 <= symbol <= self.blank or not -1 <= parent < len(nodes):
                break
            tokens = [] if symbol == self.blank else [symbol]
            token = "".join(self.vocabulary.decode(tokens, skip_special=True))
            nodes.append(LayoutNode(token, parent, relation, -1))
        return layout_tokens(nodes)

    def max_steps(self, tokens: int) -> int:
        """Return how many steps a caption of so many tokens takes at most, without the end."""
        return 2 * min(tokens, MAX_NODES - 1)
