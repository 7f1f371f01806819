"""Reading the files of a dataset from a folder or a zip archive through one interface."""

import os
import zipfile
import zlib
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from posformer.errors import DataError

# Raised by zipfile for members that are damaged, encrypted or use an unknown compression.
_ZIP_ERRORS = (zipfile.BadZipFile, zlib.error, EOFError, RuntimeError, NotImplementedError)


@dataclass(frozen=True)
class FolderFiles:
    """The files below a folder."""

    path: Path

    def names(self) -> list[str]:
        """Return all files as paths relative to the folder, with `/`, sorted."""
        found = []
        for folder, _, files in os.walk(self.path, followlinks=True):
            below = Path(folder).relative_to(self.path).as_posix()
            found += [file if below == "." else f"{below}/{file}" for file in files]
        return sorted(found)

    def read(self, name: str, limit: int = -1) -> bytes:
        """Return the content of a file, or its first `limit` bytes if that is not negative."""
        with (self.path / name).open("rb") as stream:
            return stream.read(limit)


@dataclass(frozen=True)
class ZipFiles:
    """The files in a zip archive.

    The object holds only a path, so pickling and forking are cheap. Every process opens the
    archive itself when it first reads, because a shared file handle has a shared position.
    """

    path: Path

    def names(self) -> list[str]:
        """Return all files as paths inside the archive, with `/`, sorted."""
        return sorted(self._open()[1])

    def read(self, name: str, limit: int = -1) -> bytes:
        """Return the content of a file, or its first `limit` bytes if that is not negative."""
        archive, members = self._open()
        try:
            with archive.open(members[name]) as stream:
                return stream.read(limit)
        except _ZIP_ERRORS as error:
            raise DataError(f"{self.path}: cannot read {name}: {error}") from error

    def _open(self) -> tuple[zipfile.ZipFile, dict[str, str]]:
        return _open_archive(self.path, self.path.stat().st_mtime_ns, os.getpid())


Files = FolderFiles | ZipFiles


def open_files(path: str | os.PathLike[str] | Files) -> Files:
    """Open a folder or a zip archive for reading; opened files are returned as they are.

    Raises:
        DataError: If `path` does not exist or is neither a folder nor a zip archive.
    """
    if isinstance(path, Files):
        return path
    path = Path(path)
    if path.is_dir():
        return FolderFiles(path)
    if not path.exists():
        raise DataError(f"{path}: no such file or folder")
    if not zipfile.is_zipfile(path):
        raise DataError(f"{path}: neither a folder nor a zip archive")
    return ZipFiles(path)


@lru_cache(maxsize=8)
def _open_archive(
    path: Path, modified: int, process: int
) -> tuple[zipfile.ZipFile, dict[str, str]]:
    """Return the archive and its names by names with `/`: some programs write backslashes."""
    try:
        archive = zipfile.ZipFile(path)
    except zipfile.BadZipFile as error:
        raise DataError(f"{path}: broken zip archive: {error}") from error
    names = [info.filename for info in archive.infolist() if not info.is_dir()]
    return archive, {name.replace("\\", "/"): name for name in names}
