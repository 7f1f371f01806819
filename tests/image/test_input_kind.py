"""Which kind of input an image is: a rendering of ink, a photograph, or a clean image."""

from pathlib import Path

import cv2
import numpy as np
import pytest

from posformer.data import open_images
from posformer.image.preparation import InputKind, input_kind


def page(paper: int, ink: int, noise: float = 0.0) -> np.ndarray:
    image = np.full((80, 200), paper, np.uint8)
    cv2.putText(image, "x+y", (20, 55), cv2.FONT_HERSHEY_SIMPLEX, 1.5, ink, 3, cv2.LINE_AA)
    noisy = image + np.random.default_rng(0).normal(0, 1, image.shape) * noise
    return np.clip(np.rint(noisy), 0, 255).astype(np.uint8)


def colored(image: np.ndarray) -> np.ndarray:
    return np.stack([image, image, np.minimum(image, 200)], axis=2)


@pytest.mark.parametrize(
    ("image", "kind"),
    [
        (np.uint8(255) * (page(0, 255) > 127), "ink"),
        (page(0, 255), "clean"),
        (page(255, 0), "clean"),
        (np.uint8(255) * (page(255, 0) > 127), "clean"),
        (colored(page(240, 30)), "clean"),
        (page(230, 60, noise=3), "photo"),
        (colored(page(40, 230, noise=3)), "photo"),
    ],
)
def test_paper_of_one_color_is_clean(image: np.ndarray, kind: InputKind) -> None:
    assert input_kind(image) == kind


def test_uneven_light_makes_a_photograph() -> None:
    light = np.linspace(0.6, 1.0, 200)
    assert input_kind(np.rint(page(240, 30) * light).astype(np.uint8)) == "photo"


def test_real_photographs_and_screenshots_are_told_apart(labeled_photos: Path) -> None:
    photos = open_images(labeled_photos, "dev")
    expected = {"photo-paper": "photo", "photo-print": "photo", "tablet": "clean"}
    expected |= {"photo-board": "photo", "screen-print": "clean"}
    for kind, members in photos.by_kind().items():
        if kind in expected:
            found = {members.input_kind(index) for index in range(len(members))}
            assert found == {expected[kind]}, kind
