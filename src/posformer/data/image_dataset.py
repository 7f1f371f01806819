"""Data sets of images with captions."""

import os
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, overload

import numpy as np

from posformer.data.image_codec import Polarity, decode_image, read_size
from posformer.data.splits import IMAGE_SUFFIXES, Split, find_splits, pick_split
from posformer.data.storage import Files, open_files
from posformer.errors import DataError
from posformer.image.sizing import ink_box
from posformer.ink.render import resample
from posformer.latex import split_caption

__all__ = [
    "Example",
    "ImageDataset",
    "ImageSample",
    "ImageSampler",
    "Polarity",
    "Problem",
    "decode_image",
    "list_splits",
    "open_images",
]


@dataclass(frozen=True)
class Example:
    """An image and what is written in it."""

    name: str
    """The name in the label file, without an image's extension."""
    tokens: tuple[str, ...]
    """The expression in caption form."""
    path: str
    """The image, as a path inside the data set."""
    line: int
    """The line of the label file, from 1."""


@dataclass(frozen=True)
class Problem:
    """Something wrong with a data set."""

    kind: Literal[
        "missing image", "unknown token", "empty caption", "broken image", "duplicate name"
    ]
    place: str
    """The label file and the line."""
    detail: str

    def __str__(self) -> str:
        return f"{self.place}: {self.kind}: {self.detail}"


def list_splits(path: str | os.PathLike[str]) -> list[str]:
    """Name the splits that a folder or zip archive holds."""
    return [split.name for split in find_splits(open_files(path))]


def open_images(
    path: str | os.PathLike[str],
    split: str,
    *,
    vocabulary: Container[str] | None = None,
    polarity: Polarity = "auto",
    strict: bool = True,
) -> "ImageDataset":
    """Open one split of a data set; CROHME, MNE, HME100K and M2E are told apart by their files.

    Args:
        path: A folder or a zip archive.
        split: Which part: `train`, `2014`, `N1`, …
        vocabulary: When given, a token that is not in it is an error.
        polarity: What ink the images have; whatever it is, images come out as white on black.
        strict: Whether anything wrong in the label file is an error. If not, the lines concerned
            are left out and `ImageDataset.problems` lists them.

    Raises:
        DataError: When there is no such split, or something is wrong; names file, line and token.
    """
    files = open_files(path)
    labels = _Labels(files, pick_split(files, split))
    examples, problems = labels.read(vocabulary)
    if strict and problems:
        raise DataError(_summary(problems))
    return ImageDataset(files, split, labels.place, examples, polarity, tuple(problems))


def _summary(problems: Sequence[Problem]) -> str:
    more = f" (and {len(problems) - 1} more problems)" if len(problems) > 1 else ""
    return f"{problems[0]}{more}"


