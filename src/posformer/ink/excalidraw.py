"""Reading drawings of Excalidraw."""

from typing import Any

import numpy as np

from posformer.errors import InkError
from posformer.ink.ink_files import check_points

_TYPES = ("freedraw", "line")


def read_excalidraw(drawing: Any, location: str) -> list[list[np.ndarray]]:
    """Return the freehand and straight lines of a drawing as one page.

    Args:
        drawing: The parsed file.
        location: Name of the file, for error messages.

    Returns:
        One page of strokes, float64 (points, 2), in pixels.

    Raises:
        InkError: If the file is not an Excalidraw drawing, or a line has no valid points.
    """
    elements = drawing.get("elements") if isinstance(drawing, dict) else None
    if not isinstance(elements, list):
        raise InkError(f"{location}: not an Excalidraw drawing: there is no list of elements")
    strokes = []
    for number, element in enumerate(elements, start=1):
        if not isinstance(element, dict):
            raise InkError(f"{location}: element {number} is not an object")
        if element.get("type") in _TYPES and not element.get("isDeleted"):
            strokes.append(_stroke(element, f"{location}: element {number}"))
    return [[stroke for stroke in strokes if len(stroke)]]


def _stroke(element: dict[str, Any], where: str) -> np.ndarray:
    try:
        points = np.array([point[:2] for point in element["points"]], np.float64)
        origin = np.array([element["x"], element["y"]], np.float64)
        angle = float(element.get("angle") or 0)
        if not len(points):
            return np.empty((0, 2))
        if points.ndim != 2 or points.shape[1] != 2:
            raise ValueError("a point is not a pair of numbers")
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        reason = f"there is no {error}" if isinstance(error, KeyError) else str(error)[:120]
        raise InkError(f"{where}: {reason}") from error
    points = check_points(points + origin, where)
    if not angle:
        return points
    center = (points.min(axis=0) + points.max(axis=0)) / 2  # drawings turn about their middle
    cosine, sine = np.cos(angle), np.sin(angle)
    rotation = np.array([[cosine, sine], [-sine, cosine]])
    return check_points((points - center) @ rotation + center, where)
