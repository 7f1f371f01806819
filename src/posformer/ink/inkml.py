"""Reading and writing InkML in the dialects of CROHME and MathWriting."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree as Xml

import numpy as np

from posformer.errors import InkError
from posformer.ink.aligned import AlignedInk
from posformer.ink.ink_files import (
    MAX_BYTES,
    InkSource,
    check_points,
    load_ink_file,
    parse_xml,
    tag_of,
)

INKML = "http://www.w3.org/2003/InkML"
MATHML = "http://www.w3.org/1998/Math/MathML"
XML_ID = "{http://www.w3.org/XML/1998/namespace}id"

# MathWriting stores the text as "label", CROHME as "truth". Where there are both labels, the
# normalized one is the better caption.
_TRUTH_TYPES = ("normalizedLabel", "truth", "label")


@dataclass(frozen=True)
class Symbol:
    """A labeled group of strokes."""

    label: str
    strokes: tuple[int, ...]  # indices into `Ink.strokes`
    id: str  # id of its MathML element; "" if unknown


@dataclass(frozen=True)
class MathNode:
    """An element of the MathML truth."""

    tag: str  # without namespace: "mrow", "mi", …
    text: str
    id: str  # "" if there is none
    children: tuple[MathNode, ...]


@dataclass(frozen=True)
class Ink:
    """A handwritten expression and its annotations."""

    name: str
    strokes: tuple[np.ndarray, ...]  # float64 (points, 2), x to the right, y down, any unit
    symbols: tuple[Symbol, ...] = ()
    truth: str | None = None  # LaTeX
    mathml: MathNode | None = None
    writer: str = ""


def read_inkml(
    source: InkSource,
    name: str | None = None,
    *,
    max_bytes: int = MAX_BYTES,
) -> Ink:
    """Read an InkML file.

    Files with entities or document types, and files longer than `max_bytes`, are rejected.

    Args:
        source: A path, the content of a file, or an open binary file.
        name: Name of the ink; by default that of the file without its extension.
        max_bytes: Maximum length of the file.

    Raises:
        InkError: If the file is not valid InkML; the message names file and element.
    """
    data, location = load_ink_file(source, name, max_bytes)
    root = parse_xml(data, location)
    if tag_of(root) != "ink":
        raise InkError(f"{location}: the root element is <{tag_of(root)}>, not <ink>")
    return _Reader(location, root).read(name or Path(location).name.removesuffix(".inkml"))


def inkml_pages(root: Xml.Element, location: str) -> list[list[np.ndarray]]:
    """Return the strokes of parsed InkML as one page; see `read_inkml`."""
    return [[*_Reader(location, root).read(location).strokes]]


def _id(element: Xml.Element) -> str:
    return element.get(XML_ID) or element.get("id") or ""


class _Reader:
    """Reads one InkML tree."""

    def __init__(self, location: str, root: Xml.Element) -> None:
        self.location = location
        self.root = root

    def read(self, name: str) -> Ink:
        columns = self._columns()
        strokes: list[np.ndarray] = []
        stroke_indices: dict[str, int] = {}
        for number, element in enumerate(self._elements("trace")):
            key = _id(element) or str(number)
            if key in stroke_indices:
                raise InkError(f"{self.location}: two <trace> have the id {key!r}")
            points = self._points(element, key, columns)
            if len(points):
                stroke_indices[key] = len(strokes)
                strokes.append(points)
        if not strokes:
            raise InkError(f"{self.location}: no <trace> with points")
        notes = self._annotations()
        truth = next((notes[kind] for kind in _TRUTH_TYPES if notes.get(kind)), None)
        symbols = tuple(self._symbols(stroke_indices))
        return Ink(name, tuple(strokes), symbols, truth, self._mathml(), notes.get("writer", ""))

    def _elements(self, tag: str) -> list[Xml.Element]:
        return [element for element in self.root.iter() if tag_of(element) == tag]

    def _columns(self) -> tuple[int, int]:
        """Return the indices of the X and Y channels."""
        for element in self._elements("traceFormat"):
            channels = [child for child in element if tag_of(child) == "channel"]
            names = [(channel.get("name") or "").upper() for channel in channels]
            if "X" in names and "Y" in names:
                return names.index("X"), names.index("Y")
            if names:
                raise InkError(f"{self.location}: <traceFormat> has no channels X and Y")
        return 0, 1

    def _points(self, element: Xml.Element, key: str, columns: tuple[int, int]) -> np.ndarray:
        """Return the points of a trace, float64 (points, 2)."""
        text = (element.text or "").strip().strip(",")
        if not text:
            return np.empty((0, 2))
        where = f"{self.location}: <trace id={key!r}>"
        per_point = len(text.split(",", 1)[0].split())
        try:
            values = np.array(text.replace(",", " ").split(), dtype=np.float64)
        except ValueError as error:
            raise InkError(f"{where}: {str(error)[:120]}") from error
        if per_point <= max(columns):
            raise InkError(f"{where}: a point of {per_point} numbers has no X and Y")
        if per_point * (text.count(",") + 1) != len(values):
            raise InkError(f"{where}: points have different numbers of values")
        points = values.reshape(-1, per_point)[:, columns]
        return check_points(points, where)

    def _annotations(self) -> Mapping[str, str]:
        notes: dict[str, str] = {}
        for element in self.root:
            if tag_of(element) == "annotation" and element.text:
                notes.setdefault(element.get("type") or "", element.text.strip())
        return notes

    def _symbols(self, stroke_indices: Mapping[str, int]) -> Iterable[Symbol]:
        """Yield the groups that hold strokes; references to missing traces are ignored."""
        for group in self._elements("traceGroup"):
            label, target, strokes = "", "", []
            for child in group:
                kind = tag_of(child)
                if kind == "annotation" and child.get("type", "truth") == "truth":
                    label = (child.text or "").strip()
                elif kind == "annotationXML":
                    target = child.get("href") or target
                elif kind == "traceView":
                    reference = (child.get("traceDataRef") or "").removeprefix("#")
                    stroke = stroke_indices.get(reference)
                    if stroke is not None and stroke not in strokes:
                        strokes.append(stroke)
            if strokes:
                yield Symbol(label, tuple(strokes), target or _id(group))

    def _mathml(self) -> MathNode | None:
        for element in self.root:
            if tag_of(element) == "annotationXML" and len(element):
                return _math_node(element[0])
        return None


def _math_node(element: Xml.Element) -> MathNode:
    text = (element.text or "").strip()
    # map, because a comprehension would double the depth of the call stack
    return MathNode(tag_of(element), text, _id(element), tuple(map(_math_node, element)))


def write_inkml(ink: Ink | AlignedInk, path: str | os.PathLike[str]) -> None:
    """Write an InkML file; see `inkml_bytes`."""
    Path(path).write_bytes(inkml_bytes(ink))


def inkml_bytes(ink: Ink | AlignedInk) -> bytes:
    """Return ink as InkML in CROHME's dialect.

    For aligned ink, the tokens become the LaTeX truth and the strokes of every token a group.
    """
    if isinstance(ink, AlignedInk):
        pairs = enumerate(zip(ink.tokens, ink.alignment, strict=True))
        symbols = tuple(
            Symbol(token, own, f"{token}_{index}") for index, (token, own) in pairs if own
        )
        ink = Ink(ink.name, ink.strokes, symbols, " ".join(ink.tokens), writer=ink.writer)
    root = Xml.Element("ink", {"xmlns": INKML})
    trace_format = Xml.SubElement(root, "traceFormat")
    for channel in "XY":
        Xml.SubElement(trace_format, "channel", {"name": channel, "type": "decimal"})
    for kind, note in {"UI": ink.name, "writer": ink.writer, "truth": ink.truth}.items():
        if note:
            Xml.SubElement(root, "annotation", {"type": kind}).text = note
    if ink.mathml is not None:
        attributes = {"type": "truth", "encoding": "Content-MathML"}
        _write_math(Xml.SubElement(root, "annotationXML", attributes), ink.mathml)
    for index, points in enumerate(ink.strokes):
        trace = Xml.SubElement(root, "trace", {"id": str(index)})
        trace.text = ", ".join(f"{x:.10g} {y:.10g}" for x, y in points.tolist())
    _write_groups(root, ink.symbols, first=len(ink.strokes))
    Xml.indent(root)
    text = Xml.tostring(root, encoding="unicode")
    return f"<?xml version='1.0' encoding='utf-8'?>\n{text}".encode()


def _write_math(parent: Xml.Element, node: MathNode) -> None:
    attributes = {"xml:id": node.id} if node.id else {}
    if node.tag == "math":
        attributes["xmlns"] = MATHML
    element = Xml.SubElement(parent, node.tag, attributes)
    element.text = node.text
    for child in node.children:
        _write_math(element, child)


def _write_groups(root: Xml.Element, symbols: Sequence[Symbol], first: int) -> None:
    if not symbols:
        return
    segmentation = Xml.SubElement(root, "traceGroup", {"xml:id": str(first)})
    Xml.SubElement(segmentation, "annotation", {"type": "truth"}).text = "Segmentation"
    for number, symbol in enumerate(symbols, start=first + 1):
        group = Xml.SubElement(segmentation, "traceGroup", {"xml:id": str(number)})
        Xml.SubElement(group, "annotation", {"type": "truth"}).text = symbol.label
        for stroke in symbol.strokes:
            Xml.SubElement(group, "traceView", {"traceDataRef": str(stroke)})
        if symbol.id:
            Xml.SubElement(group, "annotationXML", {"href": symbol.id})
