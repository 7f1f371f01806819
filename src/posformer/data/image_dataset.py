"""Datasets of images with captions."""

import os
from collections.abc import Container, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import KW_ONLY, dataclass, replace
from functools import cached_property
from typing import overload

import numpy as np
from numpy.typing import NDArray

from posformer.data.labels import Example, Problem, line_location, read_labels
from posformer.data.sampling import check_scale_range
from posformer.data.splits import Split, find_splits, pick_split
from posformer.data.storage import Files, open_files
from posformer.errors import DataError, ImageError, NoInkError
from posformer.image.loading import Polarity, image_size, load_image, white_on_black
from posformer.image.preparation import InputKind, Preprocessing, input_kind, prepare_image
from posformer.image.sizing import fit_scale, ink_box, resample

_HEADER_BYTES = 4096  # nearly always enough to read the size of an image


def list_splits(path: str | os.PathLike[str] | Files) -> list[str]:
    """Return the names of the splits with images in a folder or zip archive."""
    return [split.name for split in find_splits(open_files(path))]


def open_images(
    path: str | os.PathLike[str] | Files,
    split: str,
    *,
    vocabulary: Container[str] | None = None,
    polarity: Polarity = "auto",
    strict: bool = True,
    preprocessing: Preprocessing = "grey",
) -> "ImageDataset":
    """Open a split of a dataset; the layout (CROHME, MNE, HME100K, M2E) is detected.

    Images of a kind, according to a column of the label file, are photographs of any size: they
    are prepared as `Recognizer` does it.

    Args:
        path: A folder or a zip archive.
        split: Name of the split: `train`, `2014`, `N1`, …
        vocabulary: If given, a token outside of it is an error.
        polarity: The ink of the images, which are always returned as white ink on black.
        strict: Whether a problem in the label file is an error. Otherwise the lines concerned
            are skipped and `ImageDataset.problems` lists them.
        preprocessing: How photographs are prepared: `image.preprocessing` of the model.

    Raises:
        DataError: If the split does not exist or has a problem; names file, line and token.
    """
    files = open_files(path)
    found = pick_split(files, split)
    examples, problems = read_labels(files, found, vocabulary)
    if strict and problems:
        more = f" (and {len(problems) - 1} more problems)" if len(problems) > 1 else ""
        raise DataError(f"{problems[0]}{more}")
    return ImageDataset(files, found, examples, polarity, problems, preprocessing)


@dataclass(eq=False, repr=False)
class ImageDataset(Sequence[Example]):
    """The examples of a split; `open_images` creates it. Images are read on demand.

    The dataset can be shared between threads, forked and pickled.
    """

    files: Files
    split: Split
    examples: Sequence[Example]
    polarity: Polarity = "auto"  # the ink of the images
    label_problems: Sequence[Problem] = ()
    preprocessing: Preprocessing = "grey"  # of photographs

    def __len__(self) -> int:
        return len(self.examples)

    @overload
    def __getitem__(self, index: int) -> Example: ...
    @overload
    def __getitem__(self, index: slice) -> "ImageDataset": ...
    def __getitem__(self, index: int | slice) -> "Example | ImageDataset":
        if isinstance(index, slice):
            return self.select(range(*index.indices(len(self))))
        return self.examples[index]

    def __repr__(self) -> str:
        return f"ImageDataset({str(self.files.path)!r}, {self.split.name!r}, {len(self)} examples)"

    def select(self, indices: Iterable[int]) -> "ImageDataset":
        """Return a dataset of only these examples, in this order."""
        selected = [self.examples[index] for index in indices]
        return replace(self, examples=selected, label_problems=())

    def by_kind(self) -> dict[str, "ImageDataset"]:
        """Return a dataset for each kind of photograph, in alphabetical order."""
        members: dict[str, list[int]] = {}
        for index, example in enumerate(self.examples):
            members.setdefault(example.kind, []).append(index)
        return {kind: self.select(members[kind]) for kind in sorted(members)}

    def image(self, index: int) -> NDArray[np.uint8]:
        """Read an image.

        Returns:
            uint8 (height, width), white ink on black. A photograph without ink is returned as an
            empty image.

        Raises:
            DataError: If the file is not an intact image.
        """
        return self.formulas(index, split=False)[0]

    def formulas(self, index: int, split: bool = True) -> list[NDArray[np.uint8]]:
        """Read an image; the formulas of a photograph that stand below each other are split.

        Arguments, results and errors are otherwise those of `image`.
        """
        example = self.examples[index]
        with self._naming(example):
            content = load_image(self.files.read(example.path))
            if not example.kind:
                return [white_on_black(content, self.polarity)]
            try:
                return prepare_image(content, self.preprocessing, split)
            except NoInkError:
                return [np.zeros((32, 32), np.uint8)]

    def input_kind(self, index: int) -> InputKind:
        """Return what kind of input an image is to `Recognizer`; `ink` if it is no photograph."""
        example = self.examples[index]
        if not example.kind:
            return "ink"
        with self._naming(example):
            return input_kind(load_image(self.files.read(example.path)))

    @cached_property
    def sizes(self) -> NDArray[np.int64]:
        """Height and width of every image, int64 (examples, 2), from the file headers if possible.

        Photographs have to be prepared.
        """
        sizes = np.empty((len(self), 2), dtype=np.int64)
        for index, example in enumerate(self.examples):
            with self._naming(example):
                size = self.image(index).shape if example.kind else self._read_size(example.path)
                sizes[index] = size
        return sizes

    def problems(self) -> list[Problem]:
        """Return all problems of the split; reads every image.

        Lines with a problem in the label file, which only a dataset opened with `strict=False`
        can have, are not among the examples. Broken images are.
        """
        found = list(self.label_problems)
        for index, example in enumerate(self.examples):
            try:
                self.image(index)
            except DataError as error:
                found.append(self._broken_image(example, error.__cause__ or error))
        return found

    def _read_size(self, path: str) -> tuple[int, int]:
        try:
            return image_size(self.files.read(path, _HEADER_BYTES))
        except ImageError:
            return image_size(self.files.read(path))

    @contextmanager
    def _naming(self, example: Example) -> Iterator[None]:
        """Name the image in the error if it cannot be read."""
        try:
            yield
        except (DataError, ImageError, OSError) as error:
            raise DataError(str(self._broken_image(example, error))) from error

    def _broken_image(self, example: Example, reason: BaseException) -> Problem:
        location = line_location(self.files, self.split, example.line)
        return Problem("broken image", location, f"{example.path} ({reason})")


