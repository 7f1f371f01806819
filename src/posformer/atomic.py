"""Files and folders that appear under their name only when they are complete."""

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path


def atomic_write(path: str | os.PathLike[str], text: str) -> None:
    """Write a text file, creating parent folders; an existing file is replaced in one step."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    with (
        atomic_path(path) as part,
        # File names, which are written as well, need not be valid text.
        part.open("w", encoding="utf-8", errors="surrogateescape", newline="") as file,
    ):
        file.write(text)


@contextmanager
def atomic_path(path: Path, *, sync: bool = False) -> Iterator[Path]:
    """Yield a temporary file that replaces `path` on success; on failure `path` is unchanged.

    Args:
        path: The final name.
        sync: See `move_file`.
    """
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".part")
    os.close(descriptor)
    part = Path(name)
    try:
        yield part
        part.chmod(0o666 & ~_umask())  # temporary files are private to their owner
        move_file(part, path, sync=sync)
    finally:
        part.unlink(missing_ok=True)


def move_file(part: Path, path: Path, *, sync: bool = True) -> None:
    """Rename a closed file of the same folder; an existing file is replaced in one step.

    Args:
        part: The file.
        path: Its new name.
        sync: Write the content to disk first, so that a power failure cannot lose it.
    """
    if sync:
        _sync(part, os.O_RDWR)
    part.replace(path)
    if sync:
        with suppress(OSError):  # Windows and some file systems cannot sync folders
            _sync(path.parent, os.O_RDONLY)


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
            _exchange_folder(part, path)
        else:
            try:
                part.rename(path)
            except OSError:
                if replace or not path.is_dir():
                    raise
    finally:
        shutil.rmtree(part, ignore_errors=True)


def _exchange_folder(part: Path, path: Path) -> None:
    """Put a folder in the place of another, which is deleted only after that."""
    with tempfile.TemporaryDirectory(dir=path.parent, prefix=f".{path.name}-old-") as place:
        old = Path(place) / path.name
        path.rename(old)
        try:
            part.rename(path)
        except BaseException:
            old.rename(path)
            raise


def _sync(path: Path, flags: int) -> None:
    descriptor = os.open(path, flags)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
