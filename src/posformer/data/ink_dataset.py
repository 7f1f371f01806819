"""Sets of aligned ink, and training examples drawn from them."""

from __future__ import annotations

import hashlib
import json
import logging
import os
import tempfile
import zipfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np

from posformer.data.storage import Files, open_files
from posformer.errors import DataError, InkError
from posformer.ink.aligned import AlignedInk
from posformer.ink.alignment import align
from posformer.ink.augmentation import StrokeAugmentation
from posformer.ink.captions import caption_of
from posformer.ink.inkml import read_inkml
from posformer.ink.render import RenderStyle, render_aligned, rendered_size
from posformer.synthesis.substitution import SymbolSubstitution

__all__ = [
    "DEFAULT_CACHE",
    "InkSample",
    "InkSampler",
    "drop_known_texts",
    "load_ink",
]

DEFAULT_CACHE = Path("runs") / "cache"
"""Where read ink is kept between runs, below the working folder."""

_FORMAT = 4  # of the cache; to be raised whenever reading, aligning or scaling changes

_log = logging.getLogger(__name__)


def load_ink(
    path: str | os.PathLike[str],
    split: str,
    captions: Mapping[str, Sequence[str]] | None = None,
    cache: str | os.PathLike[str] | None = DEFAULT_CACHE,
) -> list[AlignedInk]:
    """Read a split of a set of InkML files, aligned and in the pixels of its CROHME images.

    The first time every file is read; later the cache is, as long as the source has the same size
    and time, and the captions are the same. Files that cannot be read are left out with a warning.

    Args:
        path: A folder or zip archive that has a folder named like the split somewhere.
        split: Which part: `train`, `2013`, …
        captions: Tokens by name; ink of other names is left out. By default captions come from the
            ink itself.
        cache: Folder to keep what was read; None to keep nothing.

    Returns:
        The ink, by name.

    Raises:
        DataError: When there is no such split, or nothing in it can be read.
    """
    files = open_files(path)
    kept = _Cache(Path(cache), files, split, captions) if cache is not None else None
    inks = kept.load() if kept else None
    if inks is None:
        inks = sorted(_read(files, split, captions), key=lambda ink: ink.name)
        if not inks:
            raise DataError(f"{files.path}: no ink of split {split!r} can be used")
        if kept:
            kept.save(inks)
    return inks


def drop_known_texts(inks: Iterable[AlignedInk], known: Iterable[AlignedInk]) -> list[AlignedInk]:
    """Leave out ink whose text occurs in `known`, as a validation set must."""
    texts = {ink.tokens for ink in known}
    return [ink for ink in inks if ink.tokens not in texts]


def _read(
    files: Files, split: str, captions: Mapping[str, Sequence[str]] | None
) -> Iterator[AlignedInk]:
    for file in _files_of(files, split):
        name = PurePosixPath(file).stem
        if captions is not None and name not in captions:
            continue
        try:
            ink = read_inkml(files.read(file), name)
            tokens = caption_of(ink) if captions is None else captions[name]
            aligned = align(ink, tokens)
        except InkError as error:
            _log.warning("%s: left out %s: %s", files.path, file, error)
        else:
            yield replace(aligned, writer=aligned.writer or _writer_by_name(name))


def _files_of(files: Files, split: str) -> list[str]:
    found = [
        name
        for name in files.names()
        if name.endswith(".inkml") and split in PurePosixPath(name).parts[:-1]
    ]
    if not found:
        raise DataError(f"{files.path}: no .inkml files in a folder {split!r}")
    return found


def _writer_by_name(name: str) -> str:
    """What all names of one writer start with, as in `200924-1331-216` and `rit_4210_3`."""
    return name[: max(name.rfind("-"), name.rfind("_"), 0)] or name


class _Cache:
    """One file that holds the aligned ink of a split, as plain arrays."""

    def __init__(
        self,
        folder: Path,
        files: Files,
        split: str,
        captions: Mapping[str, Sequence[str]] | None,
    ) -> None:
        texts = captions and sorted((name, list(tokens)) for name, tokens in captions.items())
        key = [_FORMAT, str(files.path.resolve()), _state(files, split), split, texts]
        digest = hashlib.sha256(json.dumps(key).encode()).hexdigest()[:16]
        self._file = folder / f"ink-{split}-{digest}.npz"

    def load(self) -> list[AlignedInk] | None:
        """The ink, or None when it has to be read anew."""
        if not self._file.is_file():
            return None
        try:
            with np.load(self._file, allow_pickle=False) as arrays:
                return _unpack({name: arrays[name] for name in arrays.files})
        except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile) as error:
            _log.warning("%s: the cache is read anew: %s", self._file, error)
            return None

    def save(self, inks: Sequence[AlignedInk]) -> None:
        """Keep ink; without a place to write to nothing is kept."""
        try:
            self._file.parent.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryDirectory(dir=self._file.parent) as folder:
                # Another process may read the cache at this moment: it sees a whole file or none.
                whole = Path(folder) / self._file.name
                np.savez(whole, **_pack(inks))
                whole.replace(self._file)
        except OSError as error:
            _log.warning("%s: the ink is not kept: %s", self._file, error)


def _state(files: Files, split: str) -> list[list[object]]:
    """Size and time of an archive, or of every file of a split in a folder."""
    if files.path.is_file():
        paths = [files.path]
    else:
        paths = [files.path / name for name in _files_of(files, split)]
    states = [(path, path.stat()) for path in paths]
    return [[path.name, state.st_size, state.st_mtime_ns] for path, state in states]


