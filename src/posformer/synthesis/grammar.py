r"""A grammar fitted to captions, which samples new expressions.

An expression is a tree of rows. A row is a sequence of productions such as `x`,
`x ^ { <upper letter> }` or `\frac { <numerator> } { <denominator> }`. The next production depends
on the two before it and on the slot that the row fills. Delimiters come in pairs, so expressions
are always balanced.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from itertools import accumulate, cycle

import numpy as np

from posformer.errors import DataError, LatexError
from posformer.latex import complexity
from posformer.latex.symbols import DELIMITER_PAIRS, tokens_of
from posformer.latex.tree import Node, parse

Production = tuple[str, ...]
"""Tokens and slots, `<kind detail>`, in the order they are written."""

RELATIONS = tokens_of("relation", "arrow")
_OPERATORS = RELATIONS | tokens_of("operator", "punctuation") | {"/", "\\prime"}
_LETTERS = tokens_of("letter")
_KINDS = (
    tokens_of("digit"),
    frozenset(filter(str.islower, _LETTERS)),
    frozenset(filter(str.isupper, _LETTERS)),
    tokens_of("greek"),
)
"""Symbols that can be substituted for each other."""

_OPERANDS = frozenset().union(*_KINDS)
_NAMES = tokens_of("function", "big")
_CLOSING = frozenset(DELIMITER_PAIRS.values())

_LINE = "<line>"
_INSIDE = "<inside "
_START: Production = ("<start>",)
_END: Production = ("<end>",)
_DOUBT = 2.0  # occurrences after which a history is trusted as much as a shorter one
_EVENNESS = 0.8  # exponent of counts: below 1, rare productions are sampled more often
_TRIES = 400
_DEEPEST_PAIRS = 3


@dataclass(frozen=True)
class _Choice:
    """A distribution over productions."""

    productions: tuple[Production, ...]
    cumulative: tuple[float, ...]

    @classmethod
    def of(cls, counts: Mapping[Production, float]) -> _Choice:
        return cls(tuple(counts), tuple(accumulate(n**_EVENNESS for n in counts.values())))

    def sample(self, rng: np.random.Generator) -> Production:
        index = bisect_right(self.cumulative, float(rng.random()) * self.cumulative[-1])
        return self.productions[min(index, len(self.productions) - 1)]

    @property
    def trust(self) -> float:
        return self.cumulative[-1] / (self.cumulative[-1] + _DOUBT)


History = tuple[str | Production, ...]


@dataclass(frozen=True)
class Grammar:
    """Distributions over productions, fitted to captions."""

    choices: Mapping[History, _Choice]
    nested: Mapping[str, _Choice]  # productions with nested rows, by kind of slot
    operands: Mapping[str, _Choice]  # letters and digits, by kind of slot
    longest: Mapping[str, int]  # the 97th percentile of the length of rows, by kind of slot
    alphabet: tuple[tuple[str, ...], ...]  # letters and digits that occur, by kind
    substitution: float = 0.3  # share of letters and digits substituted for others of their kind

    @classmethod
    def fit(
        cls, captions: Iterable[Sequence[str]], vocabulary: Container[str] | None = None
    ) -> Grammar:
        """Fit a grammar to captions.

        Letters and digits outside the vocabulary are replaced by others of their kind. Captions
        with other tokens outside the vocabulary or with unpaired delimiters are left out.

        Args:
            captions: Token sequences in caption form.
            vocabulary: The tokens that may be sampled; all by default.

        Raises:
            DataError: No caption is left.
        """
        replacements = {} if vocabulary is None else _replacements(vocabulary)
        counts: dict[History, Counter[Production]] = defaultdict(Counter)
        lengths: dict[str, list[int]] = defaultdict(list)
        for given in captions:
            caption = [replacements.get(token, token) for token in given]
            if vocabulary is None or all(token in vocabulary for token in caption):
                for slot, walk in _walks(caption):
                    _count(counts, slot, walk)
                    lengths[_kind(slot)].append(len(walk))
        if not lengths:
            raise DataError(
                "there is no caption to learn from"
                + ("" if vocabulary is None else " that has only tokens of the vocabulary")
            )
        rows = {kind: counts[kind,] for kind in lengths}
        seen = {part for counter in rows.values() for production in counter for part in production}
        return cls(
            choices={history: _Choice.of(counter) for history, counter in counts.items()},
            nested=_choices_where(rows, _nests),
            operands=_choices_where(rows, lambda production: production[0] in _OPERANDS),
            longest={kind: int(np.quantile(found, 0.97)) for kind, found in lengths.items()},
            alphabet=tuple(tuple(sorted(kind & seen)) for kind in _KINDS),
        )

    @classmethod
    def own(cls, vocabulary: Container[str] | None = None) -> Grammar:
        """Fit a grammar to the bundled formulas."""
        text = files("posformer.synthesis").joinpath("formulas.txt").read_text(encoding="utf-8")
        lines = (line for line in text.splitlines() if line and not line.startswith("#"))
        return cls.fit((line.split() for line in lines), vocabulary)

    @property
    def tokens(self) -> frozenset[str]:
        """All tokens that can be sampled."""
        productions = {part for choice in self.choices.values() for part in choice.productions}
        parts = {part for production in productions for part in production}
        return frozenset(part for part in parts if not _is_slot(part)).union(*self.alphabet)

    def sample(
        self,
        rng: np.random.Generator,
        level: int | None = None,
        max_tokens: int = 60,
        lines: int = 1,
        min_tokens: int = 1,
    ) -> list[str]:
        r"""Sample an expression.

        Args:
            rng: Random generator.
            level: The nested level of the expression; any by default.
            max_tokens: The greatest number of tokens in a line.
            lines: The number of lines, which `\\` separates.
            min_tokens: The smallest number of tokens in a line.

        Raises:
            DataError: The grammar has no such expression.
        """
        deepest = int(rng.integers(lines))
        tokens: list[str] = []
        for number in range(lines):
            asked = level if number == deepest or level is None else int(rng.integers(level + 1))
            line = self._line(rng, asked, max_tokens, min_tokens)
            if number and self._may_go_on(line) and len(line) < max_tokens and rng.random() < 0.4:
                line = ["=", *line]
            tokens += ["\\\\", *line] if number else line
        return tokens

    def _may_go_on(self, line: Sequence[str]) -> bool:
        """Return whether a line may begin with `=`, as the next step of a calculation."""
        return "=" not in line and ("=",) in self.choices[_kind(_LINE),].productions

    def _line(
        self, rng: np.random.Generator, level: int | None, longest: int, shortest: int
    ) -> list[str]:
        for attempt in range(_TRIES):
            derivation = _Derivation(self, rng, max(4, longest - attempt // 20))
            low, high = (0, 99) if level is None else (level, level)
            tokens = self._substituted(derivation.row(_LINE, low, high), rng)
            fits = shortest <= len(tokens) <= longest
            if fits and (level is None or complexity(tokens) == level):
                return tokens
        raise DataError(
            f"no expression of level {level} with {shortest} to {longest} tokens was found"
        )

    def _substituted(self, tokens: list[str], rng: np.random.Generator) -> list[str]:
        """Replace some letters and digits by others, everywhere in the expression.

        Half of the replacements occur in it already: people use few letters again and again.
        """
        others: dict[str, str] = {}
        for kind in self.alphabet:
            present = sorted(set(tokens).intersection(kind))
            for token in present:
                if rng.random() < self.substitution:
                    pool = present if rng.random() < 0.5 else kind
                    others[token] = pool[int(rng.integers(len(pool)))]
        return [others.get(token, token) for token in tokens]


class _Derivation:
    """One expression while it is sampled."""

    def __init__(self, grammar: Grammar, rng: np.random.Generator, budget: int) -> None:
        self.grammar, self.rng, self.budget = grammar, rng, budget

    def row(self, slot: str, low: int, high: int, pairs: int = 0) -> list[str]:
        """Return a row with a nested level from `low` to `high`."""
        walk = self.walk(slot, high, pairs)
        if low > 0 and not any(_nests(production) for production in walk):
            self.insert_nested(walk, slot)
        carrier = self.carrier(walk) if low > 0 else -1
        tokens: list[str] = []
        for index, production in enumerate(walk):
            tokens += self.expand(production, low if index == carrier else 0, high, pairs)
        return tokens

    def walk(self, slot: str, high: int, pairs: int) -> list[Production]:
        """Return the productions of a row; of their bases alone, if nothing may be nested."""
        walk: list[Production] = []
        before, last = _START, _START
        longest = self.grammar.longest.get(_kind(slot), 8)
        while len(walk) < longest and (self.budget > 0 or not walk):
            production = self.sample(slot, before, last)
            if production == _END:
                if not walk:
                    continue
                break
            before, last = last, production
            if (high == 0 and _nests(production)) or (pairs >= _DEEPEST_PAIRS):
                production = self.flat(production, slot)
            walk.append(production)
            self.budget -= len(production)
        while len(walk) > 1 and walk[-1][0] in _OPERATORS:
            walk.pop()
        return walk

    def flat(self, production: Production, slot: str) -> Production:
        """Return the base of a production, or a letter or digit instead of it."""
        if production[0] in _OPERANDS or production[0] in _NAMES or len(production) == 1:
            return production[:1]
        operands = self.grammar.operands
        choice = operands.get(_kind(slot)) or operands.get(_kind(_LINE))
        if choice is None:
            raise DataError("the captions of this grammar have neither letters nor digits")
        return choice.sample(self.rng)[:1]

    def sample(self, slot: str, before: Production, last: Production) -> Production:
        """Interpolate long and short histories: a rare one often gives way to a shorter one."""
        kind = _kind(slot)
        for history in _histories(slot, before, last):
            choice = self.grammar.choices.get(history)
            if choice is not None and self.rng.random() < choice.trust:
                return choice.sample(self.rng)
        return (self.grammar.choices.get((kind,)) or self.grammar.choices[_kind(_LINE),]).sample(
            self.rng
        )

    def insert_nested(self, walk: list[Production], slot: str) -> None:
        """Replace an operand by a production with nested rows."""
        choice = self.grammar.nested.get(_kind(slot)) or self.grammar.nested.get(_kind(_LINE))
        if choice is None:
            raise DataError("the captions of this grammar have no nested expressions")
        operands = [n for n, production in enumerate(walk) if production[0] not in _OPERATORS]
        index = operands[int(self.rng.integers(len(operands)))] if operands else 0
        walk[index] = choice.sample(self.rng)

    def carrier(self, walk: Sequence[Production]) -> int:
        """Choose the production that gets the requested level."""
        indices = [index for index, production in enumerate(walk) if _nests(production)]
        return indices[int(self.rng.integers(len(indices)))]

    def expand(self, production: Production, low: int, high: int, pairs: int) -> list[str]:
        slots = [index for index, part in enumerate(production) if _deepens(part)]
        carrier = slots[int(self.rng.integers(len(slots)))] if low > 0 else -1
        tokens: list[str] = []
        for index, part in enumerate(production):
            if not _is_slot(part):
                tokens.append(part)
                continue
            if _deepens(part):
                tokens += self.row(part, low - 1 if index == carrier else 0, high - 1)
            else:
                tokens += self.row(part, 0, high, pairs + 1)
        return tokens


def _replacements(vocabulary: Container[str]) -> dict[str, str]:
    """Map letters and digits outside the vocabulary to others of their kind, in turn."""
    found: dict[str, str] = {}
    for kind in _KINDS:
        known = sorted(token for token in kind if token in vocabulary)
        unknown = sorted(kind.difference(known))
        found |= dict(zip(unknown, cycle(known), strict=False))
    return found


def _is_slot(part: str) -> bool:
    return len(part) > 1 and part[0] == "<"


def _deepens(part: str) -> bool:
    return _is_slot(part) and not part.startswith(_INSIDE)


def _nests(production: Production) -> bool:
    return any(_deepens(part) for part in production)


def _kind(slot: str) -> str:
    return slot.strip("<>").split()[0]


def _choices_where(
    rows: Mapping[str, Counter[Production]], wanted: Callable[[Production], bool]
) -> dict[str, _Choice]:
    """Return the distribution of the wanted productions for each kind of slot that has any."""
    kept = {
        kind: {production: count for production, count in counter.items() if wanted(production)}
        for kind, counter in rows.items()
    }
    return {kind: _Choice.of(counter) for kind, counter in kept.items() if counter}


def _histories(slot: str, before: Production, last: Production) -> list[History]:
    """Return what a production may depend on, from the most to the least specific."""
    kind = _kind(slot)
    return [(slot, before, last), (slot, last), (kind, before, last), (kind, last)]


def _count(
    counts: dict[History, Counter[Production]], slot: str, walk: Sequence[Production]
) -> None:
    kind = _kind(slot)
    before, last = _START, _START
    for production in (*walk, _END):
        for history in _histories(slot, before, last):
            counts[history][production] += 1
        if production != _END:
            counts[kind,][production] += 1
        before, last = last, production


def _walks(caption: Sequence[str]) -> Iterator[tuple[str, list[Production]]]:
    """Yield the slot and productions of each row; nothing if the caption is not understood."""
    try:
        pending = [(_LINE, nodes) for line in parse(caption).root.lines for nodes in line]
        found: list[tuple[str, list[Production]]] = []
        while pending:
            slot, nodes = pending.pop()
            walk, inner = _read_row(nodes)
            pending.extend(inner)
            if walk:
                found.append((slot, walk))
    except (LatexError, _UnreadableError):
        return
    yield from found


class _UnreadableError(Exception):
    """A delimiter without its partner, or a node that the grammar has no production for."""


Filling = tuple[str, list[Node]]


def _read_row(nodes: Sequence[Node]) -> tuple[list[Production], list[Filling]]:
    """Return the productions of a row, and what fills their slots."""
    walk: list[Production] = []
    fillings: list[Filling] = []
    index = 0
    while index < len(nodes):
        node = nodes[index]
        opening = node.token
        if opening in DELIMITER_PAIRS and not node.scripts:
            end = _partner(nodes, index)
            slot = f"{_INSIDE}{opening}>"
            fillings.append((slot, list(nodes[index + 1 : end])))
            base: Production = (opening, slot, DELIMITER_PAIRS[opening])
            node = nodes[end]
            index = end
        else:
            base = _base(node, fillings)
        walk.append(base + _scripts(node, fillings))
        index += 1
    return walk, fillings


def _partner(nodes: Sequence[Node], start: int) -> int:
    """Return the index of the node that closes the delimiter at `start`."""
    opening = nodes[start].token
    closing = DELIMITER_PAIRS[opening]
    depth = 0
    for index in range(start + 1, len(nodes)):
        token = nodes[index].token
        if token == closing and depth == 0:
            if index == start + 1:
                break
            return index
        depth += (token == opening) - (token == closing)
    raise _UnreadableError


_SLOTS = {"\\frac": ("<numerator>", "<denominator>"), "\\sqrt": ("<radicand>",)}


def _base(node: Node, fillings: list[Filling]) -> Production:
    if node.token in _CLOSING or (node.arguments and node.token not in _SLOTS):
        raise _UnreadableError  # bare groups and environments do not occur in rows of captions
    if not node.arguments:
        return (node.token,) if node.token else ()
    parts = [node.token]
    slots = _SLOTS[node.token]
    fillings += [(slot, row.nodes) for slot, row in zip(slots, node.arguments, strict=True)]
    if node.option is not None:
        fillings.append(("<degree>", node.option.nodes))
        parts += ["[", "<degree>", "]"]
    return (*parts, *(part for slot in slots for part in ("{", slot, "}")))


def _scripts(node: Node, fillings: list[Filling]) -> Production:
    if not node.scripts:
        return ()
    limits = node.limits >= 0
    parts: list[str] = ["\\limits"] if limits else []
    owner = _owner(node.token, limits)
    for operator, kind in (("_", "lower"), ("^", "upper")):
        row = node.script(operator)
        if row is not None:
            slot = f"<{'limit-' if limits else ''}{kind} {owner}>"
            parts += [operator, "{", slot, "}"]
            fillings.append((slot, row.nodes))
    return tuple(parts)


def _owner(token: str, limits: bool) -> str:
    """Return the kind of base that a script belongs to."""
    if limits or token in _NAMES:
        return token
    if token.isdigit():
        return "digit"
    return "letter" if token in _OPERANDS else "other"
