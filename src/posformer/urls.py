"""Files by URL, through fsspec: `s3://`, `gs://`, `https://` and others."""

from typing import Any

from posformer.errors import DataError


def is_url(path: str) -> bool:
    """Return whether a path is a URL."""
    return "://" in path


def file_system(url: str) -> tuple[Any, str]:
    """Return the fsspec file system of a URL, and the path in it.

    Raises:
        DataError: If the library for this kind of URL is not installed.
    """
    from fsspec.core import url_to_fs

    try:
        system, path = url_to_fs(url)
    except (ImportError, ValueError) as error:  # an unknown protocol is a ValueError
        raise DataError(f"{url}: {error}") from error
    return system, path
