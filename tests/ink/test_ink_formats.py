"""Ink from note-taking apps."""

import gzip
import io
import json
from pathlib import Path

import numpy as np
import pytest
from fontTools.pens.basePen import BasePen
from fontTools.svgLib.path import parse_path as reference_path
from hypothesis import given, settings
from hypothesis import strategies as st

from posformer.errors import InkError
from posformer.ink import ink_files, read_ink, svg
from posformer.ink.ink_formats import INK_SUFFIXES, is_ink
from posformer.ink.svg_path import parse_path
from writing import fraction_ink

XOPP = b"""<?xml version="1.0" standalone="no"?>
<xournal creator="Xournal++ 1.1.3" fileversion="4">
<title>Xournal++ document - see https://github.com/xournalpp/xournalpp</title>
<page width="595.28" height="841.89"><background type="solid" color="#ffffffff" style="lined"/>
<layer>
<stroke tool="pen" color="#000000ff" width="1.41 1.2" capStyle="round">10 20 30.5 40</stroke>
<stroke tool="highlighter" color="#ffff00ff" width="8">0 0 100 0</stroke>
<stroke tool="eraser" color="#ffffffff" width="8">0 0 100 0</stroke>
<text font="Sans" size="12" x="0" y="0" color="#000000ff">words</text>
</layer></page>
<page width="595.28" height="841.89"><layer/><layer>
<stroke tool="pen">1 2 3 4 5 6</stroke></layer></page>
</xournal>"""

SVG = b"""<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 100 100">
<rect width="100" height="100" fill="white"/><path d="M0 0h100v100H0z" fill="#FFF"/>
<defs><path id="unused" d="M1 1L2 2"/></defs>
<g transform="translate(10,20) scale(2)" stroke="black" fill="none">
<path d="M0 0L1 2"/><g transform="rotate(90)"><line x1="1" y1="0" x2="2px" y2="0"/></g>
<polyline points="0,0 1,1 2,0"/><path d="M5 5L6 6" visibility="hidden"/></g>
<g style="display: none"><path d="M1 1L2 2" stroke="red"/></g>
<path d="M1 1L2 2" style="fill:none;stroke:none"/></svg>"""

EXCALIDRAW = {
    "type": "excalidraw",
    "version": 2,
    "elements": [
        {"type": "freedraw", "x": 100, "y": 50, "points": [[0, 0], [10, 5, 0.5]], "angle": 0},
        {"type": "rectangle", "x": 0, "y": 0, "width": 10, "height": 10},
        {"type": "line", "x": 0, "y": 0, "points": [[0, 0], [10, 0]], "angle": np.pi / 2},
        {"type": "freedraw", "x": 0, "y": 0, "points": [[0, 0], [1, 1]], "isDeleted": True},
    ],
}


def excalidraw(**changes: object) -> bytes:
    element = {**EXCALIDRAW["elements"][0], **changes}
    return json.dumps({"elements": [element]}).encode()


def page_lists(source: bytes) -> list[list[list[list[float]]]]:
    pages = read_ink(source, "notes").pages
    return [[np.round(stroke, 6).tolist() for stroke in page] for page in pages]


def test_xournalpp_pages_and_pen_strokes() -> None:
    expected = [[[[10, 20], [30.5, 40]]], [[[1, 2], [3, 4], [5, 6]]]]
    assert page_lists(XOPP) == expected
    assert page_lists(gzip.compress(XOPP, mtime=0)) == expected


def test_svg_lines_with_transforms() -> None:
    (strokes,) = page_lists(SVG)
    assert strokes == [
        [[10, 20], [12, 24]],
        [[10, 22], [10, 24]],
        [[10, 20], [12, 22], [14, 20]],
    ]


def test_svg_shapes_and_nested_transforms() -> None:
    drawing = b"""<svg><g transform="matrix(2 0 0 3 1 1)"><polygon points="0 0 1 0 1 1"/></g>
    <circle cx="5" cy="5" r="1"/><ellipse cx="5" cy="5" rx="2" ry="1"/>
    <path d="M1 0L2 0" transform="rotate(90 1 0), skewX(45)"/></svg>"""
    polygon, circle, ellipse, line = read_ink(drawing).pages[0]
    assert polygon.tolist() == [[1, 1], [3, 1], [3, 4], [1, 1]]
    np.testing.assert_allclose(np.hypot(*(circle - 5).T), 1)
    assert ellipse.max() == 7 and ellipse[:, 1].max() == pytest.approx(6)
    np.testing.assert_allclose(line, [[1, 0], [1, 1]], atol=1e-12)


def test_excalidraw_lines_are_placed_and_turned() -> None:
    (strokes,) = page_lists(json.dumps(EXCALIDRAW).encode())
    assert strokes == [[[100, 50], [110, 55]], [[5, -5], [5, 5]]]


