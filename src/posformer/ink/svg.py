"""Reading the lines of SVG drawings."""

import re
from collections.abc import Iterator
from typing import NamedTuple
from xml.etree import ElementTree as Xml

import numpy as np

from posformer.errors import InkError
from posformer.ink.ink_files import check_points, tag_of
from posformer.ink.svg_path import parse_path

MAX_POINTS = 2_000_000

_NUMBER = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?")
_FUNCTION = re.compile(r"(matrix|translate|scale|rotate|skewX|skewY)\s*\(([^()]*)\)[\s,]*")
_GROUPS = frozenset(("svg", "g", "a", "switch"))  # all others are drawn elsewhere, or not at all
_INHERITED = ("stroke", "fill", "visibility")
_NO_PAINT = ("none", "transparent")
_NO_AREA = (*_NO_PAINT, "white", "#fff", "#ffffff")  # white areas are backgrounds


class _Context(NamedTuple):
    """What an element inherits."""

    matrix: np.ndarray  # float64 (3, 3)
    style: dict[str, str]


def read_svg(root: Xml.Element, location: str) -> list[list[np.ndarray]]:
    """Return the lines of a drawing as one page, with transforms applied.

    Paths, lines, polylines, polygons, circles and ellipses are read; rectangles, text, images,
    white areas and whatever is invisible are not.

    Args:
        root: The element `svg`.
        location: Name of the file, for error messages.

    Returns:
        One page of strokes, float64 (points, 2), in user units.

    Raises:
        InkError: If an element is malformed, or there are too many points.
    """
    strokes: list[np.ndarray] = []
    count = 0
    stack = [(root, _Context(np.eye(3), {}))]
    while stack:
        element, outer = stack.pop()
        where = f"{location}: <{tag_of(element)}{_id(element)}>"
        context = _enter(element, outer, where)
        if context is None:
            continue
        if tag_of(element) in _GROUPS:
            stack += [(child, context) for child in reversed(element)]
        elif not _is_invisible(context.style):
            for line in _lines(element, where):
                count += len(line)
                if count > MAX_POINTS:
                    raise InkError(f"{location}: more than {MAX_POINTS} points")
                strokes.append(_transformed(line, context.matrix, where))
    return [strokes]


def _id(element: Xml.Element) -> str:
    return f" id={element.get('id')!r}" if element.get("id") else ""


def _enter(element: Xml.Element, outer: _Context, where: str) -> _Context | None:
    """Return what holds inside of an element; None if it is not displayed."""
    style = {**element.attrib}
    for declaration in element.get("style", "").split(";"):
        name, _, value = declaration.partition(":")
        style[name.strip()] = value.strip()
    if style.get("display") == "none":
        return None
    own = {name: style[name].lower() for name in _INHERITED if name in style}
    matrix = outer.matrix
    if transform := element.get("transform"):
        matrix = matrix @ _matrix(transform, where)
    return _Context(matrix, {**outer.style, **own})


def _is_invisible(style: dict[str, str]) -> bool:
    if style.get("visibility") in ("hidden", "collapse"):
        return True
    has_line = style.get("stroke", "none") not in _NO_PAINT
    return not has_line and style.get("fill", "black") in _NO_AREA


def _matrix(text: str, where: str) -> np.ndarray:
    """Return a list of transforms as one matrix, float64 (3, 3)."""
    matrix = np.eye(3)
    text = text.strip()
    at = 0
    while match := _FUNCTION.match(text, at):
        values = [float(value) for value in _NUMBER.findall(match[2])]
        matrix = matrix @ _transform(match[1], values, f"{where}: {match[0].strip()}")
        at = match.end()
    if at < len(text):
        raise InkError(f"{where}: {text[at:][:20]!r} is not a transform")
    return matrix


def _transform(name: str, values: list[float], where: str) -> np.ndarray:
    counts = {"matrix": (6,), "translate": (1, 2), "scale": (1, 2), "rotate": (1, 3)}
    if len(values) not in counts.get(name, (1,)):
        raise InkError(f"{where} has a wrong number of values")
    matrix = np.eye(3)
    if name == "matrix":
        matrix[:2] = np.reshape(values, (3, 2)).T
    elif name == "translate":
        matrix[: len(values), 2] = values
    elif name == "scale":
        matrix[0, 0], matrix[1, 1] = values[0], values[-1]
    elif name == "rotate":
        angle, *center = values
        cosine, sine = np.cos(np.radians(angle)), np.sin(np.radians(angle))
        matrix[:2, :2] = [[cosine, -sine], [sine, cosine]]
        if center:
            matrix[:2, 2] = center - matrix[:2, :2] @ center
    else:
        matrix[(0, 1) if name == "skewX" else (1, 0)] = np.tan(np.radians(values[0]))
    return matrix


def _lines(element: Xml.Element, where: str) -> Iterator[np.ndarray]:
    """Yield the polylines of an element, float64 (points, 2) each."""
    kind = tag_of(element)
    if kind == "path":
        yield from parse_path(element.get("d", ""), where)
    elif kind == "line":
        yield np.array([[_length(element, f"{axis}{end}", where) for axis in "xy"] for end in "12"])
    elif kind in ("polyline", "polygon"):
        values = [float(value) for value in _NUMBER.findall(element.get("points", ""))]
        if len(values) % 2:
            raise InkError(f"{where}: the last point has no y")
        points = np.reshape(values, (-1, 2))
        if len(points):
            yield np.concatenate([points, points[:1]]) if kind == "polygon" else points
    elif kind in ("circle", "ellipse"):
        center = [_length(element, name, where) for name in ("cx", "cy")]
        names = ("r", "r") if kind == "circle" else ("rx", "ry")
        radii = [_length(element, name, where) for name in names]
        angles = np.linspace(0, 2 * np.pi, 33)
        yield np.stack([np.cos(angles), np.sin(angles)], axis=1) * radii + center


def _length(element: Xml.Element, name: str, where: str) -> float:
    text = element.get(name, "0").strip().removesuffix("px")
    if not _NUMBER.fullmatch(text):
        raise InkError(f"{where}: {name}={text[:20]!r} is not a number")
    return float(text)


def _transformed(points: np.ndarray, matrix: np.ndarray, where: str) -> np.ndarray:
    with np.errstate(over="ignore", invalid="ignore"):
        return check_points(points @ matrix[:2, :2].T + matrix[:2, 2], where)
