"""Line splitting of ink."""

import numpy as np
import pytest

from posformer.data import load_ink
from posformer.ink.render import strokes_in_pixels
from posformer.ink.splitting import split_strokes
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


def test_crohme_ink_is_rarely_split(crohme_ink_zip):
    is_split = [len(split_strokes(ink.strokes)) > 1 for ink in load_ink(crohme_ink_zip, "2013")]
    assert np.mean(is_split) <= 0.005
