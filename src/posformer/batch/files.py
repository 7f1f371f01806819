"""Many files through the recognizer: what is found, and how results are written."""

from __future__ import annotations

import csv
import io
import json
import os
import sys
import warnings
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Literal, TextIO

from posformer.atomic import atomic_file
from posformer.errors import PosformerError

if TYPE_CHECKING:
    from posformer.recognizer import Recognition, Recognizer

__all__ = [
    "Format",
    "Found",
    "ResultWriter",
    "find_files",
    "open_output",
    "recognize_files",
]

STDIN = "-"
_IMAGES = "bmp dib gif heic heif jpeg jpg pbm pdf pgm png ppm tif tiff webp"
SUFFIXES = frozenset(f".{name}" for name in (*_IMAGES.split(), "inkml"))

Format = Literal["text", "json", "csv"]
Found = tuple[str, str | BinaryIO | PosformerError]  # what to call it, and what to read


def recognize_files(
    recognizer: Recognizer,
    paths: Sequence[str],
    output: Path | None = None,
    format: Format = "text",
    **search: Any,
) -> int:
    """Read files and folders, and write a result for each; failures go to stderr, a line each.

    Args:
        recognizer: what reads.
        paths: see `find_files`.
        output: a file to write; None for stdout.
        format: see `ResultWriter`.
        search: `top_k`, `beam`, `greedy`, `views` of `Recognizer.recognize`.

    Returns:
        How many could not be read.
    """
    several = len(paths) > 1 or any(Path(path).is_dir() for path in paths)
    failed = 0
    with open_output(output) as stream, _progress(paths, several) as advance, _one_line_warnings():
        writer = ResultWriter(stream, format, several, search.get("top_k", 1))
        for path, result in _results(recognizer, find_files(paths), search):
            writer.write(path, result)
            _tell(path, result)
            failed += isinstance(result, PosformerError)
            advance()
    return failed


def _results(
    recognizer: Recognizer, found: Iterator[Found], search: dict[str, Any]
) -> Iterator[tuple[str, Recognition | PosformerError]]:
    names: deque[str] = deque()

    def sources() -> Iterator[str | BinaryIO | PosformerError]:
        for name, source in found:
            names.append(name)
            yield source

    for result in recognizer.attempt_many(sources(), **search):
        yield names.popleft(), result


def _tell(path: str, result: Recognition | PosformerError) -> None:
    """Say on stderr what failed, and to a person also what should be looked at."""
    if isinstance(result, PosformerError):
        _say(str(result) if str(result).startswith(path) else f"{path}: {result}")
    elif sys.stderr.isatty():
        if result.lines:
            _say(f"{path}: read as {len(result.lines)} formulas below each other")
        if result.is_unsure:
            _say(f"{path}: unsure (confidence {result.confidence:.2f})")


def _say(text: str) -> None:
    print(f"posformer: {text}", file=sys.stderr, flush=True)


@contextmanager
def _one_line_warnings() -> Iterator[None]:
    """Warnings about images in the form of all other messages."""
    from posformer.image.loading import ImageWarning

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warnings.simplefilter("always", ImageWarning)
        warnings.showwarning = lambda message, *rest, **more: _say(str(message))
        yield


@contextmanager
def _progress(paths: Sequence[str], several: bool) -> Iterator[Callable[[], None]]:
    """A bar on stderr where a person watches; gives what moves it on by one file."""
    if not several or not sys.stderr.isatty():
        yield lambda: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeRemainingColumn

    count = sum(1 for _ in find_files(paths))
    columns = (BarColumn(None), MofNCompleteColumn(), TimeRemainingColumn())
    # Where results go to the same screen they have to pass above the bar.
    bar = Progress(
        *columns,
        console=Console(stderr=True),
        transient=True,
        redirect_stdout=sys.stdout.isatty(),
    )
    with bar:
        task = bar.add_task("", total=count)
        yield lambda: bar.advance(task)


