"""Text files that appear under their name when they are complete, or not at all."""

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

__all__ = ["atomic_file", "atomic_write"]


def atomic_write(path: str | os.PathLike[str], text: str) -> None:
    """Write a text, and the folders to it; a file that is there is replaced in one step."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    with atomic_file(path) as stream:
        stream.write(text)


@contextmanager
def atomic_file(path: Path, *, keep_interrupted: bool = False) -> Iterator[TextIO]:
    """A file that takes its name at the end; after a failure what was there before stays.

    Args:
        path: its name.
        keep_interrupted: whether what is written when the user interrupts counts as complete.
    """
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".part")
    os.close(descriptor)
    part = Path(name)
    try:
        # Names of files, which are written as well, need not be valid text.
        with part.open("w", encoding="utf-8", errors="surrogateescape", newline="") as file:
            yield file
    except KeyboardInterrupt:
        if keep_interrupted:
            _put_in_place(part, path)
        raise
    else:
        _put_in_place(part, path)
    finally:
        part.unlink(missing_ok=True)


def _put_in_place(part: Path, path: Path) -> None:
    part.chmod(0o666 & ~_umask())  # temporary files are made for their owner only
    part.replace(path)


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
