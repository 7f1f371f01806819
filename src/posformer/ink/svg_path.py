"""The path data of SVG: the attribute `d` as polylines."""

import re
from collections.abc import Iterator
from itertools import pairwise

import numpy as np

from posformer.errors import InkError
from posformer.ink.ink_files import MAX_COORDINATE

_PIECE = re.compile(r"([MmLlHhVvCcSsQqTtAaZz])|([^MmLlHhVvCcSsQqTtAaZz]+)")
_NUMBER = r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?"
_NUMBERS = re.compile(rf"[\s,]*({_NUMBER})")
_ARC = re.compile(
    rf"[\s,]*({_NUMBER})[\s,]*({_NUMBER})[\s,]*({_NUMBER})[\s,]*([01])[\s,]*([01])"
    rf"[\s,]*({_NUMBER})[\s,]*({_NUMBER})"
)
_COUNTS = {"M": 2, "L": 2, "H": 1, "V": 1, "C": 6, "S": 4, "Q": 4, "T": 2, "A": 7, "Z": 0}
_CURVE_STEPS = np.linspace(0, 1, 9)[1:, None]  # handwriting has many short curves
_ARC_STEP = np.pi / 16
_SMALLEST_RADIUS = 1e-9  # an ellipse with a smaller one is a line


def parse_path(text: str, where: str) -> list[np.ndarray]:
    """Return the subpaths of path data as polylines, float64 (points, 2) each.

    Args:
        text: Path data: `M`, `L`, `H`, `V`, `C`, `S`, `Q`, `T`, `A` and `Z`, absolute or relative.
        where: What to name in error messages.

    Raises:
        InkError: If the path data is malformed.
    """
    pen = _Pen()
    for command, values in _segments(text, where):
        pen.draw(command, np.array(values))
    return [np.array(subpath) for subpath in pen.subpaths if subpath]


def _segments(text: str, where: str) -> Iterator[tuple[str, list[float]]]:
    """Yield each segment: its command, and as many numbers as that takes."""
    command = ""
    for name, rest in _PIECE.findall(text):
        if name:
            if not command and name not in "Mm":
                raise InkError(f"{where}: the path does not begin with M")
            command = name
            if name in "Zz":
                yield command, []
            continue
        values = _numbers(rest, command, where)
        count = _COUNTS.get(command.upper(), 0)
        if not values:
            continue
        if not count or len(values) % count:
            problem = f"{command or 'the path'} has {len(values)} numbers"
            raise InkError(f"{where}: {problem}")
        for start in range(0, len(values), count):
            yield command, values[start : start + count]
            command = {"M": "L", "m": "l"}.get(command, command)  # further points of a move


def _numbers(text: str, command: str, where: str) -> list[float]:
    """Return the numbers of a text; the flags of arcs may be written together."""
    pattern = _ARC if command in ("A", "a") else _NUMBERS
    values: list[float] = []
    at = 0
    while match := pattern.match(text, at):
        values += map(float, match.groups())
        at = match.end()
    if any(abs(value) > MAX_COORDINATE for value in values):
        raise InkError(f"{where}: a coordinate is not finite or too large")
    if text[at:].strip(" \t\r\n,"):
        raise InkError(f"{where}: {text[at:].strip()[:20]!r} is not path data")
    return values


class _Pen:
    """Draws segments as polylines."""

    def __init__(self) -> None:
        self.subpaths: list[list[np.ndarray]] = []
        self.at = np.zeros(2)
        self.start = np.zeros(2)
        self.control = np.zeros(2)  # the last one of the segment before, which S and T mirror
        self.previous = ""

    def draw(self, command: str, values: np.ndarray) -> None:
        """Draw a segment."""
        kind = command.upper()
        if kind == "Z":
            self._line(self.start)
            self.subpaths.append([])
        elif kind == "M":
            self.at = values + (self.at if command == "m" else 0)
            self.start = self.at
            self.subpaths.append([self.at])
        else:
            self._draw_line(kind, self._absolute(command, values))
        self.previous = kind

    def _absolute(self, command: str, values: np.ndarray) -> np.ndarray:
        origin = self.at if command.islower() else np.zeros(2)
        if command in "Hh":
            return np.array([values[0] + origin[0], self.at[1]])
        if command in "Vv":
            return np.array([self.at[0], values[0] + origin[1]])
        if command in "Aa":
            return np.concatenate([values[:5], values[5:] + origin])
        return values + np.tile(origin, len(values) // 2)

    def _draw_line(self, kind: str, values: np.ndarray) -> None:
        mirrored = 2 * self.at - self.control
        end = values[-2:]
        if kind == "A":
            self._extend(_arc(self.at, values))
        elif kind in "CS":
            first = values[:2] if kind == "C" else mirrored if self.previous in "CS" else self.at
            self.control = values[-4:-2]
            self._extend(_bezier(self.at, first, self.control, end))
        elif kind in "QT":
            follows = self.previous in ("Q", "T")
            self.control = values[:2] if kind == "Q" else mirrored if follows else self.at
            self._extend(_bezier(self.at, self.control, end))
        else:
            self._line(end)
        self.at = end

    def _line(self, end: np.ndarray) -> None:
        self._extend(end[None])
        self.at = end

    def _extend(self, points: np.ndarray) -> None:
        if not self.subpaths[-1]:  # behind a closed subpath
            self.subpaths[-1].append(self.at)
        self.subpaths[-1].extend(points)


def _bezier(*controls: np.ndarray) -> np.ndarray:
    """Return the points of a Bézier curve behind its first one (de Casteljau)."""
    points = [np.broadcast_to(one, (len(_CURVE_STEPS), 2)) for one in controls]
    while len(points) > 1:
        points = [left + _CURVE_STEPS * (right - left) for left, right in pairwise(points)]
    return points[0]


def _arc(start: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Return the points of an elliptical arc behind its first one (SVG 1.1, appendix F.6)."""
    radii, turn, large, sweep, end = (
        np.abs(values[:2]),
        np.radians(values[2]),
        *values[3:5],
        values[5:],
    )
    if (radii < _SMALLEST_RADIUS).any() or (start == end).all():
        return end[None]
    axes = np.array([[np.cos(turn), np.sin(turn)], [-np.sin(turn), np.cos(turn)]])
    # In coordinates where the ellipse is the unit circle.
    half = axes @ (start - end) / 2 / radii
    distance = half @ half
    if distance > 1:  # no ellipse of this size reaches both points
        radii = radii * np.sqrt(distance)
        half, distance = half / np.sqrt(distance), 1.0
    sign = 1 if large != sweep else -1
    center = sign * np.sqrt(1 / distance - 1) * np.array([half[1], -half[0]])
    first, last = (np.arctan2(*(point - center)[::-1]) for point in (half, -half))
    sweep_angle = (last - first) % (2 * np.pi) - (0 if sweep else 2 * np.pi)
    count = max(2, int(np.ceil(abs(sweep_angle) / _ARC_STEP)) + 1)
    angles = first + np.linspace(0, sweep_angle, count)[1:]
    circle = np.stack([np.cos(angles), np.sin(angles)], axis=1) + center
    points = (circle * radii) @ axes + (start + end) / 2
    return np.concatenate([points[:-1], end[None]])
