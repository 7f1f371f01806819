"""Files and folders that appear under their name only when they are complete."""

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO


def atomic_write(path: str | os.PathLike[str], text: str) -> None:
    """Write a text file, creating parent folders; an existing file is replaced in one step."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    with atomic_file(path) as stream:
        stream.write(text)


@contextmanager
def atomic_file(path: Path, *, keep_interrupted: bool = False) -> Iterator[TextIO]:
    """Open a text file for writing; see `atomic_path`."""
    # File names, which are written as well, need not be valid text.
    with (
        atomic_path(path, keep_interrupted=keep_interrupted) as part,
        part.open("w", encoding="utf-8", errors="surrogateescape", newline="") as file,
    ):
        yield file


@contextmanager
def atomic_path(path: Path, *, keep_interrupted: bool = False) -> Iterator[Path]:
    """Yield a temporary file that replaces `path` on success; on failure `path` is unchanged.

    Args:
        path: The final name.
        keep_interrupted: Also replace `path` when the user interrupts.
    """
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".part")
    os.close(descriptor)
    part = Path(name)
    try:
        yield part
    except KeyboardInterrupt:
        if keep_interrupted:
            _move_file(part, path)
        raise
    else:
        _move_file(part, path)
    finally:
        part.unlink(missing_ok=True)


@contextmanager
def atomic_folder(path: Path, *, replace: bool = True) -> Iterator[Path]:
    """Yield a temporary folder that becomes `path` on success; on failure `path` is unchanged.

    Args:
        path: The final name; parent folders are created.
        replace: Replace an existing folder. If False, one that another process has created
            meanwhile is kept.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    part = Path(tempfile.mkdtemp(dir=path.parent, prefix=f".{path.name}-"))
    try:
        yield part
        part.chmod(0o777 & ~_umask())  # temporary folders are private to their owner
        if replace and path.exists():
            shutil.rmtree(path)
        try:
            part.rename(path)
        except OSError:
            if replace or not path.is_dir():
                raise
    finally:
        shutil.rmtree(part, ignore_errors=True)


def _move_file(part: Path, path: Path) -> None:
    part.chmod(0o666 & ~_umask())  # temporary files are private to their owner
    part.replace(path)


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