class ImageDataset(Sequence[Example]):
    """The examples of a split; images are read when they are asked for.

    It can be shared between threads, forked and pickled.
    """

    def __init__(
        self,
        files: Files,
        split: str,
        place: Callable[[int], str],
        examples: Sequence[Example],
        polarity: Polarity = "auto",
        label_problems: tuple[Problem, ...] = (),
    ):
        """Hold examples; `open_images` is the way to get there.

        Args:
            files: Where the images are.
            split: The name of the split.
            place: Tells for a line of the label file where it is, for messages.
            examples: What the set holds.
            polarity: What ink the images have.
            label_problems: What was wrong in the label file.
        """
        self.files = files
        self.split = split
        self.polarity = polarity
        self._place = place
        self._examples = tuple(examples)
        self._label_problems = label_problems

    def __len__(self) -> int:
        return len(self._examples)

    @overload
    def __getitem__(self, index: int) -> Example: ...
    @overload
    def __getitem__(self, index: slice) -> "ImageDataset": ...
    def __getitem__(self, index: int | slice) -> "Example | ImageDataset":
        if isinstance(index, slice):
            return self.select(range(*index.indices(len(self))))
        return self._examples[index]

    def __repr__(self) -> str:
        return f"ImageDataset({str(self.files.path)!r}, {self.split!r}, {len(self)} examples)"

    def select(self, indices: Iterable[int]) -> "ImageDataset":
        """Give the set that holds only these examples, in this order."""
        chosen = [self._examples[index] for index in indices]
        return ImageDataset(self.files, self.split, self._place, chosen, self.polarity)

    def image(self, index: int) -> np.ndarray:
        """Read an image; uint8 (height, width), white ink on black.

        Raises:
            DataError: When the file is not a whole image.
        """
        example = self._examples[index]
        try:
            return decode_image(self.files.read(example.path), self.polarity)
        except (DataError, OSError) as error:
            raise DataError(str(self._broken(example, error))) from error

    @cached_property
    def sizes(self) -> np.ndarray:
        """Height and width of every image, int64 (examples, 2), from the files' headers alone."""
        sizes = np.empty((len(self), 2), dtype=np.int64)
        for index, example in enumerate(self._examples):
            try:
                sizes[index] = read_size(self.files, example.path)
            except (DataError, OSError) as error:
                raise DataError(str(self._broken(example, error))) from error
        return sizes

    def problems(self) -> list[Problem]:
        """List all that is wrong with the split; reads every image.

        Lines that are listed for the label file (possible only when the set was opened with
        `strict=False`) are not among the examples; broken images still are.
        """
        return [*self._label_problems, *self._broken_images()]

    def _broken_images(self) -> Iterator[Problem]:
        for index, example in enumerate(self._examples):
            try:
                self.image(index)
            except DataError as error:
                yield self._broken(example, error.__cause__ or error)

    def _broken(self, example: Example, reason: BaseException) -> Problem:
        return Problem("broken image", self._place(example.line), f"{example.path} ({reason})")


@dataclass(frozen=True)
class _Labels:
    """The label file of a split."""

    files: Files
    split: Split

    def place(self, line: int) -> str:
        """Name a line for a message."""
        return f"{self.files.path}/{self.split.labels} line {line}"

    def read(self, vocabulary: Container[str] | None) -> tuple[list[Example], list[Problem]]:
        """Read the examples, and what is wrong with the lines that give none."""
        rows = list(self._rows())
        images = _Images(self.files.names())
        folder = images.best_folder(self.split.folders, [name for _, name, _ in rows])
        examples: list[Example] = []
        problems: list[Problem] = []
        first_lines: dict[str, int] = {}
        for line, label, tokens in rows:
            name = _without_suffix(label)
            path = images.find(folder, label)
            first = first_lines.setdefault(name, line)
            if first != line:
                what = f"{name!r}, as in line {first}"
                problems.append(Problem("duplicate name", self.place(line), what))
            elif path is None:
                what = f"no image {name!r} in {folder}/"
                problems.append(Problem("missing image", self.place(line), what))
            elif fault := self._caption_fault(line, name, tokens, vocabulary):
                problems.append(fault)
            else:
                examples.append(Example(name, tokens, path, line))
        return examples, problems

    def _caption_fault(
        self, line: int, name: str, tokens: Sequence[str], vocabulary: Container[str] | None
    ) -> Problem | None:
        if not tokens:
            return Problem("empty caption", self.place(line), f"{name!r} has no tokens")
        for token in tokens:
            if vocabulary is not None and token not in vocabulary:
                what = f"{token!r} of {name!r} is not in the vocabulary"
                return Problem("unknown token", self.place(line), what)
        return None

    def _rows(self) -> Iterator[tuple[int, str, tuple[str, ...]]]:
        """Give line, name and tokens; the name ends at the first tab or, without one, blank."""
        try:
            text = self.files.read(self.split.labels).decode("utf-8-sig")
        except UnicodeDecodeError as error:
            raise DataError(f"{self.files.path}/{self.split.labels}: not UTF-8: {error}") from error
        for line, row in enumerate(text.split("\n"), start=1):
            if row.strip():
                name, *rest = row.split("\t" if "\t" in row else None, 1)
                yield line, name.strip(), split_caption(" ".join(rest))


