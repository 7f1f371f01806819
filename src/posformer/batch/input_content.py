"""Reads the content of an input, in the process that recognizes it."""

from __future__ import annotations

import io
from functools import lru_cache
from typing import Any

from posformer.batch.inputs import Input, open_file
from posformer.errors import ImageError
from posformer.urls import file_system, is_url

__all__ = ["open_input", "prepare_readers"]


def prepare_readers() -> None:
    """Import what reading may need, before the memory of this process is limited."""
    try:
        import fsspec  # noqa: F401
        import pyarrow as pa
        import pyarrow.parquet
    except ImportError:  # then there are no inputs that need them
        return
    # Arrow's other allocators reserve address space, which the budget of a worker limits.
    pa.set_memory_pool(pa.system_memory_pool())


def open_input(one: Input) -> str | io.BytesIO | ImageError:
    """Return a path, the content of an input, or why it cannot be read."""
    if one.error is not None:
        return ImageError(one.error)
    if one.place is None and not is_url(one.location):
        return one.location
    try:
        file = io.BytesIO(_content(one))
    except MemoryError:  # the worker pool reports it with its budget
        raise
    except Exception as error:  # file systems have errors of their own
        reason = getattr(error, "strerror", None) or " ".join(str(error).split())
        return ImageError(f"cannot be read ({reason[:200] or type(error).__name__})")
    file.name = one.key
    return file


def _content(one: Input) -> bytes:
    place = one.place
    if place is None:
        system, path = file_system(one.location)
        content: bytes = system.cat_file(path)
        return content
    if len(place) == 3:
        group, row, column = place
        value = _row_group(one.location, group, column)[row].as_py()
        value = value["bytes"] if isinstance(value, dict) else value
        if not isinstance(value, bytes):
            raise ValueError("the row has no bytes")
        return value
    start, size = place
    if is_url(one.location):
        system, path = file_system(one.location)
        content = system.cat_file(path, start, start + size)
    else:
        with open_file(one.location) as stream:
            stream.seek(start)
            content = stream.read(size)
    if len(content) < size:
        raise ValueError("the archive is truncated")
    return content


@lru_cache(maxsize=1)  # the rows of a group are read one after the other
def _row_group(location: str, group: int, column: str) -> Any:
    import pyarrow.parquet as pq

    with open_file(location) as stream, pq.ParquetFile(stream) as file:
        return file.read_row_group(group, [column])[column]
