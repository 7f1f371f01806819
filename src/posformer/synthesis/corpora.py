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
from pathlib import Path

import numpy as np

from posformer.data.array_cache import DEFAULT_CACHE, ArrayCache, file_state
from posformer.errors import DataError
from posformer.ink.aligned import bounds
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

_CACHE_VERSION = 1  # to be raised whenever reading, filtering or scaling changes

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
    return [_clean(*entry) for entry in _read_lines(Path(path))]


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
    except (ValueError, KeyError, TypeError) as error:
        raise DataError(f"{path} line {line}: not a symbol: {error}") from error


def _is_stroke(points: np.ndarray) -> bool:
    return points.ndim == 2 and points.shape[1] == 2 and bool(np.isfinite(points).all())


def _clean(token: str, writer: str, strokes: Sequence[np.ndarray]) -> RawSymbol:
    """Scale a symbol to its box, drop dense points and smooth coarse strokes."""
    low, high = bounds(np.concatenate(strokes))
    scale = _SIZE / max(float((high - low).max()), 1e-6)
    scaled = [(stroke - low) * np.float32(scale) for stroke in strokes]
    if _grid_step(scaled) >= _COARSE_GRID:
        scaled = [_cut_corners(_cut_corners(stroke)) for stroke in scaled]
    cleaned = (_smooth(_thin_out(stroke)) for stroke in scaled)
    # Integers, because the cache stores 16 bits.
    return RawSymbol(token, writer, tuple(np.rint(stroke).astype(np.float32) for stroke in cleaned))


def _grid_step(strokes: Sequence[np.ndarray]) -> float:
    """Estimate the resolution of the tablet from the smallest steps of the pen."""
    steps = np.abs(np.concatenate([np.diff(stroke, axis=0) for stroke in strokes]))
    steps = steps[steps > 0.5]
    return float(np.quantile(steps, 0.05)) if len(steps) > 8 else 0.0


def _cut_corners(points: np.ndarray) -> np.ndarray:
    """Replace points by the centers of segments, which turns staircases into slopes."""
    if len(points) < 4:
        return points
    return np.concatenate([points[:1], (points[1:] + points[:-1]) / 2, points[-1:]])


def _thin_out(points: np.ndarray) -> np.ndarray:
    """Drop points that are too close to the previous one, except the last."""
    if len(points) < 3:
        return points
    length = np.concatenate([[0.0], np.cumsum(np.hypot(*np.diff(points, axis=0).T))])
    keep = np.diff(np.floor(length / _MIN_SPACING), prepend=-1.0) > 0
    keep[-1] = True
    return points[keep]


def _smooth(points: np.ndarray) -> np.ndarray:
    """Replace a coarse polyline by a smooth curve; sharp turns stay corners."""
    moves = np.diff(points, axis=0)
    lengths = np.hypot(*moves.T)
    if len(points) < 4 or np.median(lengths) < _COARSE_SPACING:
        return points
    directions = moves / np.maximum(lengths, 1e-6)[:, None]
    turns = (directions[1:] * directions[:-1]).sum(axis=1)  # cosines
    corners = [False, *(turns < _CORNER_COSINE), False]
    return smooth_curve(points.astype(np.float64), corners, _SMOOTH_SPACING)


def find_faults(symbols: Sequence[RawSymbol]) -> list[str]:
    """Check the plausibility of symbols by comparing them with others of the same corpus.

    A symbol is dropped if its shape is unlike most others of its token and, in addition, its
    stroke count, aspect ratio or stroke length is far from their median, or it is more similar to
    the symbols of another token.

    Returns:
        For every symbol the reason to drop it (`stroke count`, `aspect ratio`, `stroke length`,
        `shape`; `slashed zero`, which looks like other symbols; `structure token` for tokens
        without ink such as the line break), or an empty string.
    """
    by_token: dict[str, list[int]] = defaultdict(list)
    for index, symbol in enumerate(symbols):
        if not is_structure(symbol.token):
            by_token[symbol.token].append(index)
    by_token = {token: own for token, own in by_token.items() if len(own) >= _MIN_SAMPLES}
    rasters = {
        token: np.stack([_rasterize(symbols[index]) for index in own])
        for token, own in by_token.items()
    }
    faults = ["structure token" if is_structure(one.token) else "" for one in symbols]
    for token, (own_distance, other_distance) in _shape_distances(rasters).items():
        own = by_token[token]
        median = np.median(own_distance)
        deviation = 1.48 * np.median(np.abs(own_distance - median))
        unusual = own_distance > max(median + deviation, _MIN_ODD_DISTANCE)
        odd = own_distance > median + _MAX_SHAPE_DEVIATION * deviation
        odd &= own_distance > _MAX_OWN_TO_OTHER * other_distance
        measures = _check_measures(np.array([_measure(symbols[index]) for index in own]))
        for number in np.flatnonzero(unusual).tolist():
            faults[own[number]] = measures[number] or ("shape" if odd[number] else "")
    for index in by_token.get("0", ()):
        if _is_slashed(symbols[index]):
            faults[index] = "slashed zero"
    return faults


