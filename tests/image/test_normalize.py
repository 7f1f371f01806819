"""Grey preprocessing: light is flattened, formulas are found, dark photographs are not empty."""

import cv2
import numpy as np
import pytest
from distort import SCENES, agreement, photograph

from posformer.errors import NoInkError
from posformer.image.normalize import (
    MARGIN,
    SYMBOL_HEIGHT,
    find_formula,
    flatten,
    prepare_photo,
    split_photo,
)


def written(height: int = 120, width: int = 360, scale: float = 1.0) -> np.ndarray:
    """Coverage of some symbols from 0 to 1, float32, in the middle of a sheet."""
    page = np.zeros((height, width), np.uint8)
    place = (round(0.15 * width), round(0.6 * height))
    thickness = max(1, round(3 * scale))
    cv2.putText(page, "x+y=28", place, cv2.FONT_HERSHEY_SIMPLEX, 1.4 * scale, 255, thickness)
    return np.asarray(page, np.float32) / 255


def sheet(ink: np.ndarray, paper: float = 220, dark: float = 50, noise: float = 0) -> np.ndarray:
    """A photograph with this brightness of paper and ink."""
    image = paper + (dark - paper) * ink
    image += np.random.default_rng(0).normal(0, 1, ink.shape) * noise
    return np.clip(image, 0, 255).astype(np.uint8)


def contrast(flat: np.ndarray, ink: np.ndarray) -> float:
    """Mean brightness of ink minus that of paper."""
    return float(flat[ink > 0.9].mean() - flat[ink == 0].mean())


@pytest.mark.parametrize(
    ("paper", "dark", "noise"),
    [(220, 50, 2), (30, 8, 1), (12, 4, 0.5), (200, 185, 1), (250, 235, 1), (120, 90, 4)],
)
def test_flatten_dark_and_low_contrast(paper: float, dark: float, noise: float) -> None:
    ink = written()
    flat = flatten(sheet(ink, paper, dark, noise))
    assert flat.dtype == np.uint8
    assert contrast(flat, ink) > 120


def test_flatten_removes_gradients_and_shadows() -> None:
    ink = written()
    light = np.linspace(0.3, 1, ink.shape[1], dtype=np.float32)[None]
    shadow = np.where(np.arange(ink.shape[0])[:, None] > 60, 0.6, 1).astype(np.float32)
    shadow = cv2.GaussianBlur(np.repeat(shadow, ink.shape[1], axis=1), (0, 0), 6)
    image = (sheet(ink) * light * shadow).astype(np.uint8)
    flat = flatten(image)
    assert flat[ink == 0].mean() < 20
    left, right = ink.copy(), ink.copy()
    left[:, 180:] = right[:, :180] = 0
    assert abs(flat[left > 0.9].mean() - flat[right > 0.9].mean()) < 40


def test_flatten_finds_the_polarity() -> None:
    ink = written()
    assert contrast(flatten(sheet(ink, paper=40, dark=220)), ink) > 150
    assert contrast(flatten(sheet(ink, paper=220, dark=40)), ink) > 150


def test_flatten_keeps_grey_levels() -> None:
    ink = written()
    ink[:, 180:] *= 0.5
    flat = flatten(sheet(ink))
    strong, weak = flat[:, :180][ink[:, :180] > 0.9], flat[:, 180:][ink[:, 180:] > 0.45]
    assert 60 < weak.mean() < strong.mean() - 60


@pytest.mark.parametrize("brightness", [0, 3, 128, 255])
def test_flatten_of_an_empty_sheet_is_black(brightness: int) -> None:
    assert not flatten(np.full((80, 200), brightness, np.uint8)).any()


@pytest.mark.parametrize("scale", [0.5, 1.0, 2.0, 5.0])
def test_symbols_get_the_size_of_the_training_images(scale: float) -> None:
    ink = written(round(120 * scale), round(360 * scale), scale)
    prepared = prepare_photo(sheet(ink, noise=1))
    _, _, stats, _ = cv2.connectedComponentsWithStats((prepared > 110).astype(np.uint8))[:4]
    heights = stats[1:, 3]
    tall = heights[heights > 12]
    assert abs(tall.mean() - 3 - SYMBOL_HEIGHT) < 7


def test_color_photograph_with_red_ink() -> None:
    ink = written()[..., None]
    image = np.array([235, 225, 215]) * (1 - ink) + np.array([234, 60, 70]) * ink
    prepared = prepare_photo(image.astype(np.uint8))
    assert prepared.ndim == 2
    assert (prepared > 200).sum() > 500


