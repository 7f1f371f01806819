"""The registry of dataset formats: one call opens images or ink.

To add a format, write a module with two functions, one that lists the splits of a folder or
archive and one that opens a split, and add a line to `FORMATS`.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from posformer.data.image_dataset import list_splits, open_images
from posformer.data.ink_dataset import InkDataset, list_ink_splits, load_ink
from posformer.data.storage import Files, open_files
from posformer.errors import DataError


class Expression(Protocol):
    """An item of a dataset."""

    @property
    def name(self) -> str:
        """Name, unique within the split."""

    @property
    def tokens(self) -> tuple[str, ...]:
        """The caption."""


class Dataset(Protocol):
    """A split of a dataset: expressions and their images."""

    def __len__(self) -> int:
        """Number of expressions."""

    def __getitem__(self, index: int) -> Expression:
        """Return the name and the caption of an expression."""

    def image(self, index: int) -> NDArray[np.uint8]:
        """Return an image, uint8 (height, width), white ink on black."""


@dataclass(frozen=True)
class DatasetFormat:
    """A kind of dataset that `open_dataset` recognizes."""

    name: str
    list_splits: Callable[[Files], list[str]]
    open_split: Callable[[Files, str], Dataset]


FORMATS = (
    DatasetFormat("images", list_splits, open_images),
    DatasetFormat("ink", list_ink_splits, lambda files, split: InkDataset(load_ink(files, split))),
)
"""All formats, in the order in which they are tried."""


def open_dataset(path: str | os.PathLike[str], split: str) -> Dataset:
    """Open a split of a dataset of images (CROHME, MNE, HME100K, M2E, your own) or InkML files.

    Ink is rendered like CROHME's images.

    Args:
        path: A folder or a zip archive.
        split: Name of the split: `train`, `2014`, `N1`, …

    Raises:
        DataError: If the split does not exist or cannot be read. The message lists the
            available splits.
    """
    files = open_files(path)
    available = []
    for dataset_format in FORMATS:
        splits = dataset_format.list_splits(files)
        if split in splits:
            return dataset_format.open_split(files, split)
        available.append(f"{dataset_format.name}: {', '.join(splits) or 'none'}")
    raise DataError(f"{files.path}: no split {split!r}; available splits: {'; '.join(available)}")
