"""Finds files for `posformer recognize`, recognizes them, and writes the results."""

from __future__ import annotations

import csv
import io
import json
import os
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from itertools import tee
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Literal, TextIO

from posformer.atomic import atomic_file
from posformer.errors import PosformerError

if TYPE_CHECKING:
    from posformer.recognizer import Recognition, Recognizer
    from posformer.search import DecodingOptions

STDIN = "-"
_IMAGES = "bmp dib gif heic heif jpeg jpg pbm pdf pgm png ppm tif tiff webp"
SUFFIXES = frozenset(f".{name}" for name in (*_IMAGES.split(), "inkml"))

Format = Literal["text", "json", "csv"]
NamedSource = tuple[str, str | BinaryIO | PosformerError]  # name, and what to recognize


def recognize_files(
    recognizer: Recognizer,
    paths: Sequence[str],
    output: Path | None = None,
    format: Format = "text",
    options: DecodingOptions | None = None,
) -> int:
    """Recognize files and folders and write one result per file; errors go to stderr.

    Args:
        recognizer: A loaded model.
        paths: See `find_files`.
        output: The file to write; stdout if None.
        format: See `ResultWriter`.
        options: How to decode; the defaults if None.

    Returns:
        The number of files that could not be read.
    """
    several = len(paths) > 1 or any(Path(path).is_dir() for path in paths)
    top_k = options.top_k if options else 1
    failed = 0
    with open_output(output) as stream, _progress(paths, several) as advance, _short_warnings():
        writer = ResultWriter(stream, format, several, top_k)
        # The recognizer reads some sources ahead, whose names `tee` keeps.
        found, named = tee(find_files(paths))
        results = recognizer.attempt_many((source for _, source in found), options)
        for (path, _), result in zip(named, results, strict=True):
            writer.write(path, result)
            _report(path, result)
            failed += isinstance(result, PosformerError)
            advance()
    return failed


def _report(path: str, result: Recognition | PosformerError) -> None:
    """Print errors to stderr and, on a terminal, results that need attention."""
    if isinstance(result, PosformerError):
        _print(str(result) if str(result).startswith(path) else f"{path}: {result}")
    elif sys.stderr.isatty():
        if result.lines:
            _print(f"{path}: split into {len(result.lines)} lines")
        if result.is_unsure:
            _print(f"{path}: unsure (confidence {result.confidence:.2f})")


def _print(text: str) -> None:
    print(f"posformer: {text}", file=sys.stderr, flush=True)


@contextmanager
def _short_warnings() -> Iterator[None]:
    """Print image warnings like all other messages, in one line."""
    from posformer.image.loading import ImageWarning

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warnings.simplefilter("always", ImageWarning)
        warnings.showwarning = lambda message, *_, **__: _print(str(message))
        yield


@contextmanager
def _progress(paths: Sequence[str], several: bool) -> Iterator[Callable[[], None]]:
    """Show a progress bar if stderr is a terminal; yield a function that advances it."""
    if not several or not sys.stderr.isatty():
        yield lambda: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeRemainingColumn

    count = sum(1 for _ in find_files(paths))
    columns = (BarColumn(None), MofNCompleteColumn(), TimeRemainingColumn())
    # Results that go to the same terminal must be printed above the bar.
    bar = Progress(
        *columns, console=Console(stderr=True), transient=True, redirect_stdout=sys.stdout.isatty()
    )
    with bar:
        task = bar.add_task("", total=count)
        yield lambda: bar.advance(task)


def find_files(paths: Sequence[str]) -> Iterator[NamedSource]:
    """Yield the files to recognize.

    Args:
        paths: Files, which are yielded even if they do not exist; folders, whose images and InkML
            files are yielded recursively, in sorted order; `-` for stdin.
    """
    for path in paths:
        if path == STDIN:
            yield path, sys.stdin.buffer
        elif Path(path).is_dir():
            yield from _walk(path)
        else:
            yield path, path


def _walk(folder: str) -> Iterator[NamedSource]:
    """Yield the files in a folder, and an error if it has none or cannot be read."""
    problems: list[OSError] = []
    empty = True
    for parent, folders, names in os.walk(folder, onerror=problems.append):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for name in sorted(names):
            if Path(name).suffix.lower() in SUFFIXES and not name.startswith("."):
                empty = False
                yield (path := str(Path(parent, name))), path
    for problem in problems:
        path = str(problem.filename)
        yield path, PosformerError(f"{path}: {problem.strerror}")
    if empty and not problems:
        yield folder, PosformerError(f"{folder}: there are no images and no InkML in this folder")


class ResultWriter:
    """Writes results one by one and flushes after each.

    Args:
        stream: Text stream to write to.
        format: `text`: LaTeX, preceded by the path and a tab if there are several paths; `json`:
            one object per line; `csv`: a table with a header.
        several: Whether there may be more than one path.
        top_k: Maximum number of hypotheses per result.
    """

    def __init__(self, stream: TextIO, format: Format, several: bool, top_k: int) -> None:
        self._stream, self._format, self._several = stream, format, several
        further = [f"{name}_{rank}" for rank in range(2, top_k + 1) for name in _FIELDS]
        self._columns = ["path", *_FIELDS, "error", *further]
        self._csv = csv.writer(stream, lineterminator="\n")
        if format == "csv":
            self._csv.writerow(self._columns)

    def write(self, path: str, result: Recognition | PosformerError) -> None:
        """Write a result or an error."""
        if self._format == "json":
            found = (
                {"error": str(result)} if isinstance(result, PosformerError) else result.to_dict()
            )
            print(json.dumps({"path": path, **found}, ensure_ascii=False), file=self._stream)
        elif self._format == "csv":
            self._csv.writerow(_cells(path, result, len(self._columns)))
        elif not isinstance(result, PosformerError):
            for reading in result.readings:
                label = f"{path}\t" if self._several else ""
                print(f"{label}{reading.latex}", file=self._stream)
        self._stream.flush()


_FIELDS = ("latex", "confidence")


def _cells(path: str, result: Recognition | PosformerError, columns: int) -> list[str]:
    if isinstance(result, PosformerError):
        cells = [path, "", "", str(result)]
    else:
        best, *others = ((one.latex, f"{one.confidence:.4f}") for one in result.readings)
        cells = [path, *best, "", *(cell for other in others for cell in other)]
    return cells + [""] * (columns - len(cells))


@contextmanager
def open_output(path: Path | None) -> Iterator[TextIO]:
    """Open stdout, or a file that appears under its name when it is complete.

    An interrupt by the user keeps what has been written. After any other failure an existing
    file is unchanged.

    Raises:
        PosformerError: If the file cannot be written.
    """
    if path is None:
        if isinstance(sys.stdout, io.TextIOWrapper):
            sys.stdout.reconfigure(errors="surrogateescape")  # file names need not be valid text
        yield sys.stdout
        return
    with ExitStack() as stack:
        try:
            stream = stack.enter_context(_open_file(path))
        except OSError as error:
            raise PosformerError(f"{path}: {error.strerror or error}") from error
        yield stream


def _open_file(path: Path) -> AbstractContextManager[TextIO]:
    if path.exists() and not path.is_file():  # a device or a pipe cannot be replaced
        return path.open("w", encoding="utf-8", errors="surrogateescape", newline="")
    return atomic_file(path, keep_interrupted=True)