@dataclass(frozen=True)
class ImageSample:
    """An image of a dataset and the size to render it at; see `Sample`."""

    name: str
    tokens: tuple[str, ...]
    height: int
    width: int
    original: ImageDataset
    """A dataset of this image alone, which is cheap to send to another process."""
    box: tuple[int, int, int, int]
    """Left, top, right, bottom of the part to use."""

    def render(self) -> tuple[NDArray[np.uint8], None]:
        """Render the image, uint8 (height, width). There are no token boxes."""
        left, top, right, bottom = self.box
        image = np.ascontiguousarray(self.original.image(0)[top:bottom, left:right])
        return resample(image, self.height, self.width), None


@dataclass(eq=False)
class ImageSampler:
    """Samples training examples from images, with the scale augmentation of the paper.

    Args:
        images: The dataset.
        scale_range: Smallest and largest scale factor; None to keep the size.
        max_pixels: Larger images are scaled down to this area.
        max_size: Maximum height and width; larger images are scaled down. CoMER uses
            (256, 1024).
        crop_margin: Pixels, before scaling, kept of the empty margin around the ink; None to
            keep all of it. Requires reading every image once.

    Raises:
        DataError: If the scale range is invalid.
    """

    images: ImageDataset
    scale_range: tuple[float, float] | None = (0.7, 1.4)
    _: KW_ONLY
    max_pixels: int | None = None
    max_size: tuple[int, int] | None = None
    crop_margin: int | None = None

    def __post_init__(self) -> None:
        check_scale_range(self.scale_range)

    def __len__(self) -> int:
        return len(self.images)

    def sample(self, index: int, rng: np.random.Generator) -> ImageSample:
        """Sample the scale of an example, without decoding it."""
        example = self.images[index]
        left, top, right, bottom = box = self._boxes[index]
        height, width = bottom - top, right - left
        scale = rng.uniform(*self.scale_range) if self.scale_range else 1.0
        scale = min(scale, fit_scale(height, width, self.max_pixels, self.max_size))
        return ImageSample(
            name=example.name,
            tokens=example.tokens,
            height=max(1, int(height * scale)),
            width=max(1, int(width * scale)),
            original=self.images.select([index]),
            box=box,
        )

    @cached_property
    def _boxes(self) -> list[tuple[int, int, int, int]]:
        """The part of every image to use, as left, top, right, bottom."""
        if self.crop_margin is None:
            return [(0, 0, width, height) for height, width in self.images.sizes.tolist()]
        images = (self.images.image(index) for index in range(len(self)))
        return [ink_box(image, self.crop_margin) for image in images]