def test_inkml_is_one_page() -> None:
    (page,) = read_ink(fraction_ink()).pages
    assert len(page) == 7


def test_sources_and_names(tmp_path: Path) -> None:
    file = tmp_path / "notes.xopp"
    file.write_bytes(gzip.compress(XOPP, mtime=0))
    assert read_ink(file).name == str(file)
    assert len(read_ink(io.BytesIO(XOPP), "stdin").strokes) == 2
    assert {".inkml", ".xopp", ".svg", ".excalidraw"} <= INK_SUFFIXES
    for content in (XOPP, SVG, gzip.compress(XOPP, mtime=0), excalidraw(), b"\xef\xbb\xbf <ink/>"):
        assert is_ink(content[:64])
    assert is_ink(b"", "empty.XOPP")
    assert not is_ink(b"\x89PNG") and not is_ink(b"%PDF-1.5", "scan.pdf")


# Path data


class Flattened(BasePen):
    """The end points of the segments that fontTools reads; it turns arcs into curves."""

    def __init__(self) -> None:
        super().__init__(None)
        self.lines: list[list[tuple[float, float]]] = []

    def _moveTo(self, point):
        self.lines.append([point])

    def _lineTo(self, point):
        self.lines[-1].append(point)

    def _curveToOne(self, first, second, end):
        start = np.array(self._getCurrentPoint())
        for t in np.linspace(0, 1, 17)[1:]:
            weights = (1 - t) ** 3, 3 * t * (1 - t) ** 2, 3 * t * t * (1 - t), t**3
            points = start, np.array(first), np.array(second), np.array(end)
            point = sum(weight * one for weight, one in zip(weights, points, strict=True))
            self.lines[-1].append(tuple(point))

    def _closePath(self):
        self.lines[-1].append(self.lines[-1][0])

    def _endPath(self):
        pass


def distance(points: np.ndarray, line: np.ndarray) -> float:
    """The largest distance of points from a polyline."""
    start, step = line[:-1], np.diff(line, axis=0)
    squares = np.maximum((step**2).sum(axis=1), 1e-12)
    along = ((points[:, None] - start) * step).sum(axis=2) / squares
    nearest = start + np.clip(along, 0, 1)[..., None] * step
    return float(np.hypot(*(points[:, None] - nearest).transpose(2, 0, 1)).min(axis=1).max())


@pytest.mark.parametrize(
    "text",
    [
        "M10 10L20 20 30 10",
        "m10,10l10,10,10-10z",
        "M0 0H10V20h-5v-5",
        "M0 0C0 10 20 10 20 0S40-10 40 0",
        "M0 0c0 10 20 10 20 0s20-10 20 0",
        "M0 0Q10 20 20 0T40 0",
        "M0 0q10 20 20 0t20 0t20 5",
        "M0 0A10 20 30 0 1 30 10",
        "M0 0A10 20 30 1 0 30 10",
        "M10 10a25 25 0 1 1 10 30",
        "M10 10a25 25-30 0110 30",
        "M0 0A1 1 0 0 0 30 10",
        "M1.5.5.5-.5-1e1+2",
        "M0 0L5 5M10 10L20 20",
    ],
)
def test_paths_agree_with_fonttools(text: str) -> None:
    pen = Flattened()
    reference_path(text, pen)
    found = parse_path(text, "path")
    assert len(found) == len(pen.lines)
    for line, expected in zip(found, pen.lines, strict=True):
        reference = np.array(expected)
        np.testing.assert_allclose(line[[0, -1]], reference[[0, -1]], atol=1e-6)
        assert distance(line, reference) < 0.3
        assert distance(reference, line) < 0.3


def test_an_arc_without_radius_is_a_line() -> None:
    assert parse_path("M0 0A0 5 0 0 0 30 10", "path")[0].tolist() == [[0, 0], [30, 10]]


def test_a_closed_subpath_goes_on_where_it_began() -> None:
    first, second = parse_path("M0 0L4 0L4 4zl1 1", "path")
    assert first[-1].tolist() == [0, 0]
    assert second.tolist() == [[0, 0], [1, 1]]


# Malformed and hostile files

