"""Augmentation of aligned ink: symbol substitution and subtree swap.

The text of an expression changes, its layout stays.
"""

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
from posformer.synthesis.extents import SCRIPT_SIZE, vertical_extent

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
    """Return the sampling weight of a symbol, given how often each occurs.

    Rare symbols are sampled more often than they occur, so that a model learns them, but less
    often than common ones: otherwise it confuses `2` with `z` and `9` with `q`. The two cases of a
    letter often differ only in size. Their weights are closer still: otherwise a model reads most
    capitals as small letters.
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

    @property
    def length(self) -> int:
        """The number of tokens between the braces."""
        return self.last - self.first - 1


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
class _Subtree:
    """A group of an expression, which can replace a group of another one."""

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
        """Collect all groups that are completely aligned.

        Args:
            inks: Aligned ink.
            max_tokens: The length of the longest group to collect.
        """
        self._subtrees: dict[Role, list[_Subtree]] = {}
        extents: dict[Role, list[np.ndarray]] = {}
        for ink in inks:
            for group, points in _complete_groups(ink):
                if group.length <= max_tokens:
                    self._subtrees.setdefault(group.role, []).append(_Subtree(ink, group))
                    extents.setdefault(group.role, []).append(_log_extent(points))
        self._extents = {role: np.array(rows, np.float32) for role, rows in extents.items()}

    def __len__(self) -> int:
        return sum(map(len, self._subtrees.values()))

    def choose(
        self, role: Role, points: np.ndarray, rng: np.random.Generator, tries: int = 48
    ) -> _Subtree | None:
        """Sample a group of a role whose ink is about as wide and high as `points`.

        Args:
            role: See `Group.role`.
            points: float (points, 2), of the group to replace.
            rng: Random generator.
            tries: The number of candidates; the first that fits is returned, None if none does.
        """
        subtrees = self._subtrees.get(role)
        if not subtrees:
            return None
        candidates = rng.integers(len(subtrees), size=tries)
        misfit = np.abs(self._extents[role][candidates] - _log_extent(points)).max(axis=1)
        fitting = np.flatnonzero(misfit < self.tolerance)
        return subtrees[candidates[fitting[0]]] if len(fitting) else None


def _complete_groups(ink: AlignedInk) -> Iterator[tuple[Group, np.ndarray]]:
    """Yield the groups whose inked tokens are all aligned, with their points."""
    inked = set(inked_places(ink.tokens))
    for group in find_groups(ink.tokens):
        inside = inked.intersection(range(group.first + 1, group.last))
        if inside and all(ink.alignment[index] for index in inside):
            yield group, _points_of(ink, range(group.first, group.last))


def _points_of(ink: AlignedInk, indices: Sequence[int]) -> np.ndarray:
    return np.concatenate(
        [ink.strokes[stroke] for index in indices for stroke in ink.alignment[index]]
    )


def _log_extent(points: np.ndarray) -> np.ndarray:
    # The added pixels keep flat groups, such as a lone minus, from being infinitely thin.
    low, high = bounds(points)
    return np.asarray(np.log(high - low + 4.0))


class SymbolSubstitution:
    """Changes the text of an expression and keeps its layout.

    Each distinct symbol of `KINDS` may become another one of its kind, and parentheses may become
    other delimiters, everywhere in the expression, in the hand of one writer of the bank. Exponents
    of letters may become primes. A group may be replaced by a group of another expression with the
    same role and about the same extent.
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
        """Set up the augmentation.

        Args:
            symbols: Symbols to substitute; None for no symbol substitution.
            groups: Groups to swap in; None for no subtree swap.
            substitution: Probability that symbols of an expression are substituted.
            each: Probability, in such an expression, for each distinct symbol.
            subtree_swap: Probability that a group of an expression is replaced.
            max_tokens: The length that no expression exceeds after a swap.

        Raises:
            ConfigError: A probability is not between 0 and 1.
        """
        for name, value in (
            ("substitution", substitution),
            ("each", each),
            ("subtree_swap", subtree_swap),
        ):
            if not 0 <= value <= 1:
                raise ConfigError(f"{name} {value} is not a probability between 0 and 1")
        self._symbols = symbols
        self._groups = groups
        self._substitution, self._each, self._subtree_swap = substitution, each, subtree_swap
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
        """Substitute symbols and swap subtrees among given expressions.

        Args:
            inks: The expressions, which should all belong to the training set.
            substitution: See `__init__`.
            each: See `__init__`.
            subtree_swap: See `__init__`.
            bank: The symbols of the expressions, if they have been cut out already.
        """
        symbols = (bank or SymbolBank.from_inks(inks)) if substitution else None
        groups = GroupBank(inks) if subtree_swap else None
        return cls(symbols, groups, substitution=substitution, each=each, subtree_swap=subtree_swap)

    def __call__(self, ink: AlignedInk, rng: np.random.Generator) -> AlignedInk:
        """Return a changed expression or, depending on the probabilities, the given one."""
        if self._groups is not None and rng.random() < self._subtree_swap:
            ink = self._swap_subtree(ink, self._groups, rng)
        if self._symbols is not None and rng.random() < self._substitution:
            ink = self._substitute_symbols(ink, self._symbols, rng)
        return ink

    def _substitute_symbols(
        self, ink: AlignedInk, bank: SymbolBank, rng: np.random.Generator
    ) -> AlignedInk:
        chosen = self._choose_symbols(ink.tokens, rng)
        exponents = _lone_exponents(ink.tokens) if self._has_primes else set()
        all_primes = rng.random() < self._each / 4
        tokens, strokes, alignment = list(ink.tokens), list(ink.strokes), list(ink.alignment)
        removed: set[int] = set()
        writers: dict[str, str] = {}
        for index, old in enumerate(ink.tokens):
            new = chosen.get(old)
            if index in exponents and (all_primes or new == "1"):  # nobody writes an exponent 1
                new = _PRIME
            if new is None or not ink.alignment[index]:
                continue
            sample = bank.choose(new, rng, writers.get(new))
            writers.setdefault(new, sample.writer)
            fit = fit_prime if new == _PRIME else fit_symbol
            fitted = fit(sample, old, _points_of(ink, [index]))
            removed.update(ink.alignment[index])
            alignment[index] = tuple(range(len(strokes), len(strokes) + len(fitted)))
            strokes += fitted
            tokens[index] = new
        if not removed:
            return ink
        changed = replace(
            ink, tokens=tuple(tokens), strokes=tuple(strokes), alignment=tuple(alignment)
        )
        return _without(changed, removed)

    def _choose_symbols(self, tokens: Sequence[str], rng: np.random.Generator) -> dict[str, str]:
        """Return the new symbol of each symbol to change; different symbols stay different."""
        present = [token for token in dict.fromkeys(tokens) if token in self._kinds]
        used = set(present)
        chosen: dict[str, str] = {}
        for token in present:
            if rng.random() < self._each:
                choices = [other for other in self._kinds[token] if other not in used]
                if choices:
                    weights = np.array([self._weights[other] for other in choices])
                    choice = int(rng.choice(len(choices), p=weights / weights.sum()))
                    chosen[token] = choices[choice]
                    used.add(chosen[token])
        if "(" in tokens and self._fences and rng.random() < self._each / 2:
            left, right = self._fences[int(rng.integers(len(self._fences)))]
            chosen |= {"(": left, ")": right}
        return chosen

    def _swap_subtree(
        self, ink: AlignedInk, bank: GroupBank, rng: np.random.Generator
    ) -> AlignedInk:
        groups = list(_complete_groups(ink))
        if not groups:
            return ink
        group, points = groups[int(rng.integers(len(groups)))]
        subtree = bank.choose(group.role, points, rng)
        if subtree is None or subtree.tokens == ink.tokens[group.first + 1 : group.last]:
            return ink
        if len(ink.tokens) + subtree.group.length - group.length > self._max_tokens:
            return ink
        return _swapped(ink, group, points, subtree)


