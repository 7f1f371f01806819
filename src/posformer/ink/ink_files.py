"""Opening files of ink: size, gzip and XML with limits, so that no file exhausts the memory."""

from __future__ import annotations

import gzip
import io
import json
import os
import zlib
from pathlib import Path
from typing import Any, BinaryIO
from xml.etree import ElementTree as Xml

import defusedxml.ElementTree as SafeXml
import numpy as np
from defusedxml.common import DefusedXmlException

from posformer.errors import InkError

InkSource = str | os.PathLike[str] | bytes | BinaryIO

MAX_BYTES = 16 * 2**20  # of a file
MAX_UNPACKED_BYTES = 64 * 2**20  # of a file that is compressed
MAX_DEPTH = 400
MAX_ELEMENTS = 500_000
MAX_COORDINATE = 1e9
_GZIP = b"\x1f\x8b"


def load_ink_file(
    source: InkSource, name: str | None = None, max_bytes: int = MAX_BYTES
) -> tuple[bytes, str]:
    """Return the content of a file, unpacked if it is compressed, and its name for error messages.

    Raises:
        InkError: If the file cannot be read or is too long.
    """
    if isinstance(source, bytes):
        data, location = source, name or "ink"
    elif isinstance(source, str | os.PathLike):
        location = os.fspath(source)
        try:
            with Path(source).open("rb") as stream:
                data = stream.read(max_bytes + 1)
        except OSError as error:
            raise InkError(f"{location}: {error.strerror or error}") from error
    else:
        location = name or str(getattr(source, "name", "ink"))
        data = source.read(max_bytes + 1)
    if len(data) > max_bytes:
        raise InkError(f"{location}: longer than {max_bytes} bytes")
    return (_unpack(data, location) if data.startswith(_GZIP) else data), location


def _unpack(data: bytes, location: str) -> bytes:
    try:
        unpacked = gzip.GzipFile(fileobj=io.BytesIO(data)).read(MAX_UNPACKED_BYTES + 1)
    except (OSError, EOFError, zlib.error) as error:
        raise InkError(f"{location}: damaged gzip file: {error}") from error
    if len(unpacked) > MAX_UNPACKED_BYTES:
        raise InkError(f"{location}: longer than {MAX_UNPACKED_BYTES} bytes when unpacked")
    return unpacked


def parse_xml(data: bytes, location: str) -> Xml.Element:
    """Parse XML; document types, deep nesting and a great many elements are refused.

    Raises:
        InkError: If the content is not XML, or exceeds a limit.
    """
    root: Xml.Element | None = None
    depth = count = 0
    try:
        events = SafeXml.iterparse(io.BytesIO(data), ("start", "end"), forbid_dtd=True)
        for event, element in events:
            root = element if root is None else root
            depth += 1 if event == "start" else -1
            count += event == "start"
            if depth > MAX_DEPTH:
                raise InkError(f"{location}: <{tag_of(element)}> is nested too deeply")
            if count > MAX_ELEMENTS:
                raise InkError(f"{location}: more than {MAX_ELEMENTS} elements")
    except DefusedXmlException as error:
        raise InkError(f"{location}: document types and entities are refused") from error
    except (Xml.ParseError, ValueError, LookupError) as error:
        raise InkError(f"{location}: not XML: {error}") from error
    if root is None:
        raise InkError(f"{location}: not XML: the file is empty")
    return root


def parse_json(data: bytes, location: str) -> Any:
    """Parse JSON.

    Raises:
        InkError: If the content is not JSON, or nested too deeply.
    """
    try:
        return json.loads(data)
    except RecursionError as error:
        raise InkError(f"{location}: the JSON is nested too deeply") from error
    except ValueError as error:
        raise InkError(f"{location}: not JSON: {error}") from error


def tag_of(element: Xml.Element) -> str:
    """Return the name of an element without its namespace."""
    return str(element.tag).rpartition("}")[2]


def check_points(points: np.ndarray, where: str) -> np.ndarray:
    """Return points, float64 (points, 2), if all coordinates are in range.

    Raises:
        InkError: If a coordinate is not finite or too large.
    """
    if not (np.abs(points) <= MAX_COORDINATE).all():
        raise InkError(f"{where}: a coordinate is not finite or too large")
    return points
