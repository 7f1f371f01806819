"""A bank of handwritten symbols with their size and position relative to the baseline."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from posformer.errors import DataError, LatexError
from posformer.ink.aligned import AlignedInk
from posformer.latex.tree import baselines, parse
from posformer.synthesis.extents import fit_row, vertical_extent

_MAX_CACHED_SAMPLES = 20_000  # caching a whole corpus would cost each process 100 MB


@dataclass(frozen=True)
class Source:
    """The provenance of a writer's symbols."""

    corpus: str
    license: str


@dataclass(frozen=True)
class SymbolSample:
    """A handwritten symbol; lengths are in the units of the ink it was taken from."""

    token: str
    writer: str
    points: np.ndarray  # float32 (points, 2), y down; the origin is the top left corner of the box
    lengths: tuple[int, ...]  # number of points of each stroke
    width: float
    height: float
    unit: float  # x-height of the line that the symbol was written on
    baseline: float  # distance of the baseline below the top of the box

    @cached_property
    def strokes(self) -> tuple[np.ndarray, ...]:
        """The strokes as views, float32 (points, 2) each."""
        return tuple(np.split(self.points, np.cumsum(self.lengths)[:-1]))

    @property
    def relative_height(self) -> float:
        """Height in x-heights."""
        return self.height / self.unit


