"""Reading pages of Xournal++ and Xournal."""

from xml.etree import ElementTree as Xml

import numpy as np

from posformer.errors import InkError
from posformer.ink.ink_files import check_points, tag_of

Pages = list[list[np.ndarray]]


def read_xournalpp(root: Xml.Element, location: str) -> Pages:
    """Return the pen strokes of each page, without those of highlighter and eraser.

    Args:
        root: The element `xournal`.
        location: Name of the file, for error messages.

    Returns:
        For each page its strokes, float64 (points, 2), in points (1/72 inch).

    Raises:
        InkError: If a stroke has no valid coordinates.
    """
    pages = [element for element in root if tag_of(element) == "page"]
    return [
        _page_strokes(page, f"{location}: page {number}")
        for number, page in enumerate(pages, start=1)
    ]


def _page_strokes(page: Xml.Element, where: str) -> list[np.ndarray]:
    elements = [element for element in page.iter() if tag_of(element) == "stroke"]
    strokes = []
    for number, element in enumerate(elements, start=1):
        if element.get("tool", "pen") == "pen":
            strokes.append(_points(element.text or "", f"{where}: stroke {number}"))
    return [stroke for stroke in strokes if len(stroke)]


def _points(text: str, where: str) -> np.ndarray:
    try:
        values = np.array(text.split(), np.float64)
    except ValueError as error:
        raise InkError(f"{where}: {str(error)[:120]}") from error
    if len(values) % 2:
        raise InkError(f"{where}: the last point has no y")
    return check_points(values.reshape(-1, 2), where)
