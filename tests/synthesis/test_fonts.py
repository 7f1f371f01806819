"""Fonts as writers."""

import numpy as np
import pytest

from posformer.errors import DataError
from posformer.ink.alignment import inked_places
from posformer.ink.fill import fill_aligned, print_scale
from posformer.synthesis.fonts import find_families, handwriting_bank, load_fonts
from posformer.synthesis.glyphs import own_bank
from posformer.synthesis.layout import PRINT, lay_out

builder = pytest.importorskip("fontTools.fontBuilder")
pens = pytest.importorskip("fontTools.pens.ttGlyphPen")

CHARACTERS = "xysinab123+−=()√ˆℝ𝑥"


def _write_font(path, characters=CHARACTERS):
    """A font whose glyphs are squares with a hole, 500 units tall."""
    names = [f"u{ord(character):x}" for character in characters]
    font = builder.FontBuilder(1000, isTTF=True)
    font.setupGlyphOrder([".notdef", *names])
    font.setupCharacterMap(dict(zip(map(ord, characters), names, strict=True)))
    pen = pens.TTGlyphPen(None)
    for corners in (
        [(50, 0), (50, 500), (450, 500), (450, 0)],
        [(150, 100), (350, 100), (350, 400), (150, 400)],
    ):
        pen.moveTo(corners[0])
        for corner in corners[1:]:
            pen.lineTo(corner)
        pen.closePath()
    glyph = pen.glyph()
    font.setupGlyf(dict.fromkeys([".notdef", *names], glyph))
    font.setupHorizontalMetrics(dict.fromkeys([".notdef", *names], (500, 50)))
    font.setupHorizontalHeader(ascent=800, descent=-200)
    font.setupNameTable({})
    font.setupPost()
    path.parent.mkdir(parents=True)
    font.save(path)


@pytest.fixture
def folder(tmp_path):
    _write_font(tmp_path / "math" / "made" / "made-math.ttf")
    _write_font(tmp_path / "handwriting" / "hand" / "hand.ttf", "xyab12")
    return tmp_path


def test_families_are_found_by_kind(folder):
    assert [(family.kind, family.name) for family in find_families(folder)] == [
        ("handwriting", "hand"),
        ("math", "made-math"),
    ]
    with pytest.raises(DataError, match="no fonts"):
        find_families(folder / "math")


def test_glyphs_have_the_baseline_and_x_height_of_the_font(folder, tmp_path):
    for _ in range(2):  # the second time from the cache
        bank = load_fonts(folder, tmp_path / "cache")
        (sample,) = bank.samples("x", "math:made-math")
        assert sample.unit == pytest.approx(0.5)
        assert sample.baseline == pytest.approx(0.5)
        assert sample.lengths == (4, 4)
        assert {"\\sin", "\\sqrt", "\\hat", "\\mathbb{R}", "-"} <= bank.written_by("math:made-math")
        assert "\\cos" not in bank.tokens


def test_printed_layout_is_exact_and_repeatable(folder):
    bank = load_fonts(folder, None).select(["math:made-math"])
    text = [
        "\\frac",
        "{",
        "\\hat",
        "{",
        "x",
        "}",
        "}",
        "{",
        "\\sqrt",
        "{",
        "a",
        "}",
        "}",
        "+",
        "\\mathbb",
        "{",
        "R",
        "}",
        "=",
        "\\sin",
        "(",
        "2",
        ")",
    ]
    first, second = (lay_out(text, bank, np.random.default_rng(7), PRINT) for _ in range(2))
    assert first.filled
    assert [n for n, strokes in enumerate(first.alignment) if strokes] == inked_places(text)
    assert all((a == b).all() for a, b in zip(first.strokes, second.strokes, strict=True))
    image, boxes = fill_aligned(first, print_scale(first))
    height, width = image.shape
    inked = boxes[~np.isnan(boxes[:, 0])]
    assert (inked[:, :2] >= 11).all()
    assert (inked[:, 2:] <= (width - 11, height - 11)).all()
    assert image.max() == 255


def test_ink_stands_in_for_glyphs_that_handwriting_fonts_lack(folder):
    fonts = load_fonts(folder, None).select(["handwriting:hand"])
    bank = handwriting_bank(fonts, own_bank())
    assert bank.lead_writers == ("handwriting:hand",)
    assert bank.choose("x", np.random.default_rng(0), "handwriting:hand").lengths == (4, 4)
    assert "\\alpha" in bank.tokens
    ink = lay_out(["x", "+", "\\alpha"], bank, np.random.default_rng(0), PRINT)
    assert ink.writer == "handwriting:hand"
