"""Caching what was parsed from a dataset as plain NumPy arrays."""

import hashlib
import json
import logging
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from posformer.atomic import atomic_path

DEFAULT_CACHE = Path("runs") / "cache"
"""Default cache folder, relative to the working directory."""

_log = logging.getLogger(__name__)


class ArrayCache:
    """An `.npz` file whose name depends on everything that its content was made from."""

    def __init__(self, folder: Path, name: str, key: object) -> None:
        """Name the file.

        Args:
            folder: Where to store it.
            name: Beginning of the file name.
            key: JSON-serializable description of the sources; a change invalidates the cache.
        """
        digest = hashlib.sha256(json.dumps(key).encode()).hexdigest()[:16]
        self.file = folder / f"{name}-{digest}.npz"

    def load(self) -> dict[str, np.ndarray] | None:
        """Return the arrays, or None if there is no intact file."""
        if not self.file.is_file():
            return None
        try:
            with np.load(self.file, allow_pickle=False) as arrays:
                return {name: arrays[name] for name in arrays.files}
        except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile) as error:
            _log.warning("%s: ignoring a damaged cache: %s", self.file, error)
            return None

    def save(self, arrays: Mapping[str, Any]) -> None:
        """Write the arrays; if the folder is not writable, only log a warning."""
        try:
            self.file.parent.mkdir(parents=True, exist_ok=True)
            # Another process may read the cache now: it must see a complete file or none.
            with atomic_path(self.file) as part, part.open("wb") as stream:
                np.savez(stream, **arrays)
        except OSError as error:
            _log.warning("%s: cannot write the cache: %s", self.file, error)


def file_state(paths: Sequence[Path]) -> list[list[object]]:
    """Return name, size and modification time of files, as a part of a cache key."""
    states = [(path, path.stat()) for path in paths]
    return [[path.name, state.st_size, state.st_mtime_ns] for path, state in states]