class SymbolBank:
    """Symbols by token and writer.

    All points are stored in one array, and samples are views of it. A bank is therefore compact,
    and forked processes share its memory.
    """

    def __init__(
        self,
        points: np.ndarray,
        lengths: np.ndarray,
        strokes: np.ndarray,
        tokens: Sequence[str],
        writers: Sequence[str],
        metrics: np.ndarray,
        sources: Mapping[str, Source] | None = None,
        lead_writers: Iterable[str] | None = None,
    ) -> None:
        """Create a bank from arrays; see `from_inks` and `from_samples`.

        Args:
            points: float32 (points, 2), of all samples, relative to the corners of their boxes.
            lengths: int32 (strokes,), number of points of each stroke.
            strokes: int32 (samples,), number of strokes of each sample.
            tokens: Token of each sample.
            writers: Writer of each sample.
            metrics: float32 (samples, 2), x-height and distance of the baseline below the top of
                the box.
            sources: Provenance by writer, where it is known.
            lead_writers: Writers with enough symbols to write an expression; all by default.
                Others only lend the symbols that a lead writer lacks.
        """
        self._points, self._lengths, self._metrics = points, lengths, metrics
        self.sources: Mapping[str, Source] = sources or {}
        self._first_stroke = np.concatenate([[0], np.cumsum(strokes)]).astype(np.int64)
        self._first_point = np.concatenate([[0], np.cumsum(lengths)])[self._first_stroke]
        self._extents = np.maximum.reduceat(points, self._first_point[:-1])
        self._token_of, self._writer_of = tuple(tokens), tuple(writers)
        self._cache: dict[int, SymbolSample] = {}
        self._neighbors: dict[tuple[str, str], tuple[int, ...]] = {}
        self._build_indices()
        self._lead_writers = self.writers if lead_writers is None else tuple(sorted(lead_writers))

    def _build_indices(self) -> None:
        by_token: dict[str, list[int]] = defaultdict(list)
        by_pair: dict[tuple[str, str], list[int]] = defaultdict(list)
        for index, pair in enumerate(zip(self._token_of, self._writer_of, strict=True)):
            by_token[pair[0]].append(index)
            by_pair[pair].append(index)
        self._by_token = {token: tuple(indices) for token, indices in by_token.items()}
        self._by_pair = {pair: tuple(indices) for pair, indices in by_pair.items()}
        self.tokens: frozenset[str] = frozenset(by_token)
        self.counts: Mapping[str, int] = {token: len(found) for token, found in by_token.items()}
        self.writers: tuple[str, ...] = tuple(sorted(set(self._writer_of)))
        self._styles = self._measure_styles()

    def _measure_styles(self) -> dict[str, np.ndarray]:
        """Return the style of each writer, float64 (4,), scaled to unit variance.

        The features are slant and the logarithms of aspect ratio, size and point spacing, each
        relative to the median of the token, so that writers of different symbols can be compared.
        """
        units = self._metrics[:, :1]
        size = 0.2 + self._extents / units
        spacing = self._extents.sum(axis=1) / np.diff(self._first_point) / units[:, 0]
        features = np.stack(
            [
                self._measure_slants(),
                np.log(size[:, 0] / size[:, 1]),
                np.log(size[:, 0]),
                np.log(1e-3 + spacing),
            ],
            axis=1,
        )
        for indices in self._by_token.values():
            features[list(indices)] -= np.median(features[list(indices)], axis=0)
        by_writer: dict[str, list[int]] = defaultdict(list)
        for index, writer in enumerate(self._writer_of):
            by_writer[writer].append(index)
        styles = np.array([np.median(features[own], axis=0) for own in by_writer.values()])
        return dict(zip(by_writer, styles / (styles.std(axis=0) + 1e-6), strict=True))

    def _measure_slants(self) -> np.ndarray:
        """Return the mean slant (dx per dy) of the steep segments of each sample, (samples,)."""
        moves = np.diff(self._points, axis=0, append=self._points[-1:])
        moves[np.cumsum(self._lengths) - 1] = 0  # from one stroke to the next
        dx, dy = moves.T
        steep = np.abs(dy) > np.abs(dx)
        height, shift = (
            np.add.reduceat(np.where(steep, values, 0.0), self._first_point[:-1])
            for values in (np.abs(dy), np.sign(dy) * dx)
        )
        return -shift / np.maximum(height, 1e-6)

    @classmethod
    def from_samples(cls, samples: Iterable[SymbolSample]) -> SymbolBank:
        """Create a bank of samples.

        Raises:
            DataError: If there are none.
        """
        samples = list(samples)
        if not samples:
            raise DataError("a symbol bank needs at least one symbol")
        return cls(
            points=np.concatenate([sample.points for sample in samples]).astype(np.float32),
            lengths=np.array([n for sample in samples for n in sample.lengths], np.int32),
            strokes=np.array([len(sample.lengths) for sample in samples], np.int32),
            tokens=[sample.token for sample in samples],
            writers=[sample.writer for sample in samples],
            metrics=np.array([[sample.unit, sample.baseline] for sample in samples], np.float32),
        )

    def to_arrays(self) -> dict[str, np.ndarray]:
        """Return the bank as plain arrays, for a cache; provenance is left out."""
        names = json.dumps([*zip(self._token_of, self._writer_of, strict=True)])
        return {
            "names": np.frombuffer(names.encode(), np.uint8),
            "points": self._points,
            "lengths": self._lengths,
            "strokes": np.diff(self._first_stroke),
            "metrics": self._metrics,
        }

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, np.ndarray]) -> SymbolBank:
        """Restore a bank from `to_arrays`."""
        tokens, writers = zip(*json.loads(arrays["names"].tobytes()), strict=True)
        return cls(
            arrays["points"],
            arrays["lengths"],
            arrays["strokes"],
            tokens,
            writers,
            arrays["metrics"],
        )

    def select(self, writers: Collection[str]) -> SymbolBank:
        """Return a bank of some of the writers.

        Raises:
            DataError: If none of them has a symbol.
        """
        chosen = frozenset(writers)
        return SymbolBank.from_samples(
            self[index] for index, writer in enumerate(self._writer_of) if writer in chosen
        )

    def as_lenders(self) -> SymbolBank:
        """Return the same bank without lead writers."""
        bank = copy(self)
        bank._lead_writers = ()
        return bank

    @classmethod
    def merge(cls, banks: Sequence[SymbolBank]) -> SymbolBank:
        """Combine banks, whose writers must have different names."""
        return cls(
            points=np.concatenate([bank._points for bank in banks]),
            lengths=np.concatenate([bank._lengths for bank in banks]),
            strokes=np.concatenate([np.diff(bank._first_stroke) for bank in banks]),
            tokens=[token for bank in banks for token in bank._token_of],
            writers=[writer for bank in banks for writer in bank._writer_of],
            metrics=np.concatenate([bank._metrics for bank in banks]),
            sources={name: source for bank in banks for name, source in bank.sources.items()},
            lead_writers=[writer for bank in banks for writer in bank._lead_writers],
        )

    @classmethod
    def from_inks(cls, inks: Iterable[AlignedInk]) -> SymbolBank:
        """Extract every symbol of aligned ink.

        Symbols of an implausible size (slips of the pen, wrong labels) are skipped.
        """
        return cls.from_samples(
            sample for ink in inks for sample in extract_symbols(ink) if _is_plausible(sample)
        )

    def __len__(self) -> int:
        return len(self._token_of)

    def __getitem__(self, index: int) -> SymbolSample:
        sample = self._cache.get(index)
        if sample is None:
            if len(self._cache) >= _MAX_CACHED_SAMPLES:
                self._cache.clear()
            sample = self._cache[index] = self._make_sample(index)
        return sample

    def __getstate__(self) -> dict[str, object]:
        return {**self.__dict__, "_cache": {}, "_neighbors": {}}

    @property
    def lead_writers(self) -> tuple[str, ...]:
        """The writers who can write expressions; all if no writer has enough symbols."""
        return self._lead_writers or self.writers

    def samples(
        self, token: str, writer: str | None = None, limit: int | None = None
    ) -> Sequence[SymbolSample]:
        """Return the samples of a token, optionally of one writer, or a limited number of them."""
        indices = self._indices(token, writer)
        step = 1 if limit is None else max(1, -(-len(indices) // limit))
        return tuple(self[index] for index in indices[::step])

    def choose(
        self, token: str, rng: np.random.Generator, writer: str | None = None
    ) -> SymbolSample:
        """Return a random sample of a token.

        If the writer has none, it comes from a writer of similar style.

        Raises:
            DataError: If the bank has no sample of the token.
        """
        indices = self._indices(token, writer)
        if not indices and writer is not None:
            indices = self._similar(token, writer)
        if not indices:
            raise DataError(f"the symbol bank has no ink for '{token}'")
        return self[indices[int(rng.random() * len(indices))]]

    def written_by(self, writer: str) -> frozenset[str]:
        """Return the tokens that a writer wrote."""
        return self._tokens_by_writer.get(writer, frozenset())

    @cached_property
    def _tokens_by_writer(self) -> Mapping[str, frozenset[str]]:
        written: dict[str, set[str]] = defaultdict(set)
        for token, writer in self._by_pair:
            written[writer].add(token)
        return {writer: frozenset(tokens) for writer, tokens in written.items()}

    @cached_property
    def _writers_by_token(self) -> Mapping[str, tuple[str, ...]]:
        writers: dict[str, list[str]] = defaultdict(list)
        for token, writer in sorted(self._by_pair):
            writers[token].append(writer)
        return {token: tuple(names) for token, names in writers.items()}

    def _indices(self, token: str, writer: str | None) -> tuple[int, ...]:
        if writer is None:
            return self._by_token.get(token, ())
        return self._by_pair.get((token, writer), ())

    def _similar(self, token: str, writer: str, nearest: int = 4) -> tuple[int, ...]:
        """Return samples of a token by the writers whose style is nearest to this one's."""
        key = (token, writer)
        if key not in self._neighbors:
            others = list(self._writers_by_token.get(token, ()))
            if writer in self._styles and others:
                styles = np.array([self._styles[other] for other in others])
                distances = np.abs(styles - self._styles[writer]).sum(axis=1)
                others = [others[n] for n in np.argsort(distances, kind="stable").tolist()]
            self._neighbors[key] = tuple(
                index for other in others[:nearest] for index in self._by_pair[token, other]
            )
        return self._neighbors[key]

    def _make_sample(self, index: int) -> SymbolSample:
        first, last = self._first_point[index], self._first_point[index + 1]
        width, height = self._extents[index].tolist()
        unit, baseline = self._metrics[index].tolist()
        strokes = self._lengths[self._first_stroke[index] : self._first_stroke[index + 1]]
        return SymbolSample(
            token=self._token_of[index],
            writer=self._writer_of[index],
            points=self._points[first:last],
            lengths=tuple(strokes.tolist()),
            width=width,
            height=height,
            unit=unit,
            baseline=baseline,
        )


@dataclass(frozen=True)
class _PlacedSymbol:
    """The points of a symbol in its expression, and its bounding box."""

    points: np.ndarray
    left: float
    top: float
    right: float
    bottom: float

    @classmethod
    def of(cls, strokes: Sequence[np.ndarray]) -> _PlacedSymbol:
        points = strokes[0] if len(strokes) == 1 else np.concatenate(strokes)
        return cls(points, *points.min(axis=0).tolist(), *points.max(axis=0).tolist())


def extract_symbols(ink: AlignedInk) -> Iterator[SymbolSample]:
    """Yield the symbols of an expression with the x-height and baseline of their lines."""
    symbols = {
        index: _PlacedSymbol.of([ink.strokes[stroke] for stroke in strokes])
        for index, strokes in enumerate(ink.alignment)
        if strokes
    }
    for index, (baseline, unit) in _fit_baselines(ink.tokens, symbols).items():
        symbol = symbols[index]
        yield SymbolSample(
            token=ink.tokens[index],
            writer=ink.writer,
            points=symbol.points - np.array([symbol.left, symbol.top], np.float32),
            lengths=tuple(len(ink.strokes[stroke]) for stroke in ink.alignment[index]),
            width=symbol.right - symbol.left,
            height=symbol.bottom - symbol.top,
            unit=unit,
            baseline=baseline - symbol.top,
        )


def _fit_baselines(
    tokens: Sequence[str], symbols: Mapping[int, _PlacedSymbol]
) -> dict[int, tuple[float, float]]:
    """Return the baseline and x-height of every symbol, from its line or the symbol itself."""
    try:
        members = [
            [node.index for node in row if not node.arguments] for row in baselines(parse(tokens))
        ]
    except LatexError:
        members = []
    fitted: dict[int, tuple[float, float]] = {}
    for row in members:
        indices = [index for index in row if index in symbols]
        line = fit_row(
            [tokens[index] for index in indices],
            [symbols[index].top for index in indices],
            [symbols[index].bottom for index in indices],
        )
        if line is not None:
            fitted.update((index, line) for index in indices)
    typical = sorted(unit for _, unit in fitted.values())[len(fitted) // 2] if fitted else None
    for index, symbol in symbols.items():
        if index not in fitted:
            fitted[index] = _estimate_baseline(tokens[index], symbol, typical)
    return fitted


def _estimate_baseline(
    token: str, symbol: _PlacedSymbol, typical: float | None
) -> tuple[float, float]:
    """Return the baseline and x-height that the symbol's usual vertical extent implies."""
    usual = vertical_extent(token)
    if usual.height < 0.5:
        unit = typical or max(symbol.right - symbol.left, symbol.bottom - symbol.top) or 1.0
    else:
        unit = max(symbol.bottom - symbol.top, 1e-3) / usual.height
    return symbol.top + usual.top * unit, unit


def _is_plausible(sample: SymbolSample) -> bool:
    """Whether the size of a symbol is within the natural variation of handwriting."""
    usual = vertical_extent(sample.token)
    if usual.height < 0.5:
        return sample.unit > 0 and sample.relative_height < 2.0
    return 0.4 < sample.relative_height / usual.height < 2.5
