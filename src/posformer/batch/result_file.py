"""Writes the results of `posformer recognize`; an interrupted run can be continued."""

from __future__ import annotations

import csv
import io
import json
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO, cast

from posformer.atomic import atomic_write, move_file
from posformer.errors import LatexError, PosformerError
from posformer.latex import convert
from posformer.text_output import json_text, one_line

if TYPE_CHECKING:
    from posformer.recognizer import Recognition

_FIELDS = ("latex", "confidence")


class ResultWriter:
    """Writes results one by one and flushes after each.

    Args:
        stream: Text stream to write to.
        format: `json`: one object per line; `csv`: a table with a header; a format of
            `posformer.latex.FORMATS`, or `text` for LaTeX: one line per result, preceded by the
            path and a tab if there are several paths.
        several: Whether there may be more than one path.
        top_k: Maximum number of hypotheses per result.
        continued: Whether the stream already has a header.
    """

    def __init__(
        self, stream: TextIO, format: str, several: bool, top_k: int, continued: bool = False
    ) -> None:
        self._stream, self._format, self._several = stream, format, several
        self._columns = csv_columns(top_k)
        self._csv = csv.writer(stream, lineterminator="\n")
        if format == "csv" and not continued:
            self._csv.writerow(self._columns)

    def write(self, path: str, result: Recognition | PosformerError) -> None:
        """Write a result, formula by formula if it is a document of ink, or an error.

        Raises:
            LatexError: If the format cannot express the result; what it can express is written.
        """
        parts = [result] if isinstance(result, PosformerError) else result.formulas
        problems = []
        for part in parts:
            try:
                self._write(path, part)
            except LatexError as error:
                problems.append(error)
        self._stream.flush()
        if problems:
            raise problems[0]

    def _write(self, path: str, result: Recognition | PosformerError) -> None:
        if self._format == "json":
            print(json_text({"path": path, **_record(result)}), file=self._stream)
        elif self._format == "csv":
            self._csv.writerow(_cells(path, result, len(self._columns)))
        elif not isinstance(result, PosformerError) and not result.error:
            label = f"{one_line(path)}\t" if self._several else ""
            name = "latex" if self._format == "text" else self._format
            for reading in result.readings:
                print(f"{label}{convert(reading.tokens, name)}", file=self._stream)


def csv_columns(top_k: int) -> list[str]:
    """Return the header of a table with at most this number of hypotheses per result."""
    further = [f"{name}_{rank}" for rank in range(2, top_k + 1) for name in _FIELDS]
    return ["path", *_FIELDS, "error", *further]


def _record(result: Recognition | PosformerError) -> dict[str, Any]:
    """Return the JSON object of a result; readings of what is not readable are alternatives."""
    if isinstance(result, PosformerError):
        return {"error": str(result)}
    return result.to_failure() if result.error else result.to_dict()


def _cells(path: str, result: Recognition | PosformerError, columns: int) -> list[str]:
    if isinstance(result, PosformerError) or result.error:
        reason = str(result if isinstance(result, PosformerError) else result.error)
        cells = [path, "", "", reason]
    else:
        best, *others = ((one.latex, f"{one.confidence:.4f}") for one in result.readings)
        cells = [path, *best, "", *(cell for other in others for cell in other)]
    return cells + [""] * (columns - len(cells))


@dataclass
class Finished:
    """The results that an interrupted run has left behind."""

    labels: Counter[str] = field(default_factory=Counter)  # paths, escaped in the text format
    failed: int = 0  # inputs that could not be read
    rows: list[str] = field(default_factory=list)  # as they were written, without incomplete ones

    def skip(self, path: str) -> bool:
        """Return whether a path has a result, which then counts for the next one of this name."""
        for label in {path, one_line(path)}:
            if self.labels[label]:
                self.labels[label] -= 1
                return True
        return False


def partial_file(path: Path) -> Path:
    """Return the file that holds the results until they are complete."""
    return path.with_name(f"{path.name}.part")


