"""Finds files for `posformer recognize` and recognizes them."""

from __future__ import annotations

import os
import stat
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import filterfalse, tee
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from posformer.batch.result_file import ResultWriter, open_output, partial_file, read_finished
from posformer.errors import LatexError, PosformerError
from posformer.ink.ink_formats import INK_SUFFIXES
from posformer.text_output import one_line

if TYPE_CHECKING:
    from posformer.recognizer import Recognition, Recognizer
    from posformer.search import DecodingOptions

STDIN = "-"
_IMAGES = "bmp dib gif heic heif jpeg jpg pbm pdf pgm png ppm tif tiff webp"
SUFFIXES = frozenset(f".{name}" for name in _IMAGES.split()) | INK_SUFFIXES

NamedSource = tuple[str, str | BinaryIO | PosformerError]  # name, and what to recognize


def recognize_files(
    recognizer: Recognizer,
    paths: Sequence[str],
    output: Path | None = None,
    format: str = "text",
    options: DecodingOptions | None = None,
    resume: bool = False,
    timeout: float = 30.0,
    memory: int = 2048,
) -> int:
    """Recognize files and folders and write one result per file; errors go to stderr.

    Args:
        recognizer: A loaded model.
        paths: See `find_files`.
        output: The file to write; stdout if None.
        format: See `ResultWriter`.
        options: How to decode; the defaults if None.
        resume: Continue the partial file of an interrupted run, if there is one.
        timeout: Seconds for a file of unusual format or size, see `posformer.batch.budgeted`.
        memory: Megabytes for such a file.

    Returns:
        The number of files that could not be read, or whose content is not readable.
    """
    from posformer.batch.budgeted import attempt_with_budget

    several = len(paths) > 1 or any(_is_folder(path) for path in paths)
    top_k = options.top_k if options else 1
    finished = None
    if resume and output is not None:
        finished = read_finished(output, format, several, top_k)
    files = find_files(paths, _print)
    if finished is not None:
        files = filterfalse(lambda named: finished.skip(named[0]), files)
    failed = finished.failed if finished else 0
    with (
        open_output(output, format, finished) as stream,
        _interrupt_note(output),
        _progress(paths, several) as advance,
        _short_warnings(),
    ):
        writer = ResultWriter(stream, format, several, top_k, bool(finished and finished.rows))
        # The recognizer reads some sources ahead, whose names `tee` keeps.
        found, named = tee(files)
        sources = (source for _, source in found)
        results = attempt_with_budget(recognizer, sources, options, timeout, memory)
        for (path, _), result in zip(named, results, strict=True):
            try:
                writer.write(path, result)
            except LatexError as error:  # the format cannot express it
                result = error
            _report(path, result)
            failed += isinstance(result, PosformerError) or not result.readable
            advance()
    return failed


@contextmanager
def _interrupt_note(output: Path | None) -> Iterator[None]:
    """Tell the user who interrupts where the results are."""
    try:
        yield
    except KeyboardInterrupt:
        if output is not None and (part := partial_file(output)).exists():
            _print(f"{part}: the results so far; continue with --resume")
        raise


def _report(path: str, result: Recognition | PosformerError) -> None:
    """Print errors to stderr and, on a terminal, results that need attention."""
    if isinstance(result, PosformerError):
        _print(str(result) if str(result).startswith(path) else f"{path}: {result}")
    elif result.error:
        _print(f"{path}: {result.error}")
    elif sys.stderr.isatty():
        if result.lines:
            _print(f"{path}: split into {len(result.lines)} lines")
        if result.is_unsure:
            _print(f"{path}: unsure (confidence {result.confidence:.2f})")


def _print(text: str) -> None:
    print(f"posformer: {one_line(text)}", file=sys.stderr, flush=True)


@contextmanager
def _short_warnings() -> Iterator[None]:
    """Print image warnings like all other messages, in one line."""
    with warnings.catch_warnings():
        print_short_warnings()
        yield


def print_short_warnings() -> None:
    """Print image warnings in one line each, and no others."""
    from posformer.image.loading import ImageWarning

    warnings.simplefilter("ignore")
    warnings.simplefilter("always", ImageWarning)
    warnings.showwarning = lambda message, *_, **__: _print(str(message))


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


def find_files(
    paths: Sequence[str], say: Callable[[str], None] = lambda line: None
) -> Iterator[NamedSource]:
    """Yield the files to recognize.

    Args:
        paths: Files, which are yielded even if they do not exist; folders, whose images and files
            of ink are yielded recursively, in sorted order; `-` for stdin.
        say: Called with a line about each pipe or device in a folder, which is skipped.
    """
    for path in paths:
        if path == STDIN:
            yield path, sys.stdin.buffer
        elif _is_folder(path):
            yield from _walk(path, say)
        else:
            yield path, path


def _is_folder(path: str) -> bool:
    """Return whether a path is a folder; False if it cannot even be looked up."""
    try:
        return stat.S_ISDIR(Path(path).stat().st_mode)
    except (OSError, ValueError):
        return False


def _walk(folder: str, say: Callable[[str], None]) -> Iterator[NamedSource]:
    """Yield the files in a folder, and an error if it has none or cannot be read."""
    problems: list[OSError] = []
    empty = True
    for parent, folders, names in os.walk(folder, onerror=problems.append):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for name in sorted(names):
            if Path(name).suffix.lower() in SUFFIXES and not name.startswith("."):
                path = str(Path(parent, name))
                if _is_special(path):
                    say(f"{path}: skipped; it is a pipe, socket or device")
                    continue
                empty = False
                yield path, path
    for problem in problems:
        path = str(problem.filename)
        yield path, PosformerError(f"{path}: {problem.strerror}")
    if empty and not problems:
        yield folder, PosformerError(f"{folder}: there are no images and no ink in this folder")


def _is_special(path: str) -> bool:
    """Return whether a path is neither a file nor missing; opening it might block forever."""
    try:
        return not stat.S_ISREG(Path(path).stat().st_mode)
    except OSError:
        return False  # reading it reports the error
