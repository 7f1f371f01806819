"""Part files: the results of a fixed number of inputs each, complete or not there at all.

The number of a part determines its inputs: whoever writes it, and however often, its rows are about
the same inputs. So a job that is killed loses the parts at hand only, and no input has two rows.
"""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Literal, Protocol

from posformer.atomic import atomic_path
from posformer.batch.inputs import absolute
from posformer.errors import DataError, PosformerError
from posformer.text_output import json_text
from posformer.urls import file_system, is_url

__all__ = ["Destination", "PartFormat", "Row", "decode_rows", "encode_rows", "open_destination"]

PartFormat = Literal["jsonl", "parquet"]

Row = dict[str, Any]
"""A result: `path`, `latex`, `confidence`, `alternatives` (each with `latex` and `confidence`),
`error`, `error_kind`, `model` and `milliseconds`; None where there is no value."""

_LOCK = ".lock"


def encode_rows(rows: Sequence[Row], format: PartFormat) -> bytes:
    """Return the content of a part file."""
    if format == "jsonl":
        return "".join(json_text(row) + "\n" for row in rows).encode()
    import pyarrow as pa
    import pyarrow.parquet as pq

    file = io.BytesIO()
    text = [{**row, "path": _as_text(row["path"])} for row in rows]
    pq.write_table(pa.Table.from_pylist(text, _schema()), file, compression="zstd")
    return file.getvalue()


def decode_rows(content: bytes, format: PartFormat) -> list[tuple[str, str | None]]:
    """Return the path and the kind of error of each row of a part file.

    Raises:
        ValueError: If the file is damaged.
    """
    if format == "jsonl":
        rows = [json.loads(line) for line in content.decode().split("\n")[:-1]]
        try:
            return [(_as_text(row["path"]), row["error_kind"]) for row in rows]
        except (KeyError, TypeError) as error:
            raise ValueError("not the rows of a job") from error
    import pyarrow.parquet as pq

    try:
        table = pq.read_table(io.BytesIO(content), columns=["path", "error_kind"])
    except OSError as error:  # as Arrow calls some damages
        raise ValueError(str(error)) from error
    columns = (table[name].to_pylist() for name in ("path", "error_kind"))
    return list(zip(*columns, strict=True))


def same_path(stored: str, path: str) -> bool:
    """Return whether the path of a row, as `decode_rows` returns it, is that of an input."""
    return stored == _as_text(path)


def _as_text(path: str) -> str:
    """Escape what is not valid text in the name of a file."""
    return path.encode("utf-8", "backslashreplace").decode()


def _schema() -> Any:
    import pyarrow as pa

    reading = pa.struct([("latex", pa.string()), ("confidence", pa.float64())])
    names = ("error", "error_kind", "model")
    return pa.schema(
        [
            ("path", pa.string()),
            ("latex", pa.string()),
            ("confidence", pa.float64()),
            ("alternatives", pa.list_(reading)),
            *((name, pa.string()) for name in names),
            ("milliseconds", pa.float64()),
        ]
    )


class Destination(Protocol):
    """A folder of part files, here or in an object store."""

    def names(self) -> list[str]:
        """Return the names of the files, temporary ones excluded."""

    def read(self, name: str) -> bytes | None:
        """Return the content of a file; None if there is none."""

    def write(self, name: str, content: bytes) -> None:
        """Write a file; it appears under its name only when it is complete."""


def open_destination(path: str) -> Destination:
    """Return the folder at a path or a URL."""
    location = absolute(path)
    return RemoteFolder(location.rstrip("/")) if is_url(location) else LocalFolder(Path(location))


@dataclass(frozen=True)
class LocalFolder:
    """A folder of a local or shared file system."""

    path: Path

    def names(self) -> list[str]:
        """Return the names of the files, temporary ones excluded."""
        if not self.path.exists():
            return []
        return sorted(one.name for one in self.path.iterdir() if not one.name.startswith("."))

    def read(self, name: str) -> bytes | None:
        """Return the content of a file; None if there is none."""
        try:
            return (self.path / name).read_bytes()
        except FileNotFoundError:
            return None

    def write(self, name: str, content: bytes) -> None:
        """Write a file, to disk before it gets its name."""
        with atomic_path(self.path / name, sync=True) as part:
            part.write_bytes(content)

    def clear_temporary(self) -> None:
        """Delete what a killed run was writing; call it with the lock."""
        for part in self.path.glob(".*.part"):
            part.unlink(missing_ok=True)


@dataclass(frozen=True)
class RemoteFolder:
    """A folder of an object store, whose files appear when their upload is complete."""

    url: str

    def names(self) -> list[str]:
        """Return the names of the files."""
        system, path = file_system(self.url)
        system.invalidate_cache()
        found = system.find(path) if system.exists(path) else []
        return sorted(one.rsplit("/", 1)[-1] for one in found)

    def read(self, name: str) -> bytes | None:
        """Return the content of a file; None if there is none."""
        system, path = file_system(f"{self.url}/{name}")
        try:
            content: bytes = system.cat_file(path)
        except FileNotFoundError:
            return None
        return content

    def write(self, name: str, content: bytes) -> None:
        """Write a file in one request."""
        system, path = file_system(f"{self.url}/{name}")
        system.pipe_file(path, content)


@contextmanager
def locked(destination: Destination) -> Iterator[None]:
    """Keep other runs out of a folder; the system releases the lock of a run that is killed.

    Object stores have no locks. Two runs of the same job would write the same parts there.

    Raises:
        PosformerError: If another run has the lock, or the folder cannot be created.
    """
    if not isinstance(destination, LocalFolder):
        yield
        return
    folder = destination.path
    try:
        folder.mkdir(parents=True, exist_ok=True)
        stream = (folder / _LOCK).open("ab")
    except FileExistsError as error:
        raise PosformerError(f"{folder}: exists and is not a folder") from error
    except OSError as error:
        raise PosformerError(f"{folder}: {error.strerror or error}") from error
    with stream:
        try:
            _lock(stream)
        except OSError as error:
            raise PosformerError(f"{folder}: another run is writing its results there") from error
        destination.clear_temporary()
        yield


def _lock(stream: IO[bytes]) -> None:
    """Lock an open file, or raise an OSError if it is locked."""
    if sys.platform == "win32":
        import msvcrt

        msvcrt.locking(stream.fileno(), msvcrt.LK_NBLCK, 1)
    else:
        import fcntl

        fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)


def check_format(format: PartFormat) -> None:
    """Raise an error now, not after the first part, if a library for the format is missing."""
    if format == "parquet":
        import pyarrow.parquet  # noqa: F401
    elif format != "jsonl":
        raise DataError(f"format must be jsonl or parquet, not {format!r}")