def _pack(inks: Sequence[AlignedInk]) -> dict[str, Any]:
    """Arrays that hold ink; every stroke has the place of its token, or -1."""
    texts = json.dumps([[ink.name, ink.writer, " ".join(ink.tokens)] for ink in inks])
    owners = []
    for ink in inks:
        owner = np.full(len(ink.strokes), -1, np.int32)
        for place, strokes in enumerate(ink.alignment):
            owner[list(strokes)] = place
        owners.append(owner)
    every = [stroke for ink in inks for stroke in ink.strokes]
    return {
        "texts": np.frombuffer(texts.encode(), np.uint8),
        "points": np.concatenate(every).astype(np.float32),
        "lengths": np.array([len(stroke) for stroke in every], np.int32),
        "strokes": np.array([len(ink.strokes) for ink in inks], np.int32),
        "owners": np.concatenate(owners),
    }


def _unpack(arrays: Mapping[str, np.ndarray]) -> list[AlignedInk]:
    ends = np.cumsum(arrays["lengths"])[:-1]
    strokes = np.split(arrays["points"], ends)
    owners = arrays["owners"].tolist()
    inks, first = [], 0
    texts = json.loads(arrays["texts"].tobytes())
    for (name, writer, text), count in zip(texts, arrays["strokes"].tolist(), strict=True):
        tokens = tuple(text.split())
        alignment: list[list[int]] = [[] for _ in tokens]
        for stroke, owner in enumerate(owners[first : first + count]):
            if owner >= 0:
                alignment[owner].append(stroke)
        mine = tuple(strokes[first : first + count])
        inks.append(AlignedInk(name, tokens, mine, tuple(map(tuple, alignment)), writer))
        first += count
    return inks


@dataclass(frozen=True)
class InkSample:
    """Ink with all random choices made; see `Sample`."""

    ink: AlignedInk
    style: RenderStyle
    height: int
    width: int

    @property
    def name(self) -> str:
        """Which example it is."""
        return self.ink.name

    @property
    def tokens(self) -> tuple[str, ...]:
        """The expression in caption form."""
        return self.ink.tokens

    def render(self) -> tuple[np.ndarray, np.ndarray]:
        """Image, uint8 (height, width), and boxes of tokens, float32 (tokens, 4)."""
        return render_aligned(self.ink, self.style)


class InkSampler:
    """Draws training examples from aligned ink; see `Sampler`.

    In the order of drawing: symbols are substituted, strokes are bent, the whole is scaled; then it
    is rendered in the given style. The scale of the style belongs to the image (a real image
    is resampled by it just so), the drawn scale belongs to the handwriting.
    """

    def __init__(
        self,
        inks: Sequence[AlignedInk],
        style: RenderStyle | None = None,
        *,
        scale_range: tuple[float, float] | None = (0.7, 1.4),
        log_uniform: bool = False,
        augment: StrokeAugmentation | None = None,
        substitution: SymbolSubstitution | None = None,
        max_pixels: int | None = None,
        max_size: tuple[int, int] | None = None,
    ) -> None:
        """Wrap aligned ink.

        Args:
            inks: In the pixels of CROHME's images, as `load_ink` gives it.
            style: How images are drawn.
            scale_range: Smallest and largest factor for the handwriting; None for none.
            log_uniform: Draw the logarithm of the factor evenly, not the factor.
            augment: What bends strokes; None for nothing.
            substitution: What substitutes symbols; None for nothing.
            max_pixels: An image with more pixels is resampled, so that it has no more.
            max_size: Greatest height and width; an image that exceeds one is resampled.
        """
        if scale_range is not None and not 0 < scale_range[0] <= scale_range[1]:
            raise DataError(f"scale_range {scale_range} is not (smallest, largest) above 0")
        self.inks = inks
        self.style = style or RenderStyle()
        self.scale_range = scale_range
        self.log_uniform = log_uniform
        self.augment = augment
        self.substitution = substitution
        self.max_pixels = max_pixels
        self.max_size = max_size

    def __len__(self) -> int:
        return len(self.inks)

    def sample(self, index: int, rng: np.random.Generator) -> InkSample:
        """Make all random choices and all geometry for one example; nothing is rendered."""
        ink, style = self.inks[index], self.style
        if self.substitution is not None:
            ink = self.substitution(ink, rng)
        if self.augment is not None:
            ink = self.augment(ink, rng)
            style = self.augment.draw_pen(style, rng)
        ink = _scaled(ink, self._draw_scale(rng))
        height, width = rendered_size(ink.strokes, style)
        shrink = self._shrink(height, width)
        if shrink < 1.0:
            style = replace(style, scale=style.scale * shrink)
            height, width = rendered_size(ink.strokes, style)
        return InkSample(ink, style, height, width)

    def _draw_scale(self, rng: np.random.Generator) -> float:
        if self.scale_range is None:
            return 1.0
        if self.log_uniform:
            return float(np.exp(rng.uniform(*np.log(self.scale_range))))
        return float(rng.uniform(*self.scale_range))

    def _shrink(self, height: int, width: int) -> float:
        """The factor that makes an image of this size small enough."""
        factors = [1.0]
        if self.max_pixels is not None:
            factors.append(float(np.sqrt(self.max_pixels / (height * width))))
        if self.max_size is not None:
            factors += [self.max_size[0] / height, self.max_size[1] / width]
        return min(factors)


def _scaled(ink: AlignedInk, scale: float) -> AlignedInk:
    if scale == 1.0:
        return ink
    points = np.concatenate(ink.strokes) * np.float32(scale)
    ends = np.cumsum([len(stroke) for stroke in ink.strokes]).tolist()
    strokes = (points[first:last] for first, last in zip([0, *ends], ends, strict=False))
    return replace(ink, strokes=tuple(strokes))
