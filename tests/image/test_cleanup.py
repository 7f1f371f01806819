"""Photographs of formulas come out as the images that the model knows."""

import zipfile

import cv2
import numpy as np
import pytest
from distort import SCENES, Scene, agreement, photograph

from posformer.data import load_ink
from posformer.errors import NoInkError
from posformer.image.cleanup import Cleaned, clean, split_lines, split_strokes
from posformer.image.loading import load_image
from posformer.image.pen import pen_width, thin
from posformer.ink.render import render, strokes_in_pixels
from posformer.synthesis.glyphs import own_bank
from posformer.synthesis.layout import lay_out

FORMULAS = [
    r"x ^ { 2 } + 3 . 5 x - 1 = 0",
    r"\frac { a - b } { 2 } = \sqrt { y }",
    r"\sum _ { i = 1 } ^ { n } ( i + j )",
    r"f ( x ) = \frac { 1 } { 1 + \frac { 1 } { x } } - k",
]


@pytest.fixture(scope="module")
def images() -> list[np.ndarray]:
    """Formulas in the project's own hand, drawn as CROHME's images are."""
    bank = own_bank(writers=4)
    rng = np.random.default_rng(0)
    inks = [lay_out(formula.split(), bank, rng) for formula in FORMULAS]
    return [render(strokes_in_pixels(ink.strokes)) for ink in inks]


@pytest.fixture(scope="module")
def real_images(crohme_zip) -> list[np.ndarray]:
    """Every 300th training image of CROHME."""
    with zipfile.ZipFile(crohme_zip) as archive:
        names = sorted(name for name in archive.namelist() if "/train/img/" in name)[::300]
        return [load_image(archive.read(name)) for name in names if name.endswith(".bmp")]


def as_cleaned(image: np.ndarray) -> Cleaned:
    return Cleaned(image, (0, 0, image.shape[1], image.shape[0]), 1.0, True, 3.0)


def test_an_image_like_those_of_training_is_left_alone(images):
    for image in images:
        cleaned = clean(image)
        assert (cleaned.image == image).all()
        assert cleaned.scale == 1
        assert cleaned.light_ink


def test_real_training_images_are_left_alone(real_images):
    same = [np.array_equal(clean(image).image, image) for image in real_images]
    assert np.mean(same) >= 0.95


def test_margins_are_brought_to_those_of_training(images):
    for image in images:
        wide = np.pad(image, ((60, 5), (0, 90)))
        assert (clean(wide).image == image).all()
        tight = image[12:-11, 12:-11]
        assert (clean(tight).image == image).all()


@pytest.mark.parametrize("name", [name for name, scene in SCENES.items() if not scene.megapixels])
def test_ink_is_found_in_every_scene(images, name):
    for seed, image in enumerate(images):
        photo, truth = photograph(image, SCENES[name], seed)
        cleaned = clean(load_image(photo)).image
        assert set(np.unique(cleaned)) == {0, 255}
        # Of loops that a thick pen filled little is left when it is made thin.
        assert agreement(cleaned, truth, image) > (0.8 if "thick" in name else 0.97)
        assert 2.2 < pen_width((cleaned > 0).astype(np.uint8)) < 4
        assert 0.7 < cleaned.shape[0] / image.shape[0] < 1.4


@pytest.mark.parametrize("name", [name for name, scene in SCENES.items() if scene.megapixels])
def test_ink_is_found_in_photographs_of_twelve_megapixels(images, name):
    photo, truth = photograph(images[1], SCENES[name], 0)
    assert photo.shape[0] * photo.shape[1] > 11e6
    assert agreement(clean(photo).image, truth, images[1]) > 0.95


@pytest.mark.slow
@pytest.mark.parametrize("name", list(SCENES))
def test_real_ink_is_found_in_every_scene(real_images, name):
    chosen = real_images[::5] if SCENES[name].megapixels else real_images
    scores = []
    for seed, image in enumerate(chosen):
        photo, truth = photograph(image, SCENES[name], seed)
        scores.append(agreement(clean(load_image(photo)).image, truth, image))
    assert np.mean(np.array(scores) > 0.9) >= 0.95


def test_a_small_formula_in_a_large_photograph_is_read_in_full_detail(images):
    photo, truth = photograph(images[0], Scene(noise=3), 0)
    page = np.full((3000, 4000, 3), 255, np.uint8)
    page[2000 : 2000 + photo.shape[0], 500 : 500 + photo.shape[1]] = photo
    cleaned = clean(page)
    assert agreement(cleaned.image, truth, images[0]) > 0.97
    left, top, right, bottom = cleaned.box
    rows, columns = np.nonzero(truth)
    expected = np.array(
        [columns.min() + 500, rows.min() + 2000, columns.max() + 501, rows.max() + 2001]
    )
    assert np.abs(np.array([left, top, right, bottom]) - expected).max() <= 6


def test_dots_and_minus_signs_stay(images):
    for scene in ("jpeg", "squared", "noise", "thick"):
        photo, _ = photograph(images[0], SCENES[scene], 3)
        cleaned = clean(load_image(photo)).image
        count = cv2.connectedComponents((cleaned > 0).astype(np.uint8))[0]
        assert count == cv2.connectedComponents((images[0] > 0).astype(np.uint8))[0]


def test_a_fraction_bar_as_wide_as_the_formula_is_no_ruled_line(images):
    bar = images[1].copy()
    middle = bar.shape[0] // 2
    bar[middle : middle + 3, 12:-11] = 255
    assert (clean(bar).image == bar).all()
    assert (clean(bar[12:-11, 12:-11]).image == bar).all()


