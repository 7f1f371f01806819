"""Datasets of ink aligned with captions."""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from pathlib import Path, PurePosixPath
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

from posformer.data.array_cache import DEFAULT_CACHE, ArrayCache, file_state
from posformer.data.sampling import check_scale_range
from posformer.data.storage import Files, open_files
from posformer.errors import DataError, InkError
from posformer.image.sizing import fit_scale
from posformer.ink.aligned import AlignedInk, split_points
from posformer.ink.alignment import align
from posformer.ink.augmentation import StrokeAugmentation
from posformer.ink.captions import caption_of
from posformer.ink.inkml import read_inkml
from posformer.ink.render import RenderStyle, render, render_aligned, rendered_size

_CACHE_VERSION = 4  # to be raised whenever reading, alignment or scaling changes

_log = logging.getLogger(__name__)

InkTransform = Callable[[AlignedInk, np.random.Generator], AlignedInk]
"""A random change of an expression, such as symbol substitution."""


def load_ink(
    path: str | os.PathLike[str] | Files,
    split: str,
    captions: Mapping[str, Sequence[str]] | None = None,
    cache: str | os.PathLike[str] | None = DEFAULT_CACHE,
) -> list[AlignedInk]:
    """Load a split of InkML files, aligned and in pixels of CROHME's images.

    The result is cached until the files (by size and time) or the captions change. Files that
    cannot be read are skipped with a warning.

    Args:
        path: A folder or zip archive that contains a folder named like the split at any depth.
        split: Name of the split: `train`, `2013`, …
        captions: Tokens by name; ink with other names is skipped. By default captions are
            derived from the ink itself.
        cache: Cache folder; None to disable the cache.

    Returns:
        The ink, sorted by name.

    Raises:
        DataError: If the split does not exist or nothing in it can be read.
    """
    files = open_files(path)
    stored = None
    if cache is not None:
        texts = captions and sorted((name, list(tokens)) for name, tokens in captions.items())
        key = [_CACHE_VERSION, str(files.path.resolve()), _state(files, split), split, texts]
        stored = ArrayCache(Path(cache), f"ink-{split}", key)
        if (arrays := stored.load()) is not None:
            return _unpack(arrays)
    inks = sorted(_read(files, split, captions), key=lambda ink: ink.name)
    if not inks:
        raise DataError(f"{files.path}: no usable ink in split {split!r}")
    if stored is not None:
        stored.save(_pack(inks))
    return inks


def drop_known_texts(inks: Iterable[AlignedInk], known: Iterable[AlignedInk]) -> list[AlignedInk]:
    """Drop ink whose text occurs in `known`, as is needed for a validation set."""
    texts = {ink.tokens for ink in known}
    return [ink for ink in inks if ink.tokens not in texts]


class InkDataset(Sequence[AlignedInk]):
    """Ink with captions; images are rendered like CROHME's on demand."""

    def __init__(self, inks: Sequence[AlignedInk]) -> None:
        """Wrap ink in pixels of CROHME's images, as `load_ink` returns it."""
        self.inks = inks

    def __len__(self) -> int:
        return len(self.inks)

    @overload
    def __getitem__(self, index: int) -> AlignedInk: ...
    @overload
    def __getitem__(self, index: slice) -> InkDataset: ...
    def __getitem__(self, index: int | slice) -> AlignedInk | InkDataset:
        return InkDataset(self.inks[index]) if isinstance(index, slice) else self.inks[index]

    def image(self, index: int) -> NDArray[np.uint8]:
        """Render an expression, uint8 (height, width), white ink on black."""
        return render(self.inks[index].strokes)


def list_ink_splits(files: Files) -> list[str]:
    """Return the names of all folders that hold InkML files at any depth."""
    return sorted({folder for name in _inkml_files(files) for folder in _folders(name)})


def _read(
    files: Files, split: str, captions: Mapping[str, Sequence[str]] | None
) -> Iterator[AlignedInk]:
    for file in _files_of_split(files, split):
        name = PurePosixPath(file).stem
        if captions is not None and name not in captions:
            continue
        try:
            ink = read_inkml(files.read(file), name)
            tokens = caption_of(ink) if captions is None else captions[name]
            aligned = align(ink, tokens)
        except InkError as error:
            _log.warning("%s: skipped %s: %s", files.path, file, error)
        else:
            yield replace(aligned, writer=aligned.writer or _writer_from_name(name))


def _inkml_files(files: Files) -> list[str]:
    return [name for name in files.names() if name.endswith(".inkml")]


def _folders(name: str) -> tuple[str, ...]:
    return PurePosixPath(name).parts[:-1]


def _files_of_split(files: Files, split: str) -> list[str]:
    found = [name for name in _inkml_files(files) if split in _folders(name)]
    if not found:
        raise DataError(f"{files.path}: no .inkml files in a folder {split!r}")
    return found


def _writer_from_name(name: str) -> str:
    """Return the common prefix of a writer's files, as in `200924-1331-216` and `rit_4210_3`."""
    return name[: max(name.rfind("-"), name.rfind("_"), 0)] or name


def _state(files: Files, split: str) -> list[list[object]]:
    """Return the state of an archive, or of every file of a split in a folder."""
    if files.path.is_file():
        return file_state([files.path])
    return file_state([files.path / name for name in _files_of_split(files, split)])


