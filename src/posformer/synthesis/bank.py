"""Handwritten symbols cut out of expressions, with their place in the row they stood in."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from posformer.errors import DataError
from posformer.ink.aligned import AlignedInk
from posformer.synthesis.expression import ExpressionError, parse, row_symbols, rows
from posformer.synthesis.extents import fit_row, reach

_CACHED = 20_000  # samples kept as objects: a corpus of all would cost each process 100 MB


@dataclass(frozen=True)
class SymbolSample:
    """One handwritten symbol; lengths are in the units of the ink it was taken from."""

    token: str
    writer: str
    points: np.ndarray  # float32 (points, 2), the box's left top corner is the origin, y down
    lengths: tuple[int, ...]  # points of each stroke, in order
    width: float
    height: float
    unit: float  # x-height of the row the symbol stood in
    baseline: float  # how far below the top of the box the row's baseline lies

    @cached_property
    def strokes(self) -> tuple[np.ndarray, ...]:
        """The strokes as views, float32 (points, 2) each."""
        return tuple(np.split(self.points, np.cumsum(self.lengths)[:-1]))

    @property
    def relative_height(self) -> float:
        """Height in x-heights of its row."""
        return self.height / self.unit


class SymbolBank:
    """Symbols by token and writer.

    All points lie in one array and samples are views of it, so a bank is compact, and processes
    forked from one share its memory.
    """

    def __init__(
        self,
        points: np.ndarray,
        lengths: np.ndarray,
        strokes: np.ndarray,
        tokens: Sequence[str],
        writers: Sequence[str],
        rows: np.ndarray,
    ) -> None:
        """Hold samples.

        Args:
            points: float32 (points, 2), of all samples, the origin at the corner of each box.
            lengths: int32 (strokes,), points of each stroke.
            strokes: int32 (samples,), strokes of each sample.
            tokens: What each sample writes.
            writers: Who wrote each sample.
            rows: float32 (samples, 2), the x-height of its row and the depth of the baseline
                below the top of the box.
        """
        self._points, self._lengths, self._rows = points, lengths, rows
        self._first_stroke = np.concatenate([[0], np.cumsum(strokes)]).astype(np.int64)
        self._first_point = np.concatenate([[0], np.cumsum(lengths)])[self._first_stroke]
        self._extents = np.maximum.reduceat(points, self._first_point[:-1])
        self._token_of, self._writer_of = tuple(tokens), tuple(writers)
        self._cache: dict[int, SymbolSample] = {}
        self._neighbours: dict[tuple[str, str], tuple[int, ...]] = {}
        self._index()

    def _index(self) -> None:
        by_token: dict[str, list[int]] = defaultdict(list)
        by_pair: dict[tuple[str, str], list[int]] = defaultdict(list)
        for place, pair in enumerate(zip(self._token_of, self._writer_of, strict=True)):
            by_token[pair[0]].append(place)
            by_pair[pair].append(place)
        self._by_token = {token: tuple(places) for token, places in by_token.items()}
        self._by_pair = {pair: tuple(places) for pair, places in by_pair.items()}
        self.tokens: frozenset[str] = frozenset(by_token)
        self.counts: Mapping[str, int] = {token: len(found) for token, found in by_token.items()}
        self.writers: tuple[str, ...] = tuple(sorted(set(self._writer_of)))
        self._habits = self._measure_habits()

    def _measure_habits(self) -> dict[str, np.ndarray]:
        """How each writer writes: width and point spacing of symbols, on a logarithmic scale."""
        units = self._rows[:, 0]
        spacing = self._extents.sum(axis=1) / np.diff(self._first_point)
        habits = np.log(
            np.stack([0.2 + self._extents[:, 0] / units, 1e-3 + spacing / units], axis=1)
        )
        places: dict[str, list[int]] = defaultdict(list)
        for place, writer in enumerate(self._writer_of):
            places[writer].append(place)
        return {writer: np.median(habits[mine], axis=0) for writer, mine in places.items()}

    @classmethod
    def from_samples(cls, samples: Iterable[SymbolSample]) -> SymbolBank:
        """A bank of given samples."""
        kept = list(samples)
        if not kept:
            raise DataError("a symbol bank needs at least one symbol")
        return cls(
            points=np.concatenate([sample.points for sample in kept]).astype(np.float32),
            lengths=np.array([n for sample in kept for n in sample.lengths], np.int32),
            strokes=np.array([len(sample.lengths) for sample in kept], np.int32),
            tokens=[sample.token for sample in kept],
            writers=[sample.writer for sample in kept],
            rows=np.array([[sample.unit, sample.baseline] for sample in kept], np.float32),
        )

    @classmethod
    def from_inks(cls, inks: Iterable[AlignedInk]) -> SymbolBank:
        """Cut every symbol out of aligned ink.

        Symbols of a shape that cannot be theirs (a slip of the pen, a wrong label) are left out.
        """
        return cls.from_samples(
            sample for ink in inks for sample in cut_symbols(ink) if _plausible(sample)
        )

    def __len__(self) -> int:
        return len(self._token_of)

    def __getitem__(self, place: int) -> SymbolSample:
        sample = self._cache.get(place)
        if sample is None:
            if len(self._cache) >= _CACHED:
                self._cache.clear()
            sample = self._cache[place] = self._sample(place)
        return sample

    def __getstate__(self) -> dict[str, object]:
        return {**self.__dict__, "_cache": {}, "_neighbours": {}}

    def samples(self, token: str, writer: str | None = None) -> Sequence[SymbolSample]:
        """All samples of a token, of one writer if named; empty if there is none."""
        return tuple(self[place] for place in self._places(token, writer))

    def choose(
        self, token: str, rng: np.random.Generator, writer: str | None = None
    ) -> SymbolSample:
        """Any sample of a token; where the writer has none, one of a writer with a similar hand.

        Raises:
            DataError: No writer of the bank wrote this token.
        """
        places = self._places(token, writer)
        if not places and writer is not None:
            places = self._similar(token, writer)
        if not places:
            raise DataError(f"the symbol bank holds no ink for '{token}'")
        return self[places[int(rng.random() * len(places))]]

    def written_by(self, writer: str) -> frozenset[str]:
        """The tokens a writer wrote."""
        return self._repertoire.get(writer, frozenset())

    @cached_property
    def _repertoire(self) -> Mapping[str, frozenset[str]]:
        written: dict[str, set[str]] = defaultdict(set)
        for token, writer in self._by_pair:
            written[writer].add(token)
        return {writer: frozenset(tokens) for writer, tokens in written.items()}

    @cached_property
    def _owners(self) -> Mapping[str, tuple[str, ...]]:
        """The writers of each token."""
        owners: dict[str, list[str]] = defaultdict(list)
        for token, writer in sorted(self._by_pair):
            owners[token].append(writer)
        return {token: tuple(writers) for token, writers in owners.items()}

    def _places(self, token: str, writer: str | None) -> tuple[int, ...]:
        if writer is None:
            return self._by_token.get(token, ())
        return self._by_pair.get((token, writer), ())

    def _similar(self, token: str, writer: str, nearest: int = 4) -> tuple[int, ...]:
        """Samples of a token by the writers whose hand is nearest to this one's."""
        key = (token, writer)
        if key not in self._neighbours:
            owners = list(self._owners.get(token, ()))
            if writer in self._habits and owners:
                theirs = np.array([self._habits[other] for other in owners])
                distances = np.abs(theirs - self._habits[writer]).sum(axis=1)
                owners = [owners[n] for n in np.argsort(distances, kind="stable").tolist()]
            self._neighbours[key] = tuple(
                place for other in owners[:nearest] for place in self._by_pair[token, other]
            )
        return self._neighbours[key]

    def _sample(self, place: int) -> SymbolSample:
        first, last = self._first_point[place], self._first_point[place + 1]
        width, height = self._extents[place].tolist()
        unit, baseline = self._rows[place].tolist()
        strokes = self._lengths[self._first_stroke[place] : self._first_stroke[place + 1]]
        return SymbolSample(
            token=self._token_of[place],
            writer=self._writer_of[place],
            points=self._points[first:last],
            lengths=tuple(strokes.tolist()),
            width=width,
            height=height,
            unit=unit,
            baseline=baseline,
        )