BOMB = b'<!DOCTYPE svg [<!ENTITY a "1"><!ENTITY b "&a;&a;&a;">]><svg><path d="M&b; 1"/></svg>'


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "not XML"),
        (b"<xournal>", "not XML"),
        (b"<html/>", "<html> is none of InkML, Xournal++ and SVG"),
        (b"<svg/>", "there is no ink"),
        (b"<xournal><page/></xournal>", "there is no ink"),
        (XOPP.replace(b"30.5", b"thirty"), "page 1: stroke 1: could not convert"),
        (XOPP.replace(b"30.5", b"9" * 5000 + b"x"), "page 1: stroke 1: could not convert"),
        (XOPP.replace(b"30.5 40", b"30.5"), "page 1: stroke 1: the last point has no y"),
        (XOPP.replace(b"30.5", b"1e300"), "page 1: stroke 1: a coordinate is not finite"),
        (XOPP.replace(b"30.5", b"nan"), "page 1: stroke 1: a coordinate is not finite"),
        (gzip.compress(XOPP, mtime=0)[:-20], "damaged gzip file"),
        (gzip.compress(XOPP, mtime=0)[:20] + b"\xff" * 40, "damaged gzip file"),
        (b"<svg><path id='a' d='L1 1'/></svg>", "<path id='a'>: the path does not begin with M"),
        (b"<svg><path d='M1 1 2'/></svg>", "<path>: M has 3 numbers"),
        (b"<svg><path d='M1 1L2 x'/></svg>", "<path>: 'x' is not path data"),
        (b"<svg><path d='M1 1A1 1 0 2 0 1 1'/></svg>", "is not path data"),
        (b"<svg><path d='M1 1L1e999 1'/></svg>", "a coordinate is not finite or too large"),
        (b"<svg><path d='M1 1A1e999 1 0 1 0 3 4'/></svg>", "a coordinate is not finite"),
        (b"<svg><path d='M1e308 1C1 1e308 -1e308 2 3 4'/></svg>", "a coordinate is not finite"),
        (b"<svg><g transform='turn(3)'/></svg>", "<g>: 'turn(3)' is not a transform"),
        (b"<svg><g transform='scale()'/></svg>", "scale() has a wrong number of values"),
        (b"<svg><line x1='a'/></svg>", "<line>: x1='a' is not a number"),
        (b"<svg><polyline points='1 2 3'/></svg>", "<polyline>: the last point has no y"),
        (b"<svg>" + b"<g>" * 5000 + b"</g>" * 5000 + b"</svg>", "<g> is nested too deeply"),
        (BOMB, "document types and entities are refused"),
        (b'{"elements": 3}', "not an Excalidraw drawing"),
        (b'{"a":' + b"[" * 100_000, "nested too deeply"),
        (b'{"elements": [', "not JSON"),
        (b'{"elements": [3]}', "element 1 is not an object"),
        (excalidraw(points=None), "element 1: "),
        (excalidraw(points=[[1]]), "element 1: a point is not a pair of numbers"),
        (excalidraw(points=[[1, "a"]]), "element 1: could not convert"),
        (excalidraw(x=float("nan")), "element 1: a coordinate is not finite"),
        (excalidraw(points=[[1, 10**400]]), "element 1: "),
        (b'{"elements": [{"type": "freedraw"}]}', "element 1: there is no 'points'"),
    ],
)  # fmt: skip
def test_errors_are_one_line_that_names_the_file(content: bytes, message: str) -> None:
    with pytest.raises(InkError) as caught:
        read_ink(content, "notes")
    text = str(caught.value)
    assert text.startswith("notes: ") and message in text and "\n" not in text
    assert len(text) < 1000


@pytest.mark.parametrize("radius", ["0", "1e-320", "1e-12"])
def test_an_arc_without_extent_is_a_line(radius: str) -> None:
    path = f"<svg><path d='M1 1A{radius} 5 0 1 0 30 40'/></svg>"
    (stroke,) = read_ink(path.encode(), "notes").strokes
    assert stroke.tolist() == [[1, 1], [30, 40]]


def test_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InkError, match="longer than 100 bytes"):
        read_ink(XOPP, "notes", max_bytes=100)
    monkeypatch.setattr(ink_files, "MAX_UNPACKED_BYTES", 1000)
    bomb = gzip.compress(b"<xournal>" + b" " * 10_000_000)
    with pytest.raises(InkError, match="longer than 1000 bytes when unpacked"):
        read_ink(bomb, "notes")
    monkeypatch.setattr(ink_files, "MAX_ELEMENTS", 3)
    with pytest.raises(InkError, match="more than 3 elements"):
        read_ink(XOPP, "notes")
    monkeypatch.setattr(ink_files, "MAX_ELEMENTS", 300)
    monkeypatch.setattr(svg, "MAX_POINTS", 4)
    with pytest.raises(InkError, match="more than 4 points"):
        read_ink(SVG, "notes")


@settings(max_examples=200)
@given(
    st.sampled_from([XOPP, SVG, json.dumps(EXCALIDRAW).encode(), gzip.compress(XOPP, mtime=0)]),
    st.floats(0, 1),
    st.binary(max_size=12),
    st.integers(0, 40),
)
def test_damaged_files_are_read_or_rejected(
    data: bytes, position: float, junk: bytes, removed: int
) -> None:
    at = int(position * len(data))
    try:
        document = read_ink(data[:at] + junk + data[at + removed :], "damaged")
    except InkError as error:
        assert "\n" not in str(error)
        return
    assert all(np.isfinite(stroke).all() and len(stroke) for stroke in document.strokes)
