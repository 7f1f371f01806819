"""Targets of BPD: the rows of the symbol layout tree, decoded in parallel.

A branch is a row of symbols. Behind a symbol with scripts or arguments stands a token that opens
branches, one id for every set of relations. From the next step on, these branches are decoded
together with the rest of the row. All open branches decode one token per step; a branch ends with
`<eos>`, and the expression with its last branch.

The inputs of a step are, in this order: what each open branch decoded, a token that opens branches
followed by the relations of these branches. A branch that has ended is passed `<eos>` once, so
that the inputs alone tell which branch continues.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from posformer.latex import Vocabulary
from posformer.latex.layout_tree import (
    RELATIONS,
    RIGHT,
    LayoutNode,
    layout_tokens,
    layout_tree,
)
from posformer.models.target_coding import TargetSteps, token_id

BRANCH_RELATIONS = len(RELATIONS) - 1  # all but `right`
_NO_TARGET = -100  # of the inputs of ended branches


class _Token(NamedTuple):
    """A token of a branch."""

    target: int
    read: int  # input of the next step
    source: int  # see `TargetSteps`
    opened: list[Iterator["_Token"]]  # branches that it opens


class BpdTargets:
    """Captions to the branches of BPD and back; see `TargetCoding` and `ParallelCoding`.

    Attributes:
        blank: id of the symbol without a token.
        first_set: id of the set {above}; `first_set - 1 + bits` is the set whose bit i is relation
            i.
        first_start: id of the start of a branch in relation 0; only an input.
        size: number of ids that are decoded.
    """

    def __init__(self, vocabulary: Vocabulary) -> None:
        self.vocabulary = vocabulary
        self.blank = len(vocabulary)
        self.first_set = self.blank + 1
        self.first_start = self.size = self.first_set + 2**BRANCH_RELATIONS - 1

    def next_inputs(self, inputs: tuple[int, ...], chosen: tuple[int, ...]) -> tuple[int, ...]:
        """Return the inputs of the step that follows when `chosen` were decoded from `inputs`."""
        following: list[int] = []
        for before, token in zip(inputs, chosen, strict=True):
            if before != self.vocabulary.eos:
                following += [token, *self._starts(token)]
        return tuple(following)

    def encode(self, tokens: Sequence[str], allow_unknown: bool = False) -> TargetSteps:
        """Return the steps of a caption, step by step; see `TargetCoding.encode`."""
        steps = TargetSteps([], [], [])
        inputs: tuple[int, ...] = (self.vocabulary.sos,)
        branches = [self._main_row(layout_tree(tokens), allow_unknown)]
        has_ended = _Token(_NO_TARGET, self.vocabulary.eos, -1, [])
        while any(given != self.vocabulary.eos for given in inputs):
            decoded = [next(branch, has_ended) for branch in branches]
            steps.input_ids.extend(inputs)
            steps.target_ids.extend(one.target for one in decoded)
            steps.sources.extend(one.source for one in decoded)
            branches = [
                following
                for given, branch, one in zip(inputs, branches, decoded, strict=True)
                if given != self.vocabulary.eos
                for following in (branch, *one.opened)
            ]
            inputs = self.next_inputs(inputs, tuple(one.read for one in decoded))
        return steps

    def decode(self, steps: Sequence[Sequence[int]]) -> list[str]:
        """Return the caption of decoded steps, without the last, in which all branches end."""
        nodes: list[LayoutNode] = []
        inputs: tuple[int, ...] = (self.vocabulary.sos,)
        places = [(-1, RIGHT)]  # of the next symbol of each input: its parent and its relation
        for step in steps:
            if len(step) != len(inputs):
                break
            following = []
            for given, token, place in zip(inputs, step, places, strict=True):
                if given == self.vocabulary.eos:
                    continue
                opened = self._starts(token)
                if opened and (place[1] != RIGHT or not nodes):  # nothing to hang them on
                    nodes.append(LayoutNode("", *place, -1))
                    place = len(nodes) - 1, RIGHT
                elif not opened and token != self.vocabulary.eos:
                    known = [token] if token < self.blank else []
                    text = "".join(self.vocabulary.decode(known, skip_special=True))
                    nodes.append(LayoutNode(text, *place, -1))
                    place = len(nodes) - 1, RIGHT
                following.append(place)
                following += [(place[0], one - self.first_start) for one in opened]
            inputs, places = self.next_inputs(inputs, tuple(step)), following
        return layout_tokens(nodes)

    def max_steps(self, tokens: int) -> int:
        """Return how many steps a caption of so many tokens takes at most, without the end."""
        return tokens

    def predecessors(self, inputs: Sequence[int]) -> list[int]:
        """Return for each input of all steps so far the index of the one that it continues.

        Returns:
            -1 for the first input and for padding.
        """
        found = [-1] * len(inputs)
        waiting: list[int] = []  # inputs of the last step whose branches go on
        step: list[int] = []  # inputs of the step that is being read
        opened, opener = 0, -1  # branches of this step that still have to start
        for index, given in enumerate(inputs):
            if given == self.vocabulary.pad:
                continue
            if index == 0:
                waiting = [0]
                continue
            if opened:
                found[index], opened = opener, opened - 1
            elif waiting:
                found[index] = waiting.pop(0)
                opened, opener = len(self._starts(given)), index
            if given != self.vocabulary.eos:
                step.append(index)
            if not opened and not waiting:
                waiting, step = step, []
        return found

    def _starts(self, token: int) -> list[int]:
        """Return the inputs of the branches that a token opens."""
        bits = token - self.first_set + 1 if self.first_set <= token < self.first_start else 0
        return [self.first_start + one for one in range(BRANCH_RELATIONS) if bits >> one & 1]

    def _main_row(self, nodes: Sequence[LayoutNode], allow_unknown: bool) -> Iterator[_Token]:
        """Return the tokens of the main row."""
        children: list[dict[int, int]] = [{} for _ in nodes]
        for index, node in enumerate(nodes):
            if node.parent >= 0:
                children[node.parent][node.relation] = index

        def row(index: int | None) -> Iterator[_Token]:
            while index is not None:
                node, target = nodes[index], self.blank
                if node.token:
                    target = token_id(self.vocabulary, node.token, allow_unknown)
                # An unknown token is read as a blank, because padding is not an input.
                yield _Token(target, target or self.blank, node.source, [])
                below = sorted(one for one in children[index] if one != RIGHT)
                if below:
                    bits = self.first_set - 1 + sum(1 << one for one in below)
                    opened = [row(children[index][one]) for one in below]
                    yield _Token(bits, bits, -1, opened)
                index = children[index].get(RIGHT)
            yield _Token(self.vocabulary.eos, self.vocabulary.eos, -1, [])

        return row(0 if nodes else None)
