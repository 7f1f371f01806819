"""The camera simulation: same seed, same image; boxes follow the ink; ink stays visible."""

from dataclasses import replace

import cv2
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from posformer.image.camera import KINDS, Camera, CameraStyle, photograph, sample_style
from posformer.image.normalize import flatten
from posformer.ink.alignment import in_pixels
from posformer.ink.render import RenderStyle, render_aligned
from posformer.synthesis.synthesizer import Synthesizer

GEOMETRY = ("margins", "rotation", "shear", "perspective", "curl")


@pytest.fixture(scope="module")
def samples() -> list[tuple[np.ndarray, np.ndarray]]:
    """Renderings in the project's own hand, and the boxes of their tokens."""
    synthesizer = Synthesizer.own()
    rng = np.random.default_rng(5)
    style = RenderStyle(margin=(0, 0))
    inks = (in_pixels(synthesizer.make(rng)) for _ in range(60))
    made = [render_aligned(ink, style) for ink in inks]
    return [sample for sample in made if sample[0].shape[1] > 60]


def only_geometry(style: CameraStyle) -> CameraStyle:
    """Black ink on white, with the geometry of a style."""
    plain = CameraStyle(seed=style.seed, ink=0.0, paper=1.0)
    return replace(plain, **{name: getattr(style, name) for name in GEOMETRY})


@pytest.mark.parametrize("kind", KINDS)
def test_same_generator_gives_same_image(
    kind: str, samples: list[tuple[np.ndarray, np.ndarray]]
) -> None:
    camera = Camera({kind: 1})
    image, boxes = samples[0]
    first = camera(image, boxes, np.random.default_rng(7))
    again = camera(image, boxes, np.random.default_rng(7))
    other = camera(image, boxes, np.random.default_rng(8))
    assert np.array_equal(first[0], again[0])
    assert np.array_equal(first[1], again[1], equal_nan=True)
    assert first[0].shape != other[0].shape or not np.array_equal(first[0], other[0])


def test_input_is_not_changed(samples: list[tuple[np.ndarray, np.ndarray]]) -> None:
    image, boxes = samples[0][0].copy(), samples[0][1].copy()
    Camera()(image, boxes, np.random.default_rng(0))
    assert np.array_equal(image, samples[0][0])
    assert np.array_equal(boxes, samples[0][1], equal_nan=True)


def test_float_coverage_equals_bytes(samples: list[tuple[np.ndarray, np.ndarray]]) -> None:
    image, boxes = samples[0]
    style = sample_style(np.random.default_rng(3), "photo")
    from_bytes, _ = photograph(image, boxes, style)
    from_floats, _ = photograph(image.astype(np.float32), boxes, style)
    assert np.array_equal(from_bytes, from_floats)


@given(seed=st.integers(0, 10_000), x=st.integers(0, 280), y=st.integers(0, 80))
def test_box_follows_ink(seed: int, x: int, y: int) -> None:
    coverage = np.zeros((100, 320), np.uint8)
    coverage[y : y + 20, x : x + 40] = 255
    boxes = np.array([[x, y, x + 40, y + 20]], np.float32)
    style = only_geometry(sample_style(np.random.default_rng(seed), "photo"))
    image, moved = photograph(coverage, boxes, style)
    left, top, width, height = cv2.boundingRect((image < 100).astype(np.uint8))
    assert np.abs(moved[0] - (left, top, left + width, top + height)).max() <= 2.5


def test_all_tokens_stay_in_the_image(samples: list[tuple[np.ndarray, np.ndarray]]) -> None:
    rng = np.random.default_rng(0)
    for image, boxes in samples:
        photo, moved = Camera()(image, boxes, rng)
        inked = moved[~np.isnan(moved).any(axis=1)]
        assert len(moved) == len(boxes)
        assert len(inked) == (~np.isnan(boxes).any(axis=1)).sum()
        assert inked.min() >= -0.5
        assert (inked[:, 2:] <= np.array(photo.shape[::-1]) + 0.5).all()


def test_no_tokens_give_no_boxes() -> None:
    coverage = np.zeros((40, 60), np.uint8)
    _, moved = Camera()(coverage, np.zeros((0, 4), np.float32), np.random.default_rng(0))
    assert moved.shape == (0, 4)


def test_scale_applies_to_image_and_boxes() -> None:
    coverage = np.zeros((200, 600), np.uint8)
    coverage[80:120, 100:180] = 255
    boxes = np.array([[100, 80, 180, 120]], np.float32)
    image, moved = Camera({"screenshot": 1}, scale=0.5)(coverage, boxes, np.random.default_rng(1))
    assert abs((moved[0, 2] - moved[0, 0]) - 40) < 6
    assert image.shape[0] < 200
    assert image.shape[1] < 420


@pytest.mark.parametrize("kind", KINDS)
def test_ink_is_visible(kind: str, samples: list[tuple[np.ndarray, np.ndarray]]) -> None:
    contrasts = []
    for seed in range(60):
        image, boxes = samples[seed % len(samples)]
        style = sample_style(np.random.default_rng(seed), kind)
        photo, _ = photograph(image, boxes, style)
        ink = photograph(image, boxes, only_geometry(style))[0] < 60
        away = cv2.dilate(ink.astype(np.uint8), np.ones((9, 9), np.uint8)) == 0
        assert photo.dtype == np.uint8
        assert photo.shape == ink.shape
        flat = flatten(photo)
        contrasts.append(flat[ink].mean() - flat[away].mean())
    assert np.median(contrasts) > 120
    assert np.quantile(contrasts, 0.1) > 100
    assert min(contrasts) > 40


def test_thin_ink_does_not_vanish() -> None:
    coverage = np.zeros((60, 200), np.uint8)
    coverage[30, 20:180] = 255
    style = CameraStyle(pen=0.75, ink=0.2)
    image, _ = photograph(coverage, np.zeros((0, 4), np.float32), style)
    assert image.min() < 0.7 * image.max()


def test_unknown_kind_is_an_error() -> None:
    with pytest.raises(ValueError, match="unknown kind 'fax'"):
        sample_style(np.random.default_rng(0), "fax")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="unknown kind 'fax'"):
        Camera({"fax": 1})  # type: ignore[dict-item]


@pytest.mark.parametrize("shape", [(1, 1), (1, 200), (120, 2), (700, 1100)])
def test_any_size_of_coverage(shape: tuple[int, int]) -> None:
    height, width = shape
    coverage = np.full(shape, 255, np.uint8)
    boxes = np.array([[0, 0, width, height], [np.nan] * 4], np.float32)
    for seed in range(20):
        image, moved = photograph(coverage, boxes, sample_style(np.random.default_rng(seed)))
        assert image.shape[0] < 1.4 * height + 0.2 * width + 80
        assert image.shape[1] < 1.4 * width + 0.2 * height + 80
        assert moved[0].min() >= -0.5
        assert np.isnan(moved[1]).all()