class _Images:
    """The images of a data set by their names, with and without extension."""

    def __init__(self, names: Iterable[str]):
        found = [name for name in names if name.lower().endswith(IMAGE_SUFFIXES)]
        self._exact = set(found)
        self._by_stem: dict[str, str] = {}
        for name in found:
            self._by_stem.setdefault(_without_suffix(name), name)

    def find(self, folder: str, label: str) -> str | None:
        """Find the image a label names; the label's extension need not be the file's."""
        path = label if folder == "." else f"{folder}/{label}"
        if path in self._exact:
            return path
        return self._by_stem.get(path) or self._by_stem.get(_without_suffix(path))

    def best_folder(self, folders: Sequence[str], labels: Sequence[str]) -> str:
        """Choose the folder that has the most images of those labelled; the first of equals."""
        return max(folders, key=lambda folder: sum(bool(self.find(folder, one)) for one in labels))


def _without_suffix(name: str) -> str:
    for suffix in IMAGE_SUFFIXES:
        if name.lower().endswith(suffix):
            return name[: -len(suffix)]
    return name


@dataclass(frozen=True)
class ImageSample:
    """An image of a data set at the size that was drawn for it; see `Sample`."""

    name: str
    tokens: tuple[str, ...]
    height: int
    width: int
    original: ImageDataset
    """The set of this image alone: light to send to another process."""
    box: tuple[int, int, int, int] | None
    """What of it is kept, as left, top, right, bottom; None for all."""

    def render(self) -> tuple[np.ndarray, None]:
        """Make the image, uint8 (height, width); where its symbols are is not known."""
        image = self.original.image(0)
        if self.box:
            left, top, right, bottom = self.box
            image = image[top:bottom, left:right]
        return resample(np.ascontiguousarray(image), self.height, self.width), None


class ImageSampler:
    """Draws training examples from a set of images, with the scale augmentation of the paper."""

    def __init__(
        self,
        images: ImageDataset,
        scale_range: tuple[float, float] | None = (0.7, 1.4),
        *,
        max_pixels: int | None = None,
        max_size: tuple[int, int] | None = None,
        crop_margin: int | None = None,
    ):
        """Wrap a set of images.

        Args:
            images: The data set.
            scale_range: Smallest and largest factor for both sides; None for the size as it is.
            max_pixels: An image with more pixels is drawn smaller, so that it has no more.
            max_size: Greatest height and width; an image that exceeds one is drawn smaller.
                CoMER's program has (256, 1024).
            crop_margin: Pixels left, before scaling, of the empty margin around the ink; None to
                keep it as it is. Needs every image to be read once.
        """
        if scale_range is not None and not 0 < scale_range[0] <= scale_range[1]:
            raise DataError(f"scale_range {scale_range} is not (smallest, largest) above 0")
        self.images = images
        self.scale_range = scale_range
        self.max_pixels = max_pixels
        self.max_size = max_size
        self.crop_margin = crop_margin

    def __len__(self) -> int:
        return len(self.images)

    def sample(self, index: int, rng: np.random.Generator) -> ImageSample:
        """Draw the scale of an example; nothing is decoded."""
        example = self.images[index]
        box = None
        height, width = (int(side) for side in self.images.sizes[index])
        if self._boxes is not None:
            left, top, right, bottom = box = self._boxes[index]
            height, width = bottom - top, right - left
        scale = rng.uniform(*self.scale_range) if self.scale_range else 1.0
        scale = min(scale, self._largest_scale(height, width))
        return ImageSample(
            name=example.name,
            tokens=example.tokens,
            height=max(1, int(height * scale)),
            width=max(1, int(width * scale)),
            original=self.images.select([index]),
            box=box,
        )

    def _largest_scale(self, height: int, width: int) -> float:
        limits = [np.inf]
        if self.max_pixels is not None:
            limits.append(np.sqrt(self.max_pixels / (height * width)))
        if self.max_size is not None:
            limits += [self.max_size[0] / height, self.max_size[1] / width]
        return float(min(limits))

    @cached_property
    def _boxes(self) -> list[tuple[int, int, int, int]] | None:
        """What is kept of every image, as left, top, right, bottom; None for all of all."""
        if self.crop_margin is None:
            return None
        images = (self.images.image(index) for index in range(len(self)))
        return [ink_box(image, self.crop_margin) for image in images]
