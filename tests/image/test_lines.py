"""Line splitting of images."""

import numpy as np

from posformer.image.cleanup import CleanImage, clean
from posformer.image.lines import split_lines


def as_cleaned(image: np.ndarray) -> CleanImage:
    return CleanImage(image, (0, 0, image.shape[1], image.shape[0]), 1.0, True, 3.0)


def test_stacked_formulas_are_split(images):
    width = max(image.shape[1] for image in images)
    stack = [np.pad(p[12:-11], ((0, 40), (0, width - p.shape[1]))) for p in images]
    lines = split_lines(clean(np.pad(np.vstack(stack), 12)))
    assert len(lines) == len(images)
    for line, image in zip(lines, images, strict=True):
        assert (line.image == image).all()
    tops = [line.box[1] for line in lines]
    assert tops == sorted(tops)


def test_single_formula_is_not_split(images):
    for image in images:
        cleaned = clean(image)
        assert split_lines(cleaned) == [cleaned]


def test_crohme_formulas_are_rarely_split(real_images):
    is_split = [len(split_lines(as_cleaned(image))) > 1 for image in real_images]
    assert np.mean(is_split) <= 0.04