def _is_slashed(zero: RawSymbol) -> bool:
    """Whether a zero has more ink than its outline."""
    low, high = bounds(np.concatenate(zero.strokes))
    outline = np.pi * float((high - low).sum()) / 2
    return len(zero.strokes) > 1 or _stroke_length(zero) > 1.35 * outline


def _stroke_length(symbol: RawSymbol) -> float:
    return sum(float(np.hypot(*np.diff(stroke, axis=0).T).sum()) for stroke in symbol.strokes)


def _measure(symbol: RawSymbol) -> tuple[float, float, float]:
    """Return stroke count, log aspect ratio and log stroke length relative to the box."""
    low, high = bounds(np.concatenate(symbol.strokes))
    width, height = np.maximum(high - low, 0.08 * _SIZE)
    length = _stroke_length(symbol)
    return len(symbol.strokes), np.log(width / height), np.log(0.1 * _SIZE + length)


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


def _shape_distances(
    rasters: Mapping[str, np.ndarray],
) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Return the distances of every sample to references of its own and of other tokens.

    The distance is that to the k-th nearest reference, where k exceeds the share of badly
    segmented samples: they must not vouch for each other.

    Args:
        rasters: float32 (samples, cells) by token.
    """
    rng = np.random.default_rng(0)
    references = {
        token: raster[rng.permutation(len(raster))[:_REFERENCES]]
        for token, raster in rasters.items()
    }
    everything = np.concatenate(list(references.values())) if references else np.zeros((0, 1))
    distances, start = {}, 0
    for token, raster in rasters.items():
        own = np.s_[:, start : start + len(references[token])]
        start += len(references[token])
        rank = min(3 + int(_NEIGHBOR_SHARE * len(references[token])), len(references[token]))
        distance = 1 - raster @ everything.T
        nearest_own = np.partition(distance[own], rank - 1, axis=1)[:, rank - 1]
        distance[own] = 2.0
        nearest_other = np.partition(distance, rank - 1, axis=1)[:, rank - 1]
        distances[token] = nearest_own, nearest_other
    return distances


def _rasterize(symbol: RawSymbol) -> np.ndarray:
    """Return the density of ink on a coarse grid, float32 (100,), of unit length."""
    points = [_resample(stroke) for stroke in symbol.strokes]
    cells = np.concatenate(points) / _SIZE * (_GRID - 1)
    low, high = bounds(cells)
    cells += (_GRID - 1 - low - high) / 2  # centered
    image = np.zeros((_GRID + 1, _GRID + 1), np.float32)
    left, top = np.clip(np.floor(cells).astype(int), 0, _GRID - 1).T
    x, y = cells[:, 0] - left, cells[:, 1] - top
    for dx, dy in ((0, 0), (1, 0), (0, 1), (1, 1)):  # bilinear
        weight = (x if dx else 1 - x) * (y if dy else 1 - y)
        np.add.at(image, (top + dy, left + dx), weight)
    density = np.sqrt(np.maximum(image[:_GRID, :_GRID], 0)).ravel()
    return density / max(float(np.linalg.norm(density)), 1e-6)


def _resample(points: np.ndarray) -> np.ndarray:
    """Return points at a distance of 40 units along a stroke."""
    length = np.concatenate([[0.0], np.cumsum(np.hypot(*np.diff(points, axis=0).T))])
    positions = np.linspace(0.0, length[-1], int(length[-1] / 40) + 2)
    return np.stack([np.interp(positions, length, points[:, axis]) for axis in (0, 1)], axis=1)


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
