"""The formats of ink. To add one, write a reader and add a line to `INK_FORMATS`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any

import numpy as np

from posformer.errors import InkError
from posformer.ink.excalidraw import read_excalidraw
from posformer.ink.ink_files import (
    MAX_BYTES,
    InkSource,
    load_ink_file,
    parse_json,
    parse_xml,
    tag_of,
)
from posformer.ink.inkml import inkml_pages
from posformer.ink.svg import read_svg
from posformer.ink.xournalpp import read_xournalpp

JSON = "{}"


@dataclass(frozen=True)
class InkFormat:
    """How a format is recognized and read."""

    root: str  # name of the root element of the XML; `JSON` for an object in JSON
    suffixes: tuple[str, ...]
    read: Callable[[Any, str], list[list[np.ndarray]]]  # parsed file, its name -> strokes by page


INK_FORMATS = (
    InkFormat("ink", (".inkml",), inkml_pages),
    InkFormat("xournal", (".xopp", ".xoj"), read_xournalpp),
    InkFormat("svg", (".svg", ".svgz"), read_svg),
    InkFormat(JSON, (".excalidraw",), read_excalidraw),
)
INK_SUFFIXES = frozenset(suffix for one in INK_FORMATS for suffix in one.suffixes)
_READERS = {one.root: one.read for one in INK_FORMATS}


@dataclass(frozen=True)
class InkDocument:
    """The ink of a document."""

    name: str
    pages: tuple[tuple[np.ndarray, ...], ...]  # strokes, float64 (points, 2), y down, any unit

    @property
    def strokes(self) -> Sequence[np.ndarray]:
        """All strokes of all pages."""
        return [stroke for page in self.pages for stroke in page]


def is_ink(head: bytes, name: str = "") -> bool:
    """Return whether a file holds ink and not an image.

    Args:
        head: The first bytes of the file, 64 or more.
        name: Its name, if known.
    """
    if PurePath(name).suffix.lower() in INK_SUFFIXES:
        return True
    return head.lstrip(b"\xef\xbb\xbf \t\r\n").startswith((b"<", b"{", b"\x1f\x8b"))


def read_ink(source: InkSource, name: str | None = None, max_bytes: int = MAX_BYTES) -> InkDocument:
    """Read InkML, Xournal++, SVG or Excalidraw.

    Args:
        source: A path, the content of a file, or an open binary file.
        name: Name for error messages, if there is no path.
        max_bytes: Maximum length of the file.

    Raises:
        InkError: If the file cannot be read, is hostile, or has no ink; the message names the
            file.
    """
    data, location = load_ink_file(source, name, max_bytes)
    if data.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"{"):
        kind, content = JSON, parse_json(data, location)
    else:
        content = parse_xml(data, location)
        kind = tag_of(content)
    if kind not in _READERS:
        raise InkError(f"{location}: <{kind}> is none of InkML, Xournal++ and SVG")
    pages = tuple(tuple(page) for page in _READERS[kind](content, location))
    if not any(pages):
        raise InkError(f"{location}: there is no ink")
    return InkDocument(location, pages)
