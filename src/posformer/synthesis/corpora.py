"""Corpora of isolated handwritten symbols as symbol banks.

A corpus is a file of JSON lines, optionally compressed with gzip: `token`, `writer` and `strokes`,
each stroke a list of [x, y] with y down. Badly segmented samples are dropped, coarse strokes are
smoothed, and every symbol is scaled to the usual vertical extent of its token, since isolated
symbols have no baseline.
"""

from __future__ import annotations

import gzip
import json
import os
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import numpy as np

from posformer.data.array_cache import DEFAULT_CACHE, ArrayCache, file_state
from posformer.errors import DataError
from posformer.latex import is_structure
from posformer.latex.symbols import SYMBOLS
from posformer.synthesis.bank import Source, SymbolBank
from posformer.synthesis.extents import vertical_extent
from posformer.synthesis.glyphs import smooth_curve

__all__ = [
    "LICENSES",
    "RawSymbol",
    "canonical_name",
    "find_faults",
    "load_corpus",
    "read_symbols",
]

LICENSES: Mapping[str, str] = {
    "unipen": "CC BY 4.0",
    "detexify": "ODbL 1.0",
    "omniglot": "MIT",
}
"""Licenses of known corpora, by file name."""

_ALIAS_TABLE = r"""
\varnothing=\emptyset \diameter=\emptyset \dag=\dagger \ddag=\ddagger \|=\Vert \mid=|
\shortmid=| \nshortmid=\nmid \shortparallel=\parallel \longrightarrow=\rightarrow
\longleftarrow=\leftarrow \longleftrightarrow=\leftrightarrow \shortrightarrow=\rightarrow
\shortleftarrow=\leftarrow \shortuparrow=\uparrow \shortdownarrow=\downarrow
\Longrightarrow=\Rightarrow \Longleftarrow=\Leftarrow \Longleftrightarrow=\Leftrightarrow
\longmapsto=\mapsto \rightsquigarrow=\leadsto \leqslant=\leq \geqslant=\geq \nleqslant=\nleq
\ngeqslant=\ngeq \dots=\ldots \dotsc=\ldots \dotso=\ldots \mathellipsis=\ldots \dotsb=\cdots
\dotsm=\cdots \dotsi=\cdots \colon=: \ast=* \cdotp=\cdot \centerdot=\cdot \ldotp=. \hslash=\hbar
\ohm=\Omega \thicksim=\sim \thickapprox=\approx \varpropto=\propto \smallsetminus=\setminus
\preccurlyeq=\preceq \succcurlyeq=\succeq \varsubsetneq=\subsetneq \varsupsetneq=\supsetneq
\smallsmile=\smile \smallfrown=\frown \vartriangle=\triangle \lhd=\triangleleft
\vartriangleleft=\triangleleft \rhd=\triangleright \vartriangleright=\triangleright \Box=\square
\Square=\square \ocircle=\bigcirc \vDash=\models \circeq=\eqcirc \coloneq=\coloneqq
\checked=\checkmark \mathsterling=\pounds \mathdollar=\$ \mathunderscore=\_ \sqrt{}=\sqrt
\Bbbk=\mathbb{k}
"""
_ALIASES = dict(pair.split("=") for pair in _ALIAS_TABLE.split())
"""Tokens of corpora that look like another one when they are written by hand."""

_CACHE_VERSION = 4  # to be raised whenever reading, filtering or scaling changes

_SIZE = 1000.0  # longer side of a symbol in a bank
_MIN_SPACING = 8.0  # points closer than this to the previous one are dropped
_COARSE_SPACING = 90.0  # strokes with a larger median distance of points are smoothed
_SMOOTH_SPACING = 20.0
_CORNER_COSINE = 0.3  # of the turn at a point of a coarse stroke that stays a corner
_COARSE_GRID = 15.0  # smallest step of symbols whose strokes are staircases

