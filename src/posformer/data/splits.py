"""Finding the splits of a dataset of images by the names of its files.

CROHME and MNE have one folder per split (`data/2014/caption.txt`, `data/2014/img/…`). HME100K and
M2E have one label file per split (`train_labels.txt`) next to a folder of images
(`train_images/`). Both layouts are recognized at any depth.
"""

import re
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from posformer.data.storage import Files
from posformer.errors import DataError

IMAGE_SUFFIXES = (".bmp", ".png", ".jpg", ".jpeg", ".tif", ".tiff", ".gif", ".webp")

_LABEL_SUFFIXES = {".txt", ".tsv"}
# `train_labels.txt`, `labels-test.txt`; `caption.txt`, where the folder names the split.
_LABEL_NAME = re.compile(
    r"((?P<before>.+)[_\-.])?(caption|label)s?|(caption|label)s?[_\-.](?P<after>.+)", re.IGNORECASE
)
_IMAGE_FOLDERS = ("img", "images", "image", "imgs")


@dataclass(frozen=True)
class Split:
    """A part of a dataset."""

    name: str
    """`train`, `2014`, `N1`, …"""
    labels: str
    """Label file, as a path inside the dataset."""
    folders: tuple[str, ...]
    """Folders that may hold the images, most likely first, as paths inside the dataset."""


def find_splits(files: Files) -> list[Split]:
    """Return the splits of a dataset, sorted by name."""
    names = [name for name in files.names() if not _is_system_file(name)]
    folders = {
        str(PurePosixPath(name).parent) for name in names if name.lower().endswith(IMAGE_SUFFIXES)
    }
    splits = [_as_split(files, name, folders) for name in names]
    return sorted((split for split in splits if split), key=lambda split: split.name)


def pick_split(files: Files, name: str) -> Split:
    """Return the split of a name.

    Raises:
        DataError: If there is no such split, or more than one. The message lists what exists.
    """
    splits = find_splits(files)
    found = [split for split in splits if split.name == name]
    if len(found) > 1:
        paths = ", ".join(split.labels for split in found)
        raise DataError(f"{files.path}: split {name!r} exists more than once: {paths}")
    if not found:
        available = ", ".join(split.name for split in splits)
        missing = "found no caption.txt or label file with a folder of images"
        available = f"available splits: {available}" if available else missing
        raise DataError(f"{files.path}: no split {name!r}; {available}")
    return found[0]


def _is_system_file(name: str) -> bool:
    """Whether an operating system left the file behind."""
    return any(part == "__MACOSX" or part.startswith(".") for part in PurePosixPath(name).parts)


def _as_split(files: Files, file: str, image_folders: set[str]) -> Split | None:
    """Interpret a file as the labels of a split; None if its name or its neighbors forbid that."""
    path = PurePosixPath(file)
    if path.suffix.lower() not in _LABEL_SUFFIXES:
        return None
    name = path.stem
    if label_name := _LABEL_NAME.fullmatch(path.stem):
        named_by_file = label_name["before"] or label_name["after"]
        name = named_by_file or path.parent.name or _dataset_name(files)
    folders = [folder for folder in _folder_names(path.parent, name) if folder in image_folders]
    # A file with one of these names holds labels: if its images are missing, that is an error.
    # Any other text file needs images and a tab in its first line.
    if not label_name and not (folders and b"\t" in files.read(file, 4096).split(b"\n")[0]):
        return None
    # Labels may contain a path relative to the label file.
    return Split(name, file, tuple(dict.fromkeys([*folders, str(path.parent)])))


def _dataset_name(files: Files) -> str:
    path = Path(files.path).resolve()
    return path.name if path.is_dir() else path.stem


def _folder_names(parent: PurePosixPath, split: str) -> list[str]:
    """Return the folders that may hold the images of a split, most likely first."""
    own = [split, f"{split}_images", f"{split}_image", f"{split}_img", f"images_{split}"]
    nested = [nested for one in _IMAGE_FOLDERS for nested in (f"{split}/{one}", f"{one}/{split}")]
    return [str(parent / folder) for folder in (*own, *nested, *_IMAGE_FOLDERS, ".")]