def read_finished(path: Path, format: str, several: bool, top_k: int) -> Finished:
    """Read the partial file of an interrupted run.

    Args:
        path: The file of the complete results.
        format: str of the results.
        several: Whether there may be more than one path.
        top_k: Maximum number of hypotheses per result.

    Raises:
        PosformerError: If the file holds anything but results in this format.
    """
    part = partial_file(path)
    try:
        text = part.read_bytes().decode("utf-8", "surrogateescape")
    except FileNotFoundError:
        return Finished()
    text = text[: text.rfind("\n") + 1]  # a crash may have cut off the last line
    try:
        if format == "json":
            return _finished_json(text)
        if format == "csv":
            return _finished_csv(text, csv_columns(top_k))
        return _finished_text(text, top_k) if several else Finished()
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise PosformerError(
            f"{part}: not the results of an interrupted run with these options; delete it to "
            "start over"
        ) from error


def _finished_json(text: str) -> Finished:
    rows = _lines(text)
    found = [json.loads(row) for row in rows]
    labels = Counter(str(row["path"]) for row in found)
    return Finished(labels, sum("error" in row for row in found), rows)


def _finished_csv(text: str, columns: Sequence[str]) -> Finished:
    rows = list(csv.reader(io.StringIO(text, newline="")))
    if rows and len(rows[-1]) != len(columns):
        rows.pop()  # was cut off within a path of several lines
    if (rows and rows[0] != columns) or any(len(row) != len(columns) for row in rows):
        raise ValueError
    if not rows:
        return Finished()
    kept = io.StringIO(newline="")
    csv.writer(kept, lineterminator="\n").writerows(rows)
    error, results = columns.index("error"), rows[1:]
    labels = Counter(row[0] for row in results)
    return Finished(labels, sum(bool(row[error]) for row in results), [kept.getvalue()])


def _finished_text(text: str, top_k: int) -> Finished:
    groups = [
        (label, list(rows))
        for label, rows in groupby(_lines(text), lambda row: row[: row.index("\t")])
    ]
    if top_k > 1:
        groups = groups[:-1]  # the last path may have more hypotheses than were written
    labels: Counter[str] = Counter()
    for label, rows in groups:
        labels[label] += -(-len(rows) // top_k)
    return Finished(labels, 0, [row for _, rows in groups for row in rows])


def _lines(text: str) -> list[str]:
    # Not splitlines(), which also breaks at characters that may be part of a path.
    return [f"{line}\n" for line in text.split("\n")[:-1]]


@contextmanager
def open_output(
    path: Path | None, format: str = "text", finished: Finished | None = None
) -> Iterator[TextIO]:
    """Open stdout, or a partial file that gets its name when it is complete.

    After an interrupt or a failure the partial file keeps what has been written, and an earlier
    file of that name is unchanged.

    Args:
        path: The file to write; stdout if None.
        format: str of the results; JSON is always UTF-8.
        finished: Results of an interrupted run to continue.

    Raises:
        PosformerError: If the file cannot be written, or there is a partial file already and
            nothing says to continue it.
    """
    if path is None:
        yield _stdout(format)
        return
    part = path
    try:
        if path.exists() and not path.is_file():  # a device or a pipe cannot be replaced
            stream = _open(path, "w")
        else:
            part = partial_file(path)
            if finished is not None:
                atomic_write(part, "".join(finished.rows))
            stream = _open(part, "x" if finished is None else "a")
    except FileExistsError:
        raise PosformerError(
            f"{part}: results of an interrupted run; continue it with --resume, or delete this file"
        ) from None
    except OSError as error:
        raise PosformerError(f"{part}: {error.strerror or error}") from error
    try:
        yield stream
        stream.close()
        if part != path:
            move_file(part, path)
    except OSError as error:  # such as a full disk
        raise PosformerError(f"{part}: {error.strerror or error}") from error
    finally:
        with suppress(OSError):
            stream.close()
        if part != path and part.exists() and not part.stat().st_size:
            part.unlink()


def _open(path: Path, mode: str) -> TextIO:
    # File names, which are written as well, need not be valid text.
    return cast(TextIO, path.open(mode, encoding="utf-8", errors="surrogateescape", newline=""))


def _stdout(format: str) -> TextIO:
    if sys.stdout is None:
        raise PosformerError("stdout is closed; set --output")
    if isinstance(sys.stdout, io.TextIOWrapper):
        encoding = "utf-8" if format == "json" else sys.stdout.encoding
        sys.stdout.reconfigure(encoding=encoding, errors="surrogateescape")
    return sys.stdout
