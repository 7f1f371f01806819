"""Where the data sets of the field keep captions and images.

CROHME and MNE have a folder a split (`data/2014/caption.txt`, `data/2014/img/…`), HME100K and M2E
a label file a split (`train_labels.txt`) beside a folder of images (`train_images/`). Both kinds
are recognized by names alone, at any depth.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from posformer.data.storage import Files
from posformer.errors import DataError

__all__ = ["Split", "find_splits", "pick_split"]

IMAGE_SUFFIXES = (".bmp", ".png", ".jpg", ".jpeg", ".tif", ".tiff", ".gif", ".webp")

_LABEL_SUFFIXES = {".txt", ".tsv"}
# `caption.txt`, `labels.tsv`: the split is the folder.
_IN_FOLDER = re.compile(r"(caption|captions|label|labels)", re.IGNORECASE)
# `train_labels.txt`, `labels-test.txt`: the split is in the name.
_IN_NAME = re.compile(
    r"(?P<before>.+)[_\-.](caption|label)s?|(caption|label)s?[_\-.](?P<after>.+)", re.IGNORECASE
)


@dataclass(frozen=True)
class Split:
    """A part of a data set."""

    name: str
    """What it is called: `train`, `2014`, `N1`."""
    labels: str
    """Its label file, as a path inside the data set."""
    folders: tuple[str, ...]
    """Where its images can be, likeliest first, as paths inside the data set."""


def find_splits(files: Files) -> list[Split]:
    """List the splits a data set has, in the order of their names."""
    names = [name for name in files.names() if not _is_clutter(name)]
    folders = {str(PurePosixPath(name).parent) for name in names if _is_image(name)}
    splits = [_as_split(files, name, folders) for name in names]
    return sorted((split for split in splits if split), key=lambda split: split.name)


def pick_split(files: Files, name: str) -> Split:
    """Find a split by its name.

    Raises:
        DataError: When it is not there, or there twice; the text lists what is.
    """
    splits = find_splits(files)
    found = [split for split in splits if split.name == name]
    if len(found) > 1:
        places = ", ".join(split.labels for split in found)
        raise DataError(f"{files.path}: split {name!r} is there more than once: {places}")
    if not found:
        raise DataError(f"{files.path}: no split {name!r}; found {_listed(splits)}")
    return found[0]


def _listed(splits: Iterable[Split]) -> str:
    names = ", ".join(split.name for split in splits)
    return names or "no caption.txt or label file with a folder of images at all"


def _is_image(name: str) -> bool:
    return name.lower().endswith(IMAGE_SUFFIXES)


def _is_clutter(name: str) -> bool:
    """Tell what operating systems leave behind."""
    return any(part == "__MACOSX" or part.startswith(".") for part in PurePosixPath(name).parts)


def _as_split(files: Files, file: str, image_folders: set[str]) -> Split | None:
    """Take a file as the labels of a split, when its name and surroundings allow."""
    path = PurePosixPath(file)
    if path.suffix.lower() not in _LABEL_SUFFIXES:
        return None
    in_name = _IN_NAME.fullmatch(path.stem)
    known = True
    if _IN_FOLDER.fullmatch(path.stem):
        name = path.parent.name or _name_of(files)
    elif in_name:
        name = in_name["before"] or in_name["after"]
    else:
        name = path.stem
        known = b"\t" in files.read(file, 4096).split(b"\n")[0]
    likely = [folder for folder in _image_folders(path.parent, name) if folder in image_folders]
    if not known or not (likely or _says_so(path)):
        return None
    # Names may carry their folder with them, seen from the label file.
    return Split(name, file, tuple(dict.fromkeys([*likely, str(path.parent)])))


def _says_so(labels: PurePosixPath) -> bool:
    """Tell a label file by its name alone: its missing images are an error, not another file."""
    return bool(_IN_FOLDER.fullmatch(labels.stem) or _IN_NAME.fullmatch(labels.stem))


def _name_of(files: Files) -> str:
    path = Path(files.path).resolve()
    return path.name if path.is_dir() else path.stem


def _image_folders(parent: PurePosixPath, split: str) -> list[str]:
    own = [split, f"{split}_images", f"{split}_image", f"{split}_img", f"images_{split}"]
    shared = ["img", "images", "image", "imgs", "images"]
    nested = [f"{one}/{other}" for a in own[:1] for b in shared for one, other in ((a, b), (b, a))]
    return [str(parent / folder) for folder in (*own, *nested, *shared, ".")]
