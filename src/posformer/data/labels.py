"""Label files: the captions of a split, and checks that report file, line and token."""

from collections.abc import Container, Iterable, Iterator
from dataclasses import dataclass
from typing import Literal

from posformer.data.splits import IMAGE_SUFFIXES, Split
from posformer.data.storage import Files
from posformer.errors import DataError
from posformer.latex import split_caption

ProblemKind = Literal[
    "missing image", "unknown token", "empty caption", "broken image", "duplicate name"
]


@dataclass(frozen=True)
class Example:
    """An image and its caption."""

    name: str
    """The name in the label file, without the extension of the image."""
    tokens: tuple[str, ...]
    """The caption."""
    path: str
    """The image, as a path inside the dataset."""
    line: int
    """The line of the label file, from 1."""
    kind: str = ""
    """Of a photograph, such as `scan`; empty for images like those of CROHME."""
    source: str = ""
    """Where a photograph comes from: images of one source resemble each other."""


@dataclass(frozen=True)
class Problem:
    """An error in a dataset."""

    kind: ProblemKind
    location: str
    """The label file and the line."""
    detail: str

    def __str__(self) -> str:
        return f"{self.location}: {self.kind}: {self.detail}"


def line_location(files: Files, split: Split, line: int) -> str:
    """Return how error messages refer to a line of the label file."""
    return f"{files.path}/{split.labels} line {line}"


def read_labels(
    files: Files, split: Split, vocabulary: Container[str] | None = None
) -> tuple[list[Example], list[Problem]]:
    """Read the label file of a split.

    Args:
        files: The dataset.
        split: The split.
        vocabulary: If given, tokens outside of it are problems.

    Returns:
        The valid examples, and the problems of all other lines.

    Raises:
        DataError: If the label file is not UTF-8, or a line lacks columns of the header.
    """
    rows = list(_read_rows(files, split))
    images = _index_images(files.names())

    def count_images(folder: str) -> int:
        return sum(bool(_find_image(images, folder, row["name"])) for _, row in rows)

    folder = max(split.folders, key=count_images)
    examples: list[Example] = []
    problems: list[Problem] = []
    first_lines: dict[str, int] = {}
    fault: tuple[ProblemKind, str]
    for line, row in rows:
        path, tokens = _find_image(images, folder, row["name"]), split_caption(row["tokens"])
        about = {name: row[name] for name in ("kind", "source") if name in row}
        example = Example(_strip_suffix(row["name"]), tokens, path, line, **about)
        first = first_lines.setdefault(example.name, line)
        if first != line:
            fault = "duplicate name", f"{example.name!r}, as in line {first}"
        elif not example.path:
            fault = "missing image", f"no image {example.name!r} in {folder}/"
        elif not tokens:
            fault = "empty caption", f"{example.name!r} has no tokens"
        elif unknown := _first_unknown(tokens, vocabulary):
            fault = "unknown token", f"{unknown!r} of {example.name!r} is not in the vocabulary"
        else:
            examples.append(example)
            continue
        problems.append(Problem(fault[0], line_location(files, split, line), fault[1]))
    return examples, problems


def _first_unknown(tokens: Iterable[str], vocabulary: Container[str] | None) -> str | None:
    if vocabulary is None:
        return None
    return next((token for token in tokens if token not in vocabulary), None)


def _read_rows(files: Files, split: Split) -> Iterator[tuple[int, dict[str, str]]]:
    """Yield the line number and the columns, at least `name` and `tokens`, of every line.

    Columns are named by a first line such as `name<TAB>kind<TAB>tokens`. Without it there are two;
    the name ends at the first tab or, without one, white space.
    """
    try:
        text = files.read(split.labels).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise DataError(f"{files.path}/{split.labels}: not UTF-8: {error}") from error
    rows = [(line, row) for line, row in enumerate(text.split("\n"), start=1) if row.strip()]
    header = rows[0][1].strip().split("\t") if rows else []
    if not {"name", "tokens"} <= set(header):
        for line, row in rows:
            name, *rest = row.split("\t" if "\t" in row else None, 1)
            yield line, {"name": name.strip(), "tokens": " ".join(rest)}
        return
    for line, row in rows[1:]:
        cells = [cell.strip() for cell in row.split("\t")]
        if len(cells) != len(header):
            place = line_location(files, split, line)
            raise DataError(f"{place}: has {len(cells)} columns, the header {len(header)}")
        yield line, dict(zip(header, cells, strict=True))


def _index_images(names: Iterable[str]) -> dict[str, str]:
    """Return the images of a dataset by path, with and without extension."""
    found = [name for name in names if name.lower().endswith(IMAGE_SUFFIXES)]
    by_stem = {_strip_suffix(name): name for name in reversed(found)}
    return by_stem | {name: name for name in found}


def _find_image(images: dict[str, str], folder: str, label: str) -> str:
    """Return the image of a label, whose extension may differ from the file's; "" if missing."""
    path = label if folder == "." else f"{folder}/{label}"
    return images.get(path) or images.get(_strip_suffix(path), "")


def _strip_suffix(name: str) -> str:
    stem, dot, suffix = name.rpartition(".")
    return stem if (dot + suffix).lower() in IMAGE_SUFFIXES else name