def _pack(inks: Sequence[AlignedInk]) -> dict[str, Any]:
    """Return arrays that hold the ink; every stroke has the index of its token, or -1."""
    texts = json.dumps([[ink.name, ink.writer, " ".join(ink.tokens)] for ink in inks])
    owners = []
    for ink in inks:
        owner = np.full(len(ink.strokes), -1, np.int32)
        for index, strokes in enumerate(ink.alignment):
            owner[list(strokes)] = index
        owners.append(owner)
    all_strokes = [stroke for ink in inks for stroke in ink.strokes]
    return {
        "texts": np.frombuffer(texts.encode(), np.uint8),
        "points": np.concatenate(all_strokes).astype(np.float32),
        "lengths": np.array([len(stroke) for stroke in all_strokes], np.int32),
        "strokes": np.array([len(ink.strokes) for ink in inks], np.int32),
        "owners": np.concatenate(owners),
    }


def _unpack(arrays: Mapping[str, np.ndarray]) -> list[AlignedInk]:
    strokes = split_points(arrays["points"], arrays["lengths"])
    owners = arrays["owners"].tolist()
    inks, first = [], 0
    texts = json.loads(arrays["texts"].tobytes())
    for (name, writer, text), count in zip(texts, arrays["strokes"].tolist(), strict=True):
        tokens = tuple(text.split())
        alignment: list[list[int]] = [[] for _ in tokens]
        for stroke, owner in enumerate(owners[first : first + count]):
            if owner >= 0:
                alignment[owner].append(stroke)
        own_strokes = strokes[first : first + count]
        inks.append(AlignedInk(name, tokens, own_strokes, tuple(map(tuple, alignment)), writer))
        first += count
    return inks


@dataclass(frozen=True)
class AlignedSample:
    """Name and tokens of a sample of aligned ink; see `Sample`."""

    ink: AlignedInk

    @property
    def name(self) -> str:
        """Name of the example."""
        return self.ink.name

    @property
    def tokens(self) -> tuple[str, ...]:
        """The caption."""
        return self.ink.tokens


@dataclass(frozen=True)
class InkSample(AlignedSample):
    """Ink with all random choices made; see `Sample`."""

    style: RenderStyle
    height: int
    width: int

    def render(self) -> tuple[NDArray[np.uint8], NDArray[np.float32]]:
        """Render the image, uint8 (height, width), and token boxes, float32 (tokens, 4)."""
        return render_aligned(self.ink, self.style)


@dataclass(eq=False)
class InkSampler:
    """Samples training examples from aligned ink; see `Sampler`.

    The steps are, in this order: symbol substitution, stroke augmentation, scaling of the
    handwriting, rendering. The sampled scale changes the handwriting under a constant pen. The
    scale of the style resamples the finished image, pen included, as happens to a real image.

    Args:
        inks: In pixels of CROHME's images, as `load_ink` returns them.
        style: How images are rendered.
        scale_range: Smallest and largest scale of the handwriting; None to keep the size.
        log_uniform: Sample the logarithm of the scale uniformly instead of the scale.
        augment: Distorts strokes; None for no distortion.
        substitution: Substitutes symbols; None for no substitution.
        max_pixels: Larger images are scaled down to this area.
        max_size: Maximum height and width; larger images are scaled down.

    Raises:
        DataError: If the scale range is invalid.
    """

    inks: Sequence[AlignedInk]
    style: RenderStyle = field(default_factory=RenderStyle)
    _: KW_ONLY
    scale_range: tuple[float, float] | None = (0.7, 1.4)
    log_uniform: bool = False
    augment: StrokeAugmentation | None = None
    substitution: InkTransform | None = None
    max_pixels: int | None = None
    max_size: tuple[int, int] | None = None

    def __post_init__(self) -> None:
        check_scale_range(self.scale_range)

    def __len__(self) -> int:
        return len(self.inks)

    def sample(self, index: int, rng: np.random.Generator) -> InkSample:
        """Make all random choices for one example, without rendering it."""
        return self.sample_ink(self.inks[index], rng)

    def sample_ink(self, ink: AlignedInk, rng: np.random.Generator) -> InkSample:
        """Make all random choices for ink that need not belong to the sampler."""
        style = self.style
        if self.substitution is not None:
            ink = self.substitution(ink, rng)
        if self.augment is not None:
            ink = self.augment(ink, rng)
            style = self.augment.sample_pen(style, rng)
        ink = _scaled(ink, self._sample_scale(rng))
        height, width = rendered_size(ink.strokes, style)
        shrink = fit_scale(height, width, self.max_pixels, self.max_size)
        if shrink < 1.0:
            style = replace(style, scale=style.scale * shrink)
            height, width = rendered_size(ink.strokes, style)
        return InkSample(ink, style, height, width)

    def _sample_scale(self, rng: np.random.Generator) -> float:
        if self.scale_range is None:
            return 1.0
        if self.log_uniform:
            return float(np.exp(rng.uniform(*np.log(self.scale_range))))
        return float(rng.uniform(*self.scale_range))


def _scaled(ink: AlignedInk, scale: float) -> AlignedInk:
    if scale == 1.0:
        return ink
    points = np.concatenate(ink.strokes) * np.float32(scale)
    return replace(ink, strokes=split_points(points, [len(stroke) for stroke in ink.strokes]))
