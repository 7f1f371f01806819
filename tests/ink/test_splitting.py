"""Line splitting of ink."""

import numpy as np
import pytest

from posformer.data import load_ink
from posformer.ink.render import strokes_in_pixels
from posformer.ink.splitting import split_page, split_strokes
from posformer.synthesis.glyphs import own_bank
from posformer.synthesis.layout import lay_out

FORMULAS = [
    r"x ^ { 2 } + 3 . 5 x - 1 = 0",
    r"\frac { a - b } { 2 } = \sqrt { y }",
    r"\sum _ { i = 1 } ^ { n } ( i + j )",
    r"f ( x ) = \frac { 1 } { 1 + \frac { 1 } { x } } - k",
]


@pytest.fixture(scope="module")
def inks() -> list[tuple[np.ndarray, ...]]:
    """The strokes of the formulas in pixels."""
    bank = own_bank(writers=4)
    rng = np.random.default_rng(0)
    return [strokes_in_pixels(lay_out(formula.split(), bank, rng).strokes) for formula in FORMULAS]


def stack(inks: list[tuple[np.ndarray, ...]]) -> list[np.ndarray]:
    strokes, top = [], 0.0
    for ink in inks:
        strokes += [stroke + np.float32([0, top]) for stroke in ink]
        top = max(stroke[:, 1].max() for stroke in strokes) + 40
    return strokes


def test_stacked_ink_is_split(inks):
    found = split_strokes(stack(inks))
    assert [len(formula) for formula in found] == [len(ink) for ink in inks]
    for formula, ink in zip(found, inks, strict=True):
        shift = formula[0][0] - ink[0][0]
        for stroke, original in zip(formula, ink, strict=True):
            np.testing.assert_allclose(stroke, original + shift, atol=1e-3)


def test_ink_not_written_line_by_line_is_not_split(inks):
    strokes = stack(inks[:2])
    assert len(split_strokes(strokes)) == 2
    assert len(split_strokes([*strokes[1:], strokes[0]])) == 1


def two_columns(inks: list[tuple[np.ndarray, ...]]) -> list[list[np.ndarray]]:
    """Four formulas in two columns that are not in line, under a wide one."""
    size = np.float32
    wide = [stroke * size(1.2) + size([150, 0]) for stroke in inks[3]]
    corners = [(0, 200), (0, 380), (700, 170), (700, 300)]
    placed = zip([*inks[:2], *inks[:2]], corners, strict=True)
    return [wide, *([stroke + size(corner) for stroke in ink] for ink, corner in placed)]


@pytest.mark.parametrize("unit", [1, 0.05, 40])
def test_a_page_in_two_columns_is_split_whatever_the_order_of_writing(inks, unit):
    page = two_columns(inks)
    strokes = [stroke * unit for formula in page for stroke in formula]
    owner = np.repeat(np.arange(len(page)), [len(formula) for formula in page])
    order = np.random.default_rng(0).permutation(len(strokes))
    found = split_page([strokes[index] for index in order])
    number = {id(strokes[index]): owner[index] for index in order}
    assert [{number[id(stroke)] for stroke in formula} for formula in found] == [
        {0}, {1}, {2}, {3}, {4},
    ]  # fmt: skip


def test_lines_of_a_block_stay_together_for_models_that_read_them(inks):
    strokes = stack(inks[:2])
    assert len(split_page(strokes)) == 2
    assert len(split_page(strokes, lines=False)) == 1
    apart = [*strokes, *(stroke + np.float32([0, 1000]) for stroke in strokes)]
    assert [len(part) for part in split_page(apart, lines=False)] == [len(strokes)] * 2


@pytest.mark.parametrize("split", [split_strokes, split_page])
def test_crohme_ink_is_rarely_split(crohme_ink_zip, split):
    is_split = [len(split(ink.strokes)) > 1 for ink in load_ink(crohme_ink_zip, "2013")]
    assert np.mean(is_split) <= 0.005