_MIN_SAMPLES = 8  # of a token for comparing its samples with each other
_MAX_DEVIATION = 4.0  # in robust standard deviations, of aspect ratio and stroke length
_MAX_SHAPE_DEVIATION = 2.5  # likewise, of the distance to other samples of the token
_MIN_ODD_DISTANCE = 0.36  # at least this distance, for tokens that are all alike such as 1
_GRID = 10  # side of the raster for comparing shapes
_REFERENCES = 150  # samples per token that others are compared with
_NEIGHBOR_SHARE = 0.05  # of the references of a token that a sample must be close to
_MAX_OWN_TO_OTHER = 1.55  # distance to samples of the token relative to those of other tokens
_STRAIGHT = 0.96  # distance of the ends of a straight stroke relative to its length
_MAX_LINES = 0.1  # share of straight lines among samples of a token, above which they belong to it
_FLAT_WIDTH = 1.1  # in x-heights, of symbols wider than high; their height says little
_LONG_WIDTH = 1.8  # of arrows and rows of dots
_MIN_LEAD_TOKENS = 20  # tokens that a writer must have to write whole expressions


@dataclass(frozen=True)
class RawSymbol:
    """A symbol of a corpus in a box whose longer side is 1000."""

    token: str
    writer: str
    strokes: tuple[np.ndarray, ...]  # float32 (points, 2), x to the right, y down


def load_corpus(
    path: str | os.PathLike[str], cache: str | os.PathLike[str] | None = DEFAULT_CACHE
) -> SymbolBank:
    """Load a corpus of isolated symbols.

    Args:
        path: A file `<corpus>.jsonl` or `<corpus>.jsonl.gz`.
        cache: Cache folder; None to disable the cache.

    Returns:
        A bank whose `sources` name corpus and license. Lead writers are those with at least 20
        different tokens.

    Raises:
        DataError: If the file cannot be read or has no usable symbol.
    """
    path = Path(path)
    stored = None
    if cache is not None and path.is_file():
        key = [_CACHE_VERSION, str(path.resolve()), file_state([path])]
        stored = ArrayCache(Path(cache), f"symbols-{_corpus_name(path)}", key)
        if (arrays := stored.load()) is not None:
            return _bank_from_arrays(arrays, _corpus_name(path))
    symbols = read_symbols(path)
    faults = find_faults(symbols)
    usable = [symbol for symbol, fault in zip(symbols, faults, strict=True) if not fault]
    if not usable:
        raise DataError(f"{path}: no usable symbol")
    arrays = _pack(usable)
    if stored is not None:
        stored.save(arrays)
    return _bank_from_arrays(arrays, _corpus_name(path))


def read_symbols(path: str | os.PathLike[str]) -> list[RawSymbol]:
    """Read all symbols of a corpus, with smooth strokes.

    Raises:
        DataError: If the file cannot be read; names the line.
    """
    names: list[tuple[str, str]] = []
    counts: list[int] = []
    points: list[np.ndarray] = []
    for token, writer, strokes in _read_lines(Path(path)):
        names.append((token, writer))
        counts.append(len(strokes))
        points.extend(strokes)
    if not names:
        return []
    lengths = np.array([len(stroke) for stroke in points])
    cleaned = iter(_clean(_Strokes(np.concatenate(points), lengths, np.array(counts))))
    return [
        RawSymbol(token, writer, tuple(islice(cleaned, count)))
        for (token, writer), count in zip(names, counts, strict=True)
    ]


def _read_lines(path: Path) -> Iterator[tuple[str, str, list[np.ndarray]]]:
    line = 0
    try:
        with gzip.open(path, "rt") if path.suffix == ".gz" else path.open() as stream:
            for text in stream:
                line += 1
                entry = json.loads(text)
                strokes = [np.array(stroke, np.float32) for stroke in entry["strokes"] if stroke]
                if not strokes or not all(_is_stroke(stroke) for stroke in strokes):
                    raise ValueError("no strokes of finite points [x, y]")
                yield str(entry["token"]), str(entry["writer"]), strokes
    except (OSError, EOFError) as error:
        raise DataError(f"{path}: {error}") from error
    except (ArithmeticError, KeyError, RecursionError, TypeError, ValueError) as error:
        raise DataError(f"{path} line {line}: not a symbol: {str(error)[:120]}") from error


