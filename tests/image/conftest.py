"""Images of formulas for the tests of clean-up and line splitting."""

import zipfile

import numpy as np
import pytest

from posformer.image.loading import load_image
from posformer.ink.render import render, strokes_in_pixels
from posformer.synthesis.glyphs import own_bank
from posformer.synthesis.layout import lay_out

FORMULAS = [
    r"x ^ { 2 } + 3 . 5 x - 1 = 0",
    r"\frac { a - b } { 2 } = \sqrt { y }",
    r"\sum _ { i = 1 } ^ { n } ( i + j )",
    r"f ( x ) = \frac { 1 } { 1 + \frac { 1 } { x } } - k",
]


@pytest.fixture(scope="session")
def images() -> list[np.ndarray]:
    """Formulas in the project's own ink, rendered like CROHME's images."""
    bank = own_bank(writers=4)
    rng = np.random.default_rng(0)
    inks = [lay_out(formula.split(), bank, rng) for formula in FORMULAS]
    return [render(strokes_in_pixels(ink.strokes)) for ink in inks]


@pytest.fixture(scope="session")
def real_images(crohme_zip) -> list[np.ndarray]:
    """Every 300th training image of CROHME."""
    with zipfile.ZipFile(crohme_zip) as archive:
        names = sorted(name for name in archive.namelist() if "/train/img/" in name)[::300]
        return [load_image(archive.read(name)) for name in names if name.endswith(".bmp")]
