"""Page clean-up turns photos into images like those of training."""

from contextlib import suppress

import cv2
import numpy as np
import pytest
from distort import SCENES, Scene, agreement, photograph

from posformer.errors import NoInkError
from posformer.image.cleanup import clean
from posformer.image.loading import load_image
from posformer.image.normalize import prepare_photo
from posformer.image.pen import pen_width, thin


def test_image_like_those_of_training_is_unchanged(images):
    for image in images:
        cleaned = clean(image)
        assert (cleaned.image == image).all()
        assert cleaned.scale == 1
        assert cleaned.light_ink


def test_crohme_images_are_unchanged(real_images):
    same = [np.array_equal(clean(image).image, image) for image in real_images]
    assert np.mean(same) >= 0.95


def test_margins_are_normalized(images):
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
        # A thick pen fills loops, of which little is left after thinning.
        assert agreement(cleaned, truth, image) > (0.8 if "thick" in name else 0.97)
        assert 2.2 < pen_width((cleaned > 0).astype(np.uint8)) < 4
        assert 0.7 < cleaned.shape[0] / image.shape[0] < 1.4


@pytest.mark.parametrize("name", [name for name, scene in SCENES.items() if scene.megapixels])
def test_ink_is_found_in_twelve_megapixel_photos(images, name):
    photo, truth = photograph(images[1], SCENES[name], 0)
    assert photo.shape[0] * photo.shape[1] > 11e6
    assert agreement(clean(photo).image, truth, images[1]) > 0.95


@pytest.mark.slow
@pytest.mark.parametrize("name", list(SCENES))
def test_crohme_ink_is_found_in_every_scene(real_images, name):
    selected = real_images[::5] if SCENES[name].megapixels else real_images
    scores = []
    for seed, image in enumerate(selected):
        photo, truth = photograph(image, SCENES[name], seed)
        scores.append(agreement(clean(load_image(photo)).image, truth, image))
    assert np.mean(np.array(scores) > 0.9) >= 0.95


def test_small_formula_in_a_large_photo_keeps_its_detail(images):
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


def test_dots_and_minus_signs_are_kept(images):
    for scene in ("jpeg", "squared", "noise", "thick"):
        photo, _ = photograph(images[0], SCENES[scene], 3)
        cleaned = clean(load_image(photo)).image
        count = cv2.connectedComponents((cleaned > 0).astype(np.uint8))[0]
        assert count == cv2.connectedComponents((images[0] > 0).astype(np.uint8))[0]


def test_wide_fraction_bar_is_not_ruling(images):
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
def test_blank_page_raises_no_ink_error(blank):
    with pytest.raises(NoInkError, match="no ink"):
        clean(blank)


def test_random_pixels_are_cleaned_or_rejected():
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


def test_clean_up_is_deterministic(images):
    photo, _ = photograph(images[2], SCENES["turned squared"], 5)
    assert (clean(photo).image == clean(photo).image).all()


def test_pen_width_is_measured():
    for width in (1, 2, 3, 5, 9):
        line = np.zeros((60, 200), np.uint8)
        line[20 : 20 + width, 10:190] = 1
        assert pen_width(line) == pytest.approx(width, abs=0.35)


@pytest.mark.parametrize("light", [0.3, 0.5])
def test_narrow_gap_between_thick_strokes_stays_open(light):
    page = np.full((160, 240), 255, np.uint8)
    for left in (60, 73, 140):
        page[40:110, left : left + 12] = 0
    page[40:110, 72] = 255 * light  # paper between two strokes, blurred
    assert cv2.connectedComponents(clean(page).image)[0] - 1 == 3


def test_faint_thick_stroke_is_kept():
    page = np.full((160, 240), 255, np.uint8)
    for left, shade in ((60, 0), (100, 100), (140, 0)):
        page[40:110, left : left + 12] = shade
    assert cv2.connectedComponents(clean(page).image)[0] - 1 == 3


def test_thinning_keeps_components_and_dots(images):
    for image in images:
        ink = (image > 0).astype(np.uint8)
        thick = cv2.dilate(cv2.resize(ink, None, fx=3, fy=3), np.ones((3, 3), np.uint8))
        before = cv2.connectedComponents(thick)[0]
        thinned = thin(thick, 3)
        assert cv2.connectedComponents(thinned)[0] == before
        assert pen_width(thinned) < pen_width(thick) - 4


@pytest.mark.parametrize("turned", [False, True])
def test_long_thin_line_takes_linear_time(bounded, turned):
    paper = np.full((200, 30_000), 255, np.uint8)
    paper[100:103, 500:-500] = 0
    found = bounded(clean, np.ascontiguousarray(paper.T) if turned else paper)
    ink = found.image[12:-11, 12:-11]
    assert max(ink.shape) <= 64
    assert min(ink.shape) in (3, 4)
    assert ink.all(axis=0 if turned else 1).any()


def test_dense_hatching_takes_linear_time(bounded):
    paper = np.full((2400, 2500), 255, np.uint8)
    for row in range(0, 2400, 6):
        paper[row : row + 2] = 0
    paper[:, 1200:1203] = 0
    with suppress(NoInkError):
        bounded(clean, paper)


@pytest.mark.parametrize("prepare", [clean, prepare_photo])
def test_reduced_photo_is_reloaded_for_small_symbols(prepare):
    paper = np.full((1200, 1600), 255, np.uint8)
    cv2.putText(paper, "x+y", (300, 700), cv2.FONT_HERSHEY_SIMPLEX, 12, 30, 20)
    loaded = []

    def reload(scale: float):
        loaded.append(scale)
        return cv2.resize(paper, None, fx=scale, fy=scale, interpolation=cv2.INTER_AREA)

    prepare(paper, lambda: reload(1.0))
    assert loaded == []
    small = cv2.resize(paper, None, fx=0.2, fy=0.2, interpolation=cv2.INTER_AREA)
    found = prepare(small, lambda: reload(0.4))
    assert loaded == [0.4]
    expected = prepare(reload(0.4))
    if prepare is clean:
        found, expected = found.image, expected.image
    assert (found == expected).all()