def _is_stroke(points: np.ndarray) -> bool:
    return points.ndim == 2 and points.shape[1] == 2 and bool(np.isfinite(points).all())


class _Strokes:
    """The strokes of many symbols in flat arrays, for computing on all of them at once."""

    def __init__(self, points: np.ndarray, lengths: np.ndarray, counts: np.ndarray) -> None:
        self.points = points  # float32 (points, 2)
        self.lengths = lengths  # points of each stroke
        self.counts = counts  # strokes of each symbol
        self.starts = np.cumsum(lengths) - lengths  # first point of each stroke
        self.first_strokes = np.cumsum(counts) - counts  # of each symbol
        self.first_points = self.starts[self.first_strokes]
        self.symbol_of_stroke = np.repeat(np.arange(len(counts)), counts)
        self.stroke_of_point = np.repeat(np.arange(len(lengths)), lengths)

    @classmethod
    def of(cls, symbols: Sequence[RawSymbol]) -> _Strokes:
        strokes = [stroke for symbol in symbols for stroke in symbol.strokes]
        lengths = np.array([len(stroke) for stroke in strokes])
        counts = np.array([len(symbol.strokes) for symbol in symbols])
        return cls(np.concatenate(strokes), lengths, counts)

    @property
    def symbol_of_point(self) -> np.ndarray:
        return self.symbol_of_stroke[self.stroke_of_point]

    def bounds(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the corners of the symbols' boxes, (symbols, 2) each."""
        low = np.minimum.reduceat(self.points, self.first_points)
        return low, np.maximum.reduceat(self.points, self.first_points)

    def moves(self) -> np.ndarray:
        """Return the way from the previous point of the stroke, (points, 2)."""
        moves = np.diff(self.points, axis=0, prepend=self.points[:1])
        moves[self.starts] = 0
        return moves

    def steps(self) -> np.ndarray:
        """Return the distance to the previous point of the stroke, float64 (points,)."""
        return np.hypot(*self.moves().T.astype(np.float64))

    def keep(self, kept: np.ndarray) -> _Strokes:
        """Return the strokes with some of their points, at least one of each stroke."""
        return _Strokes(self.points[kept], np.add.reduceat(kept, self.starts), self.counts)


def _clean(flat: _Strokes) -> list[np.ndarray]:
    """Scale symbols to their box, drop dense points and smooth coarse strokes."""
    low, high = flat.bounds()
    scale = (_SIZE / np.maximum((high - low).max(axis=1), 1e-6)).astype(np.float32)
    symbols = flat.symbol_of_point
    scaled = (flat.points - low[symbols]) * scale[symbols, None]
    flat = _Strokes(scaled, flat.lengths, flat.counts)
    staircases = _grid_steps(flat) >= _COARSE_GRID
    for _ in range(2):
        flat = _cut_corners(flat, staircases)
    flat = _thin_out(flat)
    strokes = np.split(flat.points, flat.starts[1:])
    for index in np.flatnonzero(_coarse(flat)).tolist():
        strokes[index] = _smooth(strokes[index])
    # Integers, because the cache stores 16 bits.
    return [np.rint(stroke).astype(np.float32) for stroke in strokes]


def _grid_steps(flat: _Strokes) -> np.ndarray:
    """Estimate the resolution of each symbol's tablet from the smallest steps of the pen."""
    steps = np.abs(flat.moves()).ravel()
    moved = steps > 0.5
    return _group_quantile(
        steps[moved], np.repeat(flat.symbol_of_point, 2)[moved], len(flat.counts), 0.05, 9
    )


def _group_quantile(
    values: np.ndarray, groups: np.ndarray, count: int, quantile: float, at_least: int
) -> np.ndarray:
    """Return a quantile of the values of each of `count` groups, 0 for groups of few values.

    Args:
        values: float (values,).
        groups: The group of each value, ascending.
        count: Number of groups.
        quantile: Interpolated linearly between values.
        at_least: Number of values that a group must have.
    """
    ordered = values[np.lexsort((values, groups))]
    sizes = np.bincount(groups, minlength=count)
    large = sizes >= at_least
    position = (np.cumsum(sizes) - sizes)[large] + quantile * (sizes[large] - 1)
    below = position.astype(int)
    above = np.minimum(below + 1, len(ordered) - 1)
    result = np.zeros(count)
    result[large] = ordered[below] + (position - below) * (ordered[above] - ordered[below])
    return result


def _cut_corners(flat: _Strokes, symbols: np.ndarray) -> _Strokes:
    """Replace points by the centers of segments, which turns staircases into slopes."""
    chosen = symbols[flat.symbol_of_stroke] & (flat.lengths >= 4)
    inner = chosen[flat.stroke_of_point]
    inner[flat.starts] = False
    centers = flat.points.copy()
    centers[inner] -= flat.moves()[inner] / 2
    # One point more than before: the last one stays.
    last = (flat.starts + flat.lengths)[chosen]
    points = np.insert(centers, last, flat.points[last - 1], axis=0)
    return _Strokes(points, flat.lengths + chosen, flat.counts)


def _thin_out(flat: _Strokes) -> _Strokes:
    """Drop points that are too close to the previous one, except the last."""
    total = np.cumsum(flat.steps())
    passed = np.floor((total - total[flat.starts][flat.stroke_of_point]) / _MIN_SPACING)
    keep = np.diff(passed, prepend=-1.0) > 0
    keep[flat.starts] = keep[flat.starts + flat.lengths - 1] = True
    return flat.keep(keep)


def _coarse(flat: _Strokes) -> np.ndarray:
    """Return which strokes have points far apart, bool (strokes,)."""
    inner = np.ones(len(flat.points), bool)
    inner[flat.starts] = False
    steps, strokes = flat.steps()[inner], flat.stroke_of_point[inner]
    return _group_quantile(steps, strokes, len(flat.lengths), 0.5, 3) >= _COARSE_SPACING


def _smooth(points: np.ndarray) -> np.ndarray:
    """Replace a coarse polyline by a smooth curve; sharp turns stay corners."""
    moves = np.diff(points, axis=0)
    directions = moves / np.maximum(np.hypot(*moves.T), 1e-6)[:, None]
    turns = (directions[1:] * directions[:-1]).sum(axis=1)  # cosines
    corners = [False, *(turns < _CORNER_COSINE), False]
    return smooth_curve(points.astype(np.float64), corners, _SMOOTH_SPACING)


def find_faults(symbols: Sequence[RawSymbol]) -> list[str]:
    """Check the plausibility of symbols by comparing them with others of the same corpus.

    A symbol is dropped if its shape is unlike most others of its token and, in addition, its
    stroke count, aspect ratio or stroke length is far from their median, or it is more similar to
    the symbols of another token. Flagged ones and crossed sevens are kept.

    Returns:
        For every symbol the reason to drop it (`stroke count`, `aspect ratio`, `stroke length`,
        `shape`; `straight line`, half of an `x` or an `i` without its dot; `slashed zero`, which
        looks like other symbols; `structure token` for tokens without ink such as the line
        break), or an empty string.
    """
    by_token: dict[str, list[int]] = defaultdict(list)
    for index, symbol in enumerate(symbols):
        if not is_structure(symbol.token):
            by_token[symbol.token].append(index)
    by_token = {token: own for token, own in by_token.items() if len(own) >= _MIN_SAMPLES}
    strokes = {
        token: _Strokes.of([symbols[index] for index in own]) for token, own in by_token.items()
    }
    rasters = {token: _rasterize(flat) for token, flat in strokes.items()}
    faults = ["structure token" if is_structure(one.token) else "" for one in symbols]
    for token, (unusual, odd) in _unlike_shapes(rasters).items():
        measures = _check_measures(_measure(strokes[token]))
        for number in np.flatnonzero(unusual).tolist():
            index = by_token[token][number]
            fault = measures[number] or ("shape" if odd[number] else "")
            if fault and not (token in _VARIANTS and _VARIANTS[token](symbols[index])):
                faults[index] = fault
    for token, flat in strokes.items():
        lines = _straight(flat)
        if lines.mean() < _MAX_LINES:
            for number in np.flatnonzero(lines).tolist():
                faults[by_token[token][number]] = "straight line"
    if "0" in strokes:
        for number in np.flatnonzero(_slashed(strokes["0"])).tolist():
            faults[by_token["0"][number]] = "slashed zero"
    return faults


def _is_flagged_one(symbol: RawSymbol) -> bool:
    """Whether a 1 is an upstroke from the left and a steep downstroke to the bottom."""
    (stroke, *others) = symbol.strokes
    top = int(stroke[:, 1].argmin())
    (start_x, start_y), (top_x, top_y), (end_x, end_y) = stroke[0], stroke[top], stroke[-1]
    flag = start_y - top_y > 0.15 * _SIZE and top_x - start_x > 0.1 * _SIZE
    is_steep = abs(end_x - top_x) < 0.5 * (end_y - top_y)
    return bool(not others and flag and is_steep and end_y >= stroke[:, 1].max() - 0.05 * _SIZE)


def _is_crossed_seven(symbol: RawSymbol) -> bool:
    """Whether a 7 has a bar across the middle of its stem."""
    if len(symbol.strokes) != 2:
        return False
    (low, high), (bar_low, bar_high) = ((s.min(axis=0), s.max(axis=0)) for s in symbol.strokes)
    width, height = bar_high - bar_low
    share = ((bar_low + bar_high) / 2 - low)[1] / max(high[1] - low[1], 1.0)
    return bool(height < 0.6 * width and 0.2 < share < 0.8)


# Usual variants of digits that are rare enough to look odd.
_VARIANTS = {"1": _is_flagged_one, "7": _is_crossed_seven}


def _straight(flat: _Strokes) -> np.ndarray:
    """Return which symbols are a single straight stroke, bool (symbols,)."""
    last = flat.first_points + flat.lengths[flat.first_strokes] - 1
    chord = np.hypot(*(flat.points[last] - flat.points[flat.first_points]).T)
    return (flat.counts == 1) & (chord > _STRAIGHT * _stroke_length(flat))


def _slashed(zeros: _Strokes) -> np.ndarray:
    """Return which zeros have more ink than their outline, bool (symbols,)."""
    low, high = zeros.bounds()
    outline = np.pi * (high - low).sum(axis=1) / 2
    return (zeros.counts > 1) | (_stroke_length(zeros) > 1.35 * outline)


def _stroke_length(flat: _Strokes) -> np.ndarray:
    """Return the length of all strokes of each symbol, float64 (symbols,)."""
    return np.add.reduceat(flat.steps(), flat.first_points)


def _measure(flat: _Strokes) -> np.ndarray:
    """Return stroke count, log aspect ratio and log stroke length, float64 (symbols, 3)."""
    low, high = flat.bounds()
    width, height = np.maximum(high - low, 0.08 * _SIZE).T
    length = np.log(0.1 * _SIZE + _stroke_length(flat))
    return np.stack([flat.counts, np.log(width / height), length], axis=1)


def _check_measures(measures: np.ndarray) -> list[str]:
    """Return the fault of each sample of a token from its measures, float64 (samples, 3)."""
    median = np.median(measures, axis=0)
    spread = 1.48 * np.median(np.abs(measures - median), axis=0)
    deviation = np.abs(measures - median) / np.maximum(spread, (0.5, 0.2, 0.15))
    counts = Counter(measures[:, 0].tolist())
    faults = []
    for (strokes, *_), (_, aspect, length) in zip(measures.tolist(), deviation, strict=True):
        rare = counts[strokes] < 0.03 * len(measures)
        if rare and abs(strokes - median[0]) >= 2:
            faults.append("stroke count")
        elif aspect > _MAX_DEVIATION:
            faults.append("aspect ratio")
        elif length > _MAX_DEVIATION:
            faults.append("stroke length")
        else:
            faults.append("")
    return faults


def _unlike_shapes(
    rasters: Mapping[str, np.ndarray],
) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Find the samples of every token that look unlike the others.

    The distance of a sample to a token is that to the k-th nearest of its references, where k
    exceeds the share of badly segmented samples: they must not vouch for each other.

    Args:
        rasters: float32 (samples, cells) by token.

    Returns:
        For each token, which samples are unusual, and which are odd as well: far from their own
        token and close to samples of other tokens; bool (samples,) each.
    """
    rng = np.random.default_rng(0)
    references = {
        token: raster[rng.permutation(len(raster))[:_REFERENCES]]
        for token, raster in rasters.items()
    }
    everything = np.concatenate(list(references.values())) if references else np.zeros((0, 1))
    result, start = {}, 0
    for token, raster in rasters.items():
        own = references[token]
        rank = min(3 + int(_NEIGHBOR_SHARE * len(own)), len(own))
        distance = np.partition(1 - raster @ own.T, rank - 1, axis=1)[:, rank - 1]
        median = np.median(distance)
        deviation = 1.48 * np.median(np.abs(distance - median))
        unusual = distance > max(median + deviation, _MIN_ODD_DISTANCE)
        odd = unusual & (distance > median + _MAX_SHAPE_DEVIATION * deviation)
        # Distances to all tokens take most of the time: only where they decide.
        candidates = np.flatnonzero(odd)
        close = 1 - raster[candidates] @ everything.T
        close[:, start : start + len(own)] = 2.0
        limit = distance[candidates, None] / _MAX_OWN_TO_OTHER
        odd[candidates] = (close < limit).sum(axis=1) >= rank
        result[token] = unusual, odd
        start += len(own)
    return result


def _rasterize(flat: _Strokes) -> np.ndarray:
    """Return the density of ink on a coarse grid, float32 (symbols, 100), of unit length."""
    points, symbols = _resample(flat)
    cells = points / _SIZE * (_GRID - 1)
    first = np.searchsorted(symbols, np.arange(len(flat.counts)))
    low, high = np.minimum.reduceat(cells, first), np.maximum.reduceat(cells, first)
    cells += ((_GRID - 1 - low - high) / 2)[symbols]  # centered
    left, top = np.clip(np.floor(cells).astype(int), 0, _GRID - 1).T
    x, y = cells[:, 0] - left, cells[:, 1] - top
    side = _GRID + 1
    image = np.zeros(len(flat.counts) * side * side)
    for dx, dy in ((0, 0), (1, 0), (0, 1), (1, 1)):  # bilinear
        weight = (x if dx else 1 - x) * (y if dy else 1 - y)
        cell = (symbols * side + top + dy) * side + left + dx
        image += np.bincount(cell, weight, len(image))
    image = image.reshape(-1, side, side)[:, :_GRID, :_GRID]
    density = np.sqrt(np.maximum(image, 0)).reshape(len(image), -1).astype(np.float32)
    return density / np.maximum(np.linalg.norm(density, axis=1, keepdims=True), 1e-6)


def _resample(flat: _Strokes) -> tuple[np.ndarray, np.ndarray]:
    """Return points at a distance of 40 units along the strokes, and the symbol of each."""
    steps = flat.steps()
    steps[flat.starts] = 1.0  # so that the end of a stroke and the start of the next differ
    position = np.cumsum(steps)
    start, end = position[flat.starts], position[flat.starts + flat.lengths - 1]
    counts = ((end - start) / 40).astype(int) + 2
    stroke = np.repeat(np.arange(len(counts)), counts)
    number = np.arange(len(stroke)) - np.repeat(np.cumsum(counts) - counts, counts)
    wanted = start[stroke] + number * ((end - start) / (counts - 1))[stroke]
    points = [np.interp(wanted, position, flat.points[:, axis]) for axis in (0, 1)]
    return np.stack(points, axis=1), flat.symbol_of_stroke[stroke]


def canonical_name(token: str) -> str:
    r"""Return the token of a shape that has several names: `\Gamma` for `\Upgamma`."""
    token = _ALIASES.get(token, token)
    if token.startswith(("\\mathds{", "\\mathscr{")):
        return token.replace("ds{", "bb{").replace("scr{", "cal{")
    if token not in SYMBOLS and token[:3] in ("\\Up", "\\up"):
        letter = "\\" + (token[3:].capitalize() if token[1] == "U" else token[3:])
        return letter if letter in SYMBOLS else token
    return token


def _pack(symbols: Sequence[RawSymbol]) -> dict[str, np.ndarray]:
    strokes = [stroke for symbol in symbols for stroke in symbol.strokes]
    names = json.dumps([[symbol.token, symbol.writer] for symbol in symbols])
    return {
        "names": np.frombuffer(names.encode(), np.uint8),
        "points": np.concatenate(strokes).astype(np.int16),
        "lengths": np.array([len(stroke) for stroke in strokes], np.int32),
        "strokes": np.array([len(symbol.strokes) for symbol in symbols], np.int32),
    }


def _bank_from_arrays(arrays: Mapping[str, np.ndarray], corpus: str) -> SymbolBank:
    names, writers = zip(*json.loads(arrays["names"].tobytes()), strict=True)
    tokens = [canonical_name(name) for name in names]
    points, lengths, strokes = arrays["points"], arrays["lengths"], arrays["strokes"]
    first_strokes = np.cumsum(strokes) - strokes
    first_points = (np.cumsum(lengths) - lengths)[first_strokes]
    low = np.minimum.reduceat(points, first_points)
    counts = np.diff(first_points, append=len(points))
    shifted = (points - np.repeat(low, counts, axis=0)).astype(np.float32)
    sizes = np.maximum.reduceat(shifted, first_points)
    source = Source(corpus, LICENSES.get(corpus, "unknown"))
    repertoire: dict[str, set[str]] = defaultdict(set)
    for token, writer in zip(tokens, writers, strict=True):
        repertoire[writer].add(token)
    return SymbolBank(
        points=shifted,
        lengths=lengths,
        strokes=strokes,
        tokens=tokens,
        writers=writers,
        metrics=_metrics(tokens, sizes),
        sources=dict.fromkeys(repertoire, source),
        lead_writers=[w for w, known in repertoire.items() if len(known) >= _MIN_LEAD_TOKENS],
    )


def _metrics(tokens: Sequence[str], sizes: np.ndarray) -> np.ndarray:
    """Return x-heights and baselines, float32 (samples, 2), from sizes (samples, 2).

    Symbols get the usual height of their token; tokens that are wider than twice their height
    get a usual width instead.
    """
    by_token: dict[str, list[int]] = defaultdict(list)
    for index, token in enumerate(tokens):
        by_token[token].append(index)
    metrics = np.empty((len(tokens), 2), np.float32)
    for token, own in by_token.items():
        usual = vertical_extent(token)
        width, height = np.maximum(sizes[own], 1.0).T
        if np.median(width / height) <= 2:
            units = height / max(usual.height, 0.12)
        else:
            units = width / (_LONG_WIDTH if token.endswith(("arrow", "dots")) else _FLAT_WIDTH)
        center = (usual.top + usual.bottom) / 2
        metrics[own, 0] = units
        metrics[own, 1] = center * units + sizes[own, 1] / 2
    return metrics


def _corpus_name(path: Path) -> str:
    return path.name.removesuffix(".gz").removesuffix(".jsonl")
