"""The inputs of a large job, found one by one: memory does not grow with their number."""

from __future__ import annotations

import glob
import os
import tarfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, NamedTuple
from urllib.parse import unquote, urlsplit

from posformer.batch.files import SUFFIXES
from posformer.errors import DataError
from posformer.urls import file_system, is_url

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["Input", "absolute", "iter_inputs", "open_file"]

_LISTS, _TAR, _PARQUET = (".txt", ".list"), ".tar", ".parquet"
_COMPRESSED = (".tar.gz", ".tgz", ".tar.bz2", ".tar.xz", ".tar.zst")
_FOUND = (*SUFFIXES, _TAR, _PARQUET)  # the files that are read in a folder
_MEMBERS = 1000  # of a tar file, after which the list that `tarfile` keeps is cleared


class Input(NamedTuple):
    """Where an image is; small, so that jobs can be sent to other machines."""

    key: str  # names the input in the results
    location: str  # absolute path or URL of the file
    # Bytes (start, size) of a tar file, or row group, row in it and column of a Parquet file.
    place: tuple[int, int] | tuple[int, int, str] | None = None
    error: str | None = None  # why it cannot be read, if that is known already


def iter_inputs(sources: Sequence[str], key_column: str | None = None) -> Iterator[Input]:
    """Yield the inputs of a job, always in the same order.

    Args:
        sources: Each a file, a folder, a glob pattern (`**` stands for any folders), a list file
            (`.txt`, `.list`: a path or URL per line), a tar file of images (WebDataset), a Parquet
            file with a column of images, or a URL of one of these.
        key_column: Column of Parquet files that names the images; their number if None.

    Raises:
        DataError: If a source does not exist or cannot be read.
    """
    for source in sources:
        for key in _names(source):
            yield from _inputs_of(key, key_column)


def absolute(path: str) -> str:
    """Return a path that is valid in every folder; `file://` becomes a path, others stay URLs."""
    if path.startswith("file://"):
        return unquote(urlsplit(path).path)
    return path if is_url(path) else str(Path(path).absolute())


def open_file(path: str) -> IO[bytes]:
    """Open an absolute path or a URL for reading; it can be searched."""
    if not is_url(path):
        return Path(path).open("rb")
    system, inside = file_system(path)
    stream: IO[bytes] = system.open(inside, "rb")
    return stream


def _names(source: str) -> Iterator[str]:
    """Yield the files of a source."""
    path = absolute(source)
    local = path if is_url(source) else source  # relative names stay relative
    try:
        if path.lower().endswith(_LISTS):
            yield from _lines(path)
        elif is_url(path):
            yield from _remote_names(path)
        elif Path(path).is_dir():
            yield from _walk(local)
        elif glob.has_magic(local) and not Path(path).exists():
            found = glob.iglob(local, recursive=True)  # noqa: PTH207 - any path
            yield from sorted(one for one in found if Path(one).is_file())
        elif Path(path).exists():
            yield local
        else:
            raise DataError(f"{source}: no such file or folder")
    except DataError:
        raise
    except (OSError, UnicodeError) as error:
        raise DataError(f"{source}: {getattr(error, 'strerror', None) or error}") from error


def _lines(path: str) -> Iterator[str]:
    with open_file(path) as file:
        for line in file:
            name = line.rstrip(b"\r\n").decode("utf-8", "surrogateescape")
            if name:
                yield name


def _walk(folder: str) -> Iterator[str]:
    def fail(error: OSError) -> None:
        raise error

    for parent, folders, names in os.walk(folder, onerror=fail):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for name in sorted(names):
            if name.lower().endswith(_FOUND) and not name.startswith("."):
                yield str(Path(parent, name))


def _remote_names(url: str) -> Iterator[str]:
    """Yield the files at a URL; object stores list what begins with it, in sorted order."""
    system, path = file_system(url)
    if glob.has_magic(path):
        found = system.glob(path)
    elif url.endswith("/") or system.isdir(path):
        found = [one for one in system.find(path) if one.lower().endswith(_FOUND)]
    elif system.exists(path):
        found = [path]
    else:
        raise DataError(f"{url}: no such file or folder")
    for one in sorted(found):
        yield system.unstrip_protocol(one)


def _inputs_of(key: str, key_column: str | None) -> Iterator[Input]:
    """Yield the images in a file; a damaged archive is an input with an error."""
    location, name = absolute(key), key.lower()
    try:
        if name.endswith(_TAR):
            yield from _members(key, location)
        elif name.endswith(_PARQUET):
            yield from _rows(key, location, key_column)
        elif name.endswith(_COMPRESSED):
            raise DataError("a compressed tar file cannot be read in parts; decompress it")
        else:
            yield Input(key, location)
    except (tarfile.TarError, DataError, OSError, ValueError) as error:  # Arrow's are ValueErrors
        yield Input(key, location, error=" ".join(str(error).split()))


def _members(key: str, location: str) -> Iterator[Input]:
    with open_file(location) as file, tarfile.open(fileobj=file, mode="r:") as archive:
        while (member := archive.next()) is not None:
            if member.isreg() and member.name.lower().endswith(tuple(SUFFIXES)):
                yield Input(f"{key}#{member.name}", location, (member.offset_data, member.size))
            seen: list[tarfile.TarInfo] = archive.members  # type: ignore[attr-defined]
            if len(seen) >= _MEMBERS:
                seen.clear()


def _rows(key: str, location: str, key_column: str | None) -> Iterator[Input]:
    import pyarrow.parquet as pq

    with open_file(location) as stream, pq.ParquetFile(stream) as file:
        column, number = _image_column(file.schema_arrow), 0
        if key_column is not None and key_column not in file.schema_arrow.names:
            raise DataError(f"there is no column {key_column!r}")
        for group in range(file.metadata.num_row_groups):
            count = file.metadata.row_group(group).num_rows
            names: Sequence[Any] = range(number, number + count)
            if key_column is not None:
                names = file.read_row_group(group, [key_column])[key_column].to_pylist()
            for row, name in enumerate(names):
                named = str(name) if key_column is not None else f"{key}#{name}"
                yield Input(named, location, (group, row, column))
            number += count


def _image_column(schema: pa.Schema) -> str:
    """Return the first column of bytes, or of structures with `bytes` as in Hugging Face's."""
    import pyarrow as pa

    for field in schema:
        kind = field.type
        if pa.types.is_struct(kind) and kind.get_field_index("bytes") >= 0:
            return str(field.name)
        if pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
            return str(field.name)
    raise DataError("there is no column of bytes")