@dataclass(frozen=True)
class _Cut:
    """The points of one symbol where it was written, and its box."""

    points: np.ndarray
    left: float
    top: float
    right: float
    bottom: float

    @classmethod
    def of(cls, strokes: Sequence[np.ndarray]) -> _Cut:
        points = strokes[0] if len(strokes) == 1 else np.concatenate(strokes)
        return cls(points, *points.min(axis=0).tolist(), *points.max(axis=0).tolist())


def cut_symbols(ink: AlignedInk) -> Iterator[SymbolSample]:
    """Every symbol of an expression, with the x-height and baseline of the row it stands in."""
    cuts = {
        place: _Cut.of([ink.strokes[stroke] for stroke in strokes])
        for place, strokes in enumerate(ink.alignment)
        if strokes
    }
    for place, (baseline, unit) in _lines_of(ink.tokens, cuts).items():
        cut = cuts[place]
        yield SymbolSample(
            token=ink.tokens[place],
            writer=ink.writer,
            points=cut.points - np.array([cut.left, cut.top], np.float32),
            lengths=tuple(len(ink.strokes[stroke]) for stroke in ink.alignment[place]),
            width=cut.right - cut.left,
            height=cut.bottom - cut.top,
            unit=unit,
            baseline=baseline - cut.top,
        )


def _lines_of(tokens: Sequence[str], cuts: Mapping[int, _Cut]) -> dict[int, tuple[float, float]]:
    """Baseline and x-height for every symbol, from its row or else from the symbol itself."""
    try:
        members = [list(row_symbols(row)) for row in rows(parse(tokens))]
    except ExpressionError:
        members = []
    fitted: dict[int, tuple[float, float]] = {}
    for row in members:
        places = [place for place in row if place in cuts]
        line = fit_row(
            [tokens[place] for place in places],
            [cuts[place].top for place in places],
            [cuts[place].bottom for place in places],
        )
        if line is not None:
            fitted.update((place, line) for place in places)
    typical = sorted(unit for _, unit in fitted.values())[len(fitted) // 2] if fitted else None
    for place, cut in cuts.items():
        if place not in fitted:
            fitted[place] = _alone(tokens[place], cut, typical)
    return fitted


def _alone(token: str, cut: _Cut, typical: float | None) -> tuple[float, float]:
    """Baseline and x-height as they would be if the symbol stood as usual."""
    usual = reach(token)
    if usual.height < 0.5:
        unit = typical or max(cut.right - cut.left, cut.bottom - cut.top) or 1.0
    else:
        unit = max(cut.bottom - cut.top, 1e-3) / usual.height
    return cut.top + usual.top * unit, unit


def _plausible(sample: SymbolSample) -> bool:
    """Whether size and place are within what a hand does."""
    usual = reach(sample.token)
    if usual.height < 0.5:
        return sample.unit > 0 and sample.relative_height < 2.0
    return 0.4 < sample.relative_height / usual.height < 2.5