@pytest.mark.parametrize(
    "blank",
    [
        np.full((300, 400), 255, np.uint8),
        np.zeros((300, 400, 3), np.uint8),
        np.full((1, 1), 7, np.uint8),
        np.full((1, 5000), 200, np.uint8),
        photograph(np.zeros((100, 200), np.uint8), Scene(noise=10, jpeg=30), 0)[0],
        photograph(np.zeros((100, 200), np.uint8), Scene(shadow=0.6, paper=(240, 235, 220)), 1)[0],
        photograph(np.zeros((100, 200), np.uint8), SCENES["ruled"], 2)[0],
        photograph(np.zeros((100, 200), np.uint8), SCENES["squared"], 3)[0],
    ],
)
def test_a_blank_page_is_said_to_be_blank(blank):
    with pytest.raises(NoInkError, match="no ink"):
        clean(blank)


def test_any_pixels_at_all_are_cleaned_or_refused():
    rng = np.random.default_rng(0)
    for _ in range(60):
        height, width = rng.integers(1, 200, 2)
        shape = (height, width) if rng.random() < 0.5 else (height, width, 3)
        image = rng.integers(0, 256, shape).astype(np.uint8)
        if rng.random() < 0.7:
            image = cv2.GaussianBlur(image, (0, 0), rng.uniform(0.5, 20))
        try:
            cleaned = clean(image).image
        except NoInkError:
            continue
        assert cleaned.dtype == np.uint8
        assert cleaned.any()


def test_the_same_image_gives_the_same_result(images):
    photo, _ = photograph(images[2], SCENES["turned squared"], 5)
    assert (clean(photo).image == clean(photo).image).all()


def test_formulas_below_each_other_are_cut_apart(images):
    width = max(image.shape[1] for image in images)
    stack = [np.pad(p[12:-11], ((0, 40), (0, width - p.shape[1]))) for p in images]
    lines = split_lines(clean(np.pad(np.vstack(stack), 12)))
    assert len(lines) == len(images)
    for line, image in zip(lines, images, strict=True):
        assert (line.image == image).all()
    tops = [line.box[1] for line in lines]
    assert tops == sorted(tops)


def test_one_formula_is_not_cut(images):
    for image in images:
        whole = clean(image)
        assert split_lines(whole) == [whole]


def test_real_formulas_are_rarely_cut(real_images):
    cut = [len(split_lines(as_cleaned(image))) > 1 for image in real_images]
    assert np.mean(cut) <= 0.04


@pytest.fixture(scope="module")
def inks() -> list[tuple[np.ndarray, ...]]:
    """The strokes of the formulas, in the pixels of their images."""
    bank = own_bank(writers=4)
    rng = np.random.default_rng(0)
    return [strokes_in_pixels(lay_out(formula.split(), bank, rng).strokes) for formula in FORMULAS]


def below_each_other(inks: list[tuple[np.ndarray, ...]]) -> list[np.ndarray]:
    strokes, top = [], 0.0
    for ink in inks:
        strokes += [stroke + np.float32([0, top]) for stroke in ink]
        top = max(stroke[:, 1].max() for stroke in strokes) + 40
    return strokes


def test_ink_below_other_ink_is_cut_apart(inks):
    found = split_strokes(below_each_other(inks))
    assert [len(formula) for formula in found] == [len(ink) for ink in inks]
    for formula, ink in zip(found, inks, strict=True):
        drop = formula[0][0] - ink[0][0]
        for stroke, written in zip(formula, ink, strict=True):
            np.testing.assert_allclose(stroke, written + drop, atol=1e-3)


def test_ink_that_was_not_written_line_by_line_stays_together(inks):
    strokes = below_each_other(inks[:2])
    assert len(split_strokes(strokes)) == 2
    assert len(split_strokes([*strokes[1:], strokes[0]])) == 1


def test_real_ink_is_hardly_ever_cut(crohme_ink_zip):
    cut = [len(split_strokes(ink.strokes)) > 1 for ink in load_ink(crohme_ink_zip, "2013")]
    assert np.mean(cut) <= 0.005


def test_pen_width_is_measured():
    for width in (1, 2, 3, 5, 9):
        line = np.zeros((60, 200), np.uint8)
        line[20 : 20 + width, 10:190] = 1
        assert pen_width(line) == pytest.approx(width, abs=0.35)


@pytest.mark.parametrize("light", [0.3, 0.5])
def test_a_narrow_gap_between_thick_strokes_stays_open(light):
    page = np.full((160, 240), 255, np.uint8)
    for left in (60, 73, 140):
        page[40:110, left : left + 12] = 0
    page[40:110, 72] = 255 * light  # what is left of the paper between two strokes
    assert cv2.connectedComponents(clean(page).image)[0] - 1 == 3


def test_a_thick_stroke_that_is_fainter_than_others_is_kept():
    page = np.full((160, 240), 255, np.uint8)
    for left, shade in ((60, 0), (100, 100), (140, 0)):
        page[40:110, left : left + 12] = shade
    assert cv2.connectedComponents(clean(page).image)[0] - 1 == 3


def test_thinning_keeps_what_hangs_together_and_every_dot(images):
    for image in images:
        ink = (image > 0).astype(np.uint8)
        thick = cv2.dilate(cv2.resize(ink, None, fx=3, fy=3), np.ones((3, 3), np.uint8))
        before = cv2.connectedComponents(thick)[0]
        thinned = thin(thick, 3)
        assert cv2.connectedComponents(thinned)[0] == before
        assert pen_width(thinned) < pen_width(thick) - 4
