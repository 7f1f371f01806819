"""New texts in the same layout: symbols and whole groups substituted for others of their kind."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from posformer.errors import ConfigError
from posformer.ink.aligned import AlignedInk, bounds
from posformer.ink.alignment import inked_places
from posformer.latex.symbols import DELIMITER_PAIRS, SYMBOLS, tokens_of
from posformer.latex.tree import parse
from posformer.synthesis.bank import SymbolBank, SymbolSample
from posformer.synthesis.extents import SCRIPT_SIZE, reach

__all__ = ["KINDS", "Group", "GroupBank", "SymbolSubstitution", "find_groups"]

KINDS = tuple(
    # Flat signs say nothing about the size of what could replace them.
    tokens_of(kind) - {"-", "\\cdot"}
    for kind in ("letter", "digit", "greek", "operator", "relation", "function", "punctuation")
)
"""Symbols that can be substituted for each other without breaking an expression."""

_PRIME = "\\prime"
_LATIN = tokens_of("letter")
_LETTERS = _LATIN | tokens_of("greek")
_KIND_OF: Mapping[str, frozenset[str]] = {token: kind for kind in KINDS for token in kind}


def _weight(token: str, counts: Mapping[str, int]) -> float:
    """How often a symbol is put in, given how often each occurs.

    Rare symbols come oftener than in real texts, so that they are learned, but not as often as
    common ones: else a model takes `2` for `z` and `9` for `q`. The two cases of a letter often
    differ in size alone, and come more alike still: else a model takes most capitals for small.
    """
    other = counts.get(SYMBOLS[token].partner, 0) if token in _LATIN else 0
    if not other:
        return float(counts[token] ** 0.5)
    share = counts[token] ** 0.25 / (counts[token] ** 0.25 + other**0.25)
    return float((counts[token] + other) ** 0.5 * share)


Role = tuple[str, int]


@dataclass(frozen=True)
class Group:
    """A `{ … }` of an expression."""

    first: int  # index of the opening brace
    last: int  # index of the closing brace
    role: Role  # the command it belongs to and the number of the argument, from 0


def find_groups(tokens: Sequence[str]) -> list[Group]:
    r"""Return all groups of an expression, inner before outer.

    The role of the exponent of `x ^ { 2 }` is `("^", 0)`, of a denominator `("\frac", 1)`, of a
    bare group `("{", 0)`.
    """
    groups = []
    for row in parse(tokens, lenient=True).rows:
        owner = row.owner
        if (
            owner is not None
            and row.end >= 0
            and tokens[row.start] == "{"
            and owner.option is not row
        ):
            groups.append(Group(row.start, row.end, (owner.token, owner.arguments.index(row))))
    return sorted(groups, key=lambda group: group.last)


@dataclass(frozen=True)
class _SubtreeSwap:
    """A group of one expression, ready to be put into another."""

    ink: AlignedInk
    group: Group

    @property
    def tokens(self) -> tuple[str, ...]:
        return self.ink.tokens[self.group.first + 1 : self.group.last]

    @property
    def alignment(self) -> tuple[tuple[int, ...], ...]:
        return self.ink.alignment[self.group.first + 1 : self.group.last]


class GroupBank:
    """Groups of expressions by role, with the extent of their ink."""

    tolerance = 0.25  # greatest difference of the logarithms of widths and of heights

    def __init__(self, inks: Sequence[AlignedInk], max_tokens: int = 30) -> None:
        """Collect all groups whose tokens all have their ink.

        Args:
            inks: Aligned ink.
            max_tokens: Longer groups are left out.
        """
        self._swaps: dict[Role, list[_SubtreeSwap]] = {}
        extents: dict[Role, list[np.ndarray]] = {}
        for ink in inks:
            for group, points in _whole_groups(ink):
                if group.last - group.first - 1 <= max_tokens:
                    self._swaps.setdefault(group.role, []).append(_SubtreeSwap(ink, group))
                    extents.setdefault(group.role, []).append(_log_extent(points))
        self._extents = {role: np.array(rows, np.float32) for role, rows in extents.items()}

    def __len__(self) -> int:
        return sum(len(subtree_swaps) for subtree_swaps in self._swaps.values())

    def choose(
        self, role: Role, points: np.ndarray, rng: np.random.Generator, tries: int = 48
    ) -> _SubtreeSwap | None:
        """A group of this role whose ink has about the extent of `points`; None if none has.

        Args:
            role: See `Group.role`.
            points: float (points, 2), of the group that is to be replaced.
            rng: Random generator.
            tries: So many groups are drawn, and the first that fits is taken.
        """
        subtree_swaps = self._swaps.get(role)
        if not subtree_swaps:
            return None
        drawn = rng.integers(len(subtree_swaps), size=tries)
        misfit = np.abs(self._extents[role][drawn] - _log_extent(points)).max(axis=1)
        fitting = np.flatnonzero(misfit < self.tolerance)
        return subtree_swaps[drawn[fitting[0]]] if len(fitting) else None


def _whole_groups(ink: AlignedInk) -> Iterator[tuple[Group, np.ndarray]]:
    """Groups whose tokens with ink all have it, and their points."""
    inked = set(inked_places(ink.tokens))
    for group in find_groups(ink.tokens):
        places = [place for place in range(group.first + 1, group.last) if place in inked]
        if places and all(ink.alignment[place] for place in places):
            yield group, _points_of(ink, range(group.first, group.last))


def _points_of(ink: AlignedInk, places: Sequence[int]) -> np.ndarray:
    return np.concatenate(
        [ink.strokes[stroke] for place in places for stroke in ink.alignment[place]]
    )


def _log_extent(points: np.ndarray) -> np.ndarray:
    # A few pixels more keep flat groups such as a lone minus from being infinitely thin.
    low, high = bounds(points)
    return np.asarray(np.log(high - low + 4.0))


class SymbolSubstitution:
    """Draws new texts for the layout of an expression.

    Each distinct letter, digit or other symbol of `KINDS` may become another of its kind, and
    parentheses may become other delimiters, everywhere in the expression, in the hand of one writer
    of the bank; exponents of letters may become primes; and a group may be replaced by a group of
    another expression that has the same role and about the same extent.
    """

    def __init__(
        self,
        symbols: SymbolBank | None,
        groups: GroupBank | None = None,
        *,
        substitution: float = 0.6,
        each: float = 0.6,
        subtree_swap: float = 0.2,
        max_tokens: int = 150,
    ) -> None:
        """Hold what is substituted for what.

        Args:
            symbols: Symbols that are put in; None for no substitution of symbols.
            groups: Groups that are put in; None for no substitution of groups.
            substitution: Chance that symbols of an expression are substituted.
            each: Chance, in such an expression, for each distinct symbol.
            subtree_swap: Chance that a group of an expression is replaced.
            max_tokens: No expression becomes longer than this.
        """
        for name, value in (
            ("substitution", substitution),
            ("each", each),
            ("subtree_swap", subtree_swap),
        ):
            if not 0 <= value <= 1:
                raise ConfigError(f"{name} {value} is not a chance within 0 and 1")
        self._symbols = symbols
        self._groups = groups
        self._substitution, self._each, self._swap = substitution, each, subtree_swap
        self._max_tokens = max_tokens
        counts = symbols.counts if symbols else {}
        known = frozenset(counts)
        self._kinds = {
            token: tuple(sorted(kind & known)) for token, kind in _KIND_OF.items() if kind & known
        }
        self._fences = [
            pair for pair in DELIMITER_PAIRS.items() if known.issuperset(pair) and pair[0] != "("
        ]
        self._weights = {token: _weight(token, counts) for token in counts}
        self._has_primes = _PRIME in known

    @classmethod
    def from_inks(
        cls,
        inks: Sequence[AlignedInk],
        *,
        substitution: float = 0.6,
        each: float = 0.6,
        subtree_swap: float = 0.2,
        bank: SymbolBank | None = None,
    ) -> SymbolSubstitution:
        """Substitution among given expressions, which should be those of the training set alone.

        Args:
            inks: The expressions.
            substitution: See `__init__`, and so `each` and `subtree_swap`.
            each: See there.
            subtree_swap: See there.
            bank: Their symbols, if they were cut out before.
        """
        symbols = (bank or SymbolBank.from_inks(inks)) if substitution else None
        groups = GroupBank(inks) if subtree_swap else None
        return cls(symbols, groups, substitution=substitution, each=each, subtree_swap=subtree_swap)

    def __call__(self, ink: AlignedInk, rng: np.random.Generator) -> AlignedInk:
        """Draw a new text; often, as chance has it, the old one."""
        if self._groups is not None and rng.random() < self._swap:
            ink = self._with_swap(ink, rng)
        if self._symbols is not None and rng.random() < self._substitution:
            ink = self._with_symbols(ink, rng)
        return ink

    def _with_symbols(self, ink: AlignedInk, rng: np.random.Generator) -> AlignedInk:
        chosen = self._choose_symbols(ink.tokens, rng)
        exponents = _lone_exponents(ink.tokens) if self._has_primes else set()
        all_primes = rng.random() < self._each / 4
        strokes, alignment = list(ink.strokes), list(ink.alignment)
        tokens = list(ink.tokens)
        gone: set[int] = set()
        assert self._symbols is not None
        writers: dict[str, str] = {}
        for place, old in enumerate(ink.tokens):
            new = chosen.get(old)
            if place in exponents and (all_primes or new == "1"):  # nobody writes an exponent 1
                new = _PRIME
            if new is None or not ink.alignment[place]:
                continue
            sample = self._symbols.choose(new, rng, writers.get(new))
            writers.setdefault(new, sample.writer)
            fit = fit_prime if new == _PRIME else fit_symbol
            fitted = fit(sample, old, _points_of(ink, [place]))
            gone.update(ink.alignment[place])
            alignment[place] = tuple(range(len(strokes), len(strokes) + len(fitted)))
            strokes += fitted
            tokens[place] = new
        if not gone:
            return ink
        changed = replace(
            ink, tokens=tuple(tokens), strokes=tuple(strokes), alignment=tuple(alignment)
        )
        return _without(changed, gone)

    def _choose_symbols(self, tokens: Sequence[str], rng: np.random.Generator) -> dict[str, str]:
        """What becomes what; different symbols stay different."""
        present = [token for token in dict.fromkeys(tokens) if token in self._kinds]
        used = set(present)
        chosen: dict[str, str] = {}
        for token in present:
            if rng.random() < self._each:
                choices = [other for other in self._kinds[token] if other not in used]
                if choices:
                    weights = np.array([self._weights[other] for other in choices])
                    drawn = int(rng.choice(len(choices), p=weights / weights.sum()))
                    chosen[token] = choices[drawn]
                    used.add(chosen[token])
        if "(" in tokens and self._fences and rng.random() < self._each / 2:
            left, right = self._fences[int(rng.integers(len(self._fences)))]
            chosen |= {"(": left, ")": right}
        return chosen

    def _with_swap(self, ink: AlignedInk, rng: np.random.Generator) -> AlignedInk:
        whole = list(_whole_groups(ink))
        if not whole:
            return ink
        group, points = whole[int(rng.integers(len(whole)))]
        assert self._groups is not None
        subtree_swap = self._groups.choose(group.role, points, rng)
        if subtree_swap is None or subtree_swap.tokens == ink.tokens[group.first + 1 : group.last]:
            return ink
        if (
            len(ink.tokens) + len(subtree_swap.tokens) - (group.last - group.first - 1)
            > self._max_tokens
        ):
            return ink
        return _swapped(ink, group, points, subtree_swap)


def _lone_exponents(tokens: Sequence[str]) -> set[int]:
    """Places of symbols that alone are the exponent of a letter."""
    return {
        group.first + 1
        for group in find_groups(tokens)
        if group.role == ("^", 0)
        and group.last == group.first + 2
        and tokens[max(group.first - 2, 0)] in _LETTERS
        and tokens[group.first + 1] in _KIND_OF
    }


def fit_symbol(sample: SymbolSample, old: str, points: np.ndarray) -> list[np.ndarray]:
    """Strokes of a symbol, set on the baseline that the old symbol stood on, in its size.

    Where the old symbol stood on its row follows from what its shape usually reaches, so that a
    `g` in place of an `a` hangs below the row and a `b` rises above it. The new symbol keeps its
    proportions, but for being narrowed where it would run into its neighbours, and stays near the
    old one's box where it would run into what is above or below.

    Args:
        sample: What is put in.
        old: The token that was there.
        points: float (points, 2), the ink that was there.

    Returns:
        float32 (points, 2) each.
    """
    low, high = bounds(points)
    width, height = high - low
    usual = reach(old)
    if usual.height >= 0.5:
        unit = height / usual.height
        baseline = low[1] + usual.top * unit
    else:  # a flat symbol, such as `=` drawn closely: its width tells more
        unit = max(width, 8.0) / 1.2
        baseline = (low[1] + high[1]) / 2 + (usual.top + usual.bottom) / 2 * unit
    # Half an x-height above and below the old ink is free as a rule; a fraction bar may be next.
    floor, ceiling = high[1] + unit / 2, low[1] - unit / 2
    scale = min(unit / sample.unit, (floor - ceiling) / max(sample.height, 1e-6))
    room = width + 0.45 * unit
    narrow = min(1.0, max(room / max(sample.width * scale, 1e-6), 0.6))
    size = np.array([scale * narrow, scale])
    left = (low[0] + high[0]) / 2 - sample.width * size[0] / 2
    top = baseline - sample.baseline * scale
    top = max(min(top, floor - sample.height * scale), ceiling)
    corner = np.array([left, top])
    return [(stroke * size + corner).astype(np.float32) for stroke in sample.strokes]


def fit_prime(sample: SymbolSample, old: str, points: np.ndarray) -> list[np.ndarray]:
    """Strokes of a prime, set where an exponent stood; arguments as those of `fit_symbol`.

    A prime belongs to the row of its letter, and hangs from where the exponent began.
    """
    low, high = bounds(points)
    unit = max((high[1] - low[1]) / max(reach(old).height, 0.5), 4.0) / SCRIPT_SIZE
    scale = unit / sample.unit
    return [(stroke * scale + low).astype(np.float32) for stroke in sample.strokes]


def _without(ink: AlignedInk, gone: set[int]) -> AlignedInk:
    """Ink without some strokes, which no token may hold any more."""
    kept = [stroke for stroke in range(len(ink.strokes)) if stroke not in gone]
    place = {stroke: number for number, stroke in enumerate(kept)}
    return replace(
        ink,
        strokes=tuple(ink.strokes[stroke] for stroke in kept),
        alignment=tuple(tuple(place[stroke] for stroke in members) for members in ink.alignment),
    )


def _swapped(
    ink: AlignedInk, group: Group, points: np.ndarray, subtree_swap: _SubtreeSwap
) -> AlignedInk:
    """Put a group in the place, and into the box, of another."""
    inner = range(group.first + 1, group.last)
    gone = {stroke for place in inner for stroke in ink.alignment[place]}
    numbers: dict[int, int] = {}
    for members in subtree_swap.alignment:
        for stroke in members:
            numbers[stroke] = len(ink.strokes) + len(numbers)
    fitted = _into_box([subtree_swap.ink.strokes[stroke] for stroke in numbers], points)
    alignment = tuple(
        tuple(numbers[stroke] for stroke in members) for members in subtree_swap.alignment
    )
    changed = AlignedInk(
        name=ink.name,
        tokens=ink.tokens[: group.first + 1] + subtree_swap.tokens + ink.tokens[group.last :],
        strokes=ink.strokes + tuple(fitted),
        alignment=ink.alignment[: group.first + 1] + alignment + ink.alignment[group.last :],
        writer=ink.writer,
    )
    return _without(changed, gone)


def _into_box(strokes: Sequence[np.ndarray], target: np.ndarray) -> list[np.ndarray]:
    """Bring strokes to the box of other points, without bending them out of shape."""
    points = np.concatenate(strokes)
    low, high = bounds(points)
    goal = bounds(target)
    ratio = np.exp(_log_extent(target) - _log_extent(points))
    size = np.sqrt(ratio * ratio.prod() ** 0.5)  # half way from equal proportions to the box's
    shift = (goal[0] + goal[1]) / 2 - (low + high) / 2 * size
    return [(stroke * size + shift).astype(np.float32) for stroke in strokes]