def find_files(paths: Sequence[str]) -> Iterator[Found]:
    """What to read: files as they are named, all images and InkML below folders, `-` for stdin.

    What is named and not there is found all the same, so that reading it says why it fails.
    """
    for path in paths:
        if path == STDIN:
            yield path, sys.stdin.buffer
        elif Path(path).is_dir():
            yield from _below(path)
        else:
            yield path, path


def _below(folder: str) -> Iterator[Found]:
    """Files below a folder, sorted; an error where there are none or a folder cannot be read."""
    problems: list[OSError] = []
    empty = True
    for place, folders, names in os.walk(folder, onerror=problems.append):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for name in sorted(names):
            if Path(name).suffix.lower() in SUFFIXES and not name.startswith("."):
                empty = False
                yield (path := str(Path(place, name))), path
    for problem in problems:
        path = str(problem.filename)
        yield path, PosformerError(f"{path}: {problem.strerror}")
    if empty and not problems:
        yield folder, PosformerError(f"{folder}: there are no images and no InkML in this folder")


class ResultWriter:
    """Writes results one by one, each complete before the next begins.

    Args:
        stream: where to.
        format: `text`: the LaTeX, behind its path where there are several; `json`: one object a
            line; `csv`: a table with a header.
        several: whether more than one path may come.
        top_k: readings a result has at most.
    """

    def __init__(self, stream: TextIO, format: Format, several: bool, top_k: int) -> None:
        self._stream, self._format, self._several = stream, format, several
        further = [f"{name}_{rank}" for rank in range(2, top_k + 1) for name in _READING]
        self._columns = ["path", *_READING, "error", *further]
        if format == "csv":
            self._row(self._columns)

    def write(self, path: str, result: Recognition | PosformerError) -> None:
        """Write one result, or what went wrong with it."""
        if self._format == "json":
            self._line(json.dumps(_record(path, result), ensure_ascii=False))
        elif self._format == "csv":
            self._row(_cells(path, result, len(self._columns)))
        elif not isinstance(result, PosformerError):
            for reading in result.readings:
                self._line(f"{path}\t{reading.latex}" if self._several else reading.latex)
        self._stream.flush()

    def _line(self, text: str) -> None:
        self._stream.write(text + "\n")

    def _row(self, cells: Sequence[Any]) -> None:
        csv.writer(self._stream, lineterminator="\n").writerow(cells)


_READING = ("latex", "confidence")


def _record(path: str, result: Recognition | PosformerError) -> dict[str, Any]:
    if isinstance(result, PosformerError):
        return {"path": path, "error": str(result)}
    return {"path": path, **result.to_dict()}


def _cells(path: str, result: Recognition | PosformerError, columns: int) -> list[str]:
    if isinstance(result, PosformerError):
        cells = [path, "", "", str(result)]
    else:
        best, *others = ((one.latex, f"{one.confidence:.4f}") for one in result.readings)
        cells = [path, *best, "", *(cell for other in others for cell in other)]
    return cells + [""] * (columns - len(cells))


@contextmanager
def open_output(path: Path | None) -> Iterator[TextIO]:
    """Stdout, or a file that appears under its name when it is complete.

    What is written when the user interrupts is kept; after any other failure the file that was
    there before stays as it was.

    Raises:
        PosformerError: If the file cannot be written.
    """
    if path is None:
        if isinstance(sys.stdout, io.TextIOWrapper):
            sys.stdout.reconfigure(errors="surrogateescape")  # names need not be valid text
        yield sys.stdout
        return
    with ExitStack() as stack:
        try:
            stream = stack.enter_context(_file(path))
        except OSError as error:
            raise PosformerError(f"{path}: {error.strerror or error}") from error
        yield stream


def _file(path: Path) -> AbstractContextManager[TextIO]:
    if path.exists() and not path.is_file():  # a device or a pipe has no name to take over
        return path.open("w", encoding="utf-8", errors="surrogateescape", newline="")
    return atomic_file(path, keep_interrupted=True)