def _lone_exponents(tokens: Sequence[str]) -> set[int]:
    """Return the indices of symbols that are the whole exponent of a letter."""
    return {
        group.first + 1
        for group in find_groups(tokens)
        if group.role == ("^", 0)
        and group.length == 1
        and tokens[max(group.first - 2, 0)] in _LETTERS
        and tokens[group.first + 1] in _KIND_OF
    }


def fit_symbol(sample: SymbolSample, old: str, points: np.ndarray) -> list[np.ndarray]:
    """Scale a symbol to the size of the one it replaces and set it on the same baseline.

    The baseline follows from the usual vertical extent of the old symbol, so that a `g` in place
    of an `a` hangs below the row and a `b` rises above it. The new symbol keeps its proportions,
    except that it is narrowed where it would touch its neighbors, and is kept near the old box
    where it would touch what is above or below.

    Args:
        sample: The new symbol.
        old: The old token.
        points: float (points, 2), the ink of the old symbol.

    Returns:
        The strokes, float32 (points, 2) each.
    """
    low, high = bounds(points)
    width, height = high - low
    usual = vertical_extent(old)
    if usual.height >= 0.5:
        unit = height / usual.height
        baseline = low[1] + usual.top * unit
    else:  # the width of a flat symbol, such as a narrow `=`, says more than its height
        unit = max(width, 8.0) / 1.2
        baseline = (low[1] + high[1]) / 2 + (usual.top + usual.bottom) / 2 * unit
    # Half an x-height above and below is usually free; beyond, there may be a fraction bar.
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
    """Set a prime in the place of an exponent; for arguments and result see `fit_symbol`.

    A prime has the size of the row of its letter. Its top left corner is that of the exponent.
    """
    low, high = bounds(points)
    unit = max((high[1] - low[1]) / max(vertical_extent(old).height, 0.5), 4.0) / SCRIPT_SIZE
    scale = unit / sample.unit
    return [(stroke * scale + low).astype(np.float32) for stroke in sample.strokes]