@pytest.mark.parametrize("paper", [12, 25, 60])
def test_dark_photograph_is_not_empty(paper: int) -> None:
    ink = written(400, 900, 2.0)
    prepared = prepare_photo(sheet(ink, paper, 0.4 * paper, noise=1.0))
    assert (prepared > 127).mean() > 0.03


def test_margin_is_at_least_that_of_the_training_images() -> None:
    ink = written()
    left, top, width, height = cv2.boundingRect((ink > 0).astype(np.uint8))
    tight = sheet(ink)[top : top + height, left : left + width]
    for image in (sheet(ink), tight):
        prepared = prepare_photo(image)
        x, y, across, down = cv2.boundingRect((prepared > 127).astype(np.uint8))
        assert x >= MARGIN - 2
        assert y >= MARGIN - 2
        assert prepared.shape[1] - x - across >= MARGIN - 2
        assert prepared.shape[0] - y - down >= MARGIN - 2


def ink_box(ink: np.ndarray) -> np.ndarray:
    left, top, width, height = cv2.boundingRect((ink > 0.5).astype(np.uint8))
    return np.array([left, top, left + width, top + height])


def test_frame_and_ruling_do_not_widen_the_box() -> None:
    ink = written(200, 500)
    framed = sheet(ink)
    cv2.rectangle(framed, (8, 8), (490, 190), 60, 2)
    ruled = sheet(ink)
    ruled[10::45] = 150
    for image in (framed, ruled):
        assert np.abs(np.array(find_formula(image).box) - ink_box(ink)).max() <= 6


def test_table_and_border_at_the_edges_do_not_widen_the_box() -> None:
    ink = written(200, 500)
    table = sheet(ink)
    table[:, :14] = 40
    border = sheet(ink)
    cv2.rectangle(border, (1, 1), (498, 198), 60, 2)
    for image in (table, border):
        assert np.abs(np.array(find_formula(image).box) - ink_box(ink)).max() <= 6


def test_specks_far_from_the_formula_are_left_out() -> None:
    ink = written(300, 900)
    image = sheet(ink)
    for x, y in ((20, 15), (880, 290), (500, 12)):
        image[y : y + 4, x : x + 4] = 60
    assert np.abs(np.array(find_formula(image).box) - ink_box(ink)).max() <= 6


def test_cut_off_writing_above_is_left_out() -> None:
    ink = written(160, 400)
    image = sheet(ink)
    image[:13][sheet(ink)[82:95] < 100] = 50
    assert np.abs(np.array(find_formula(image).box) - ink_box(ink)).max() <= 6


def test_rendering_comes_out_unchanged() -> None:
    image = np.zeros((90, 200), np.uint8)
    image[40:43, 30:170] = 255
    image[20:70, 60:63] = 255
    assert np.array_equal(prepare_photo(image), image)


def test_empty_photograph_is_an_error() -> None:
    noise = np.random.default_rng(0).normal(200, 2, (300, 400))
    for image in (np.full((300, 400), 255, np.uint8), noise.astype(np.uint8)):
        with pytest.raises(NoInkError):
            prepare_photo(image)


@pytest.mark.parametrize("ruled", [False, True])
def test_lines_are_cut_apart(ruled: bool) -> None:
    ink = np.concatenate([written(), written(), written()])
    image = sheet(ink, noise=1)
    if ruled:
        image[15::60] = 170
    lines = split_photo(prepare_photo(image))
    assert len(lines) == 3
    assert all(40 < len(line) < 100 for line in lines)
    single = prepare_photo(sheet(written()))
    assert len(split_photo(single)) == 1


@pytest.mark.parametrize(
    "name", [name for name, scene in SCENES.items() if not scene.lines and not scene.alpha]
)
def test_ink_of_a_photograph_is_kept(name: str) -> None:
    clean = np.where(written() > 0.5, np.uint8(255), np.uint8(0))
    photo, truth = photograph(clean, SCENES[name], seed=1)
    prepared = prepare_photo(photo)
    ink = np.where(prepared > 110, np.uint8(255), np.uint8(0))
    assert agreement(ink, truth, clean) > 0.97


@pytest.mark.parametrize("thickness", [6, 11, 16])
def test_thick_pens_do_not_invert_the_image(thickness: int) -> None:
    page = np.zeros((230, 330), np.uint8)
    cv2.putText(page, "B8", (40, 150), cv2.FONT_HERSHEY_SIMPLEX, 2.6, 255, thickness)
    ink = np.asarray(page, np.float32) / 255
    assert not find_formula(sheet(ink, paper=255, dark=15)).light_ink
    assert find_formula(sheet(ink, paper=15, dark=250)).light_ink