def _without(ink: AlignedInk, removed: set[int]) -> AlignedInk:
    """Remove strokes that no token is aligned with any more."""
    kept = [stroke for stroke in range(len(ink.strokes)) if stroke not in removed]
    number = {stroke: number for number, stroke in enumerate(kept)}
    return replace(
        ink,
        strokes=tuple(ink.strokes[stroke] for stroke in kept),
        alignment=tuple(tuple(number[stroke] for stroke in members) for members in ink.alignment),
    )


def _swapped(ink: AlignedInk, group: Group, points: np.ndarray, subtree: _Subtree) -> AlignedInk:
    """Replace a group by a subtree, which is scaled into its box."""
    removed = {
        stroke for members in ink.alignment[group.first + 1 : group.last] for stroke in members
    }
    numbers: dict[int, int] = {}
    for members in subtree.alignment:
        for stroke in members:
            numbers[stroke] = len(ink.strokes) + len(numbers)
    fitted = _into_box([subtree.ink.strokes[stroke] for stroke in numbers], points)
    alignment = tuple(tuple(numbers[stroke] for stroke in row) for row in subtree.alignment)
    changed = replace(
        ink,
        tokens=ink.tokens[: group.first + 1] + subtree.tokens + ink.tokens[group.last :],
        strokes=ink.strokes + tuple(fitted),
        alignment=ink.alignment[: group.first + 1] + alignment + ink.alignment[group.last :],
    )
    return _without(changed, removed)


def _into_box(strokes: Sequence[np.ndarray], target: np.ndarray) -> list[np.ndarray]:
    """Move and scale strokes into the box of other points, with moderate distortion."""
    points = np.concatenate(strokes)
    low, high = bounds(points)
    goal = bounds(target)
    ratio = np.exp(_log_extent(target) - _log_extent(points))
    size = np.sqrt(ratio * ratio.prod() ** 0.5)  # half way between own and target proportions
    shift = (goal[0] + goal[1]) / 2 - (low + high) / 2 * size
    return [(stroke * size + shift).astype(np.float32) for stroke in strokes]
