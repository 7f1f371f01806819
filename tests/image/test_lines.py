"""Line splitting of images."""

from itertools import pairwise

import cv2
import numpy as np
import pytest

from posformer.image.cleanup import CleanImage, clean
from posformer.image.lines import MIN_LINE_GAP, find_lines, split_lines


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


def dashes(count: int, gap: int) -> np.ndarray:
    image = np.zeros((count * gap, 300), np.uint8)
    for number in range(count):
        left = (number * 37) % 200
        image[number * gap : number * gap + 3, left : left + 60] = 255
    return image


def test_many_flat_parts_take_linear_time(bounded):
    assert len(bounded(find_lines, dashes(4000, 20))) == 1
    assert len(bounded(find_lines, dashes(1000, 60))) == 1000


@pytest.mark.parametrize("seed", range(30))
def test_bars_join_what_they_span(seed):
    """Against the definition: join the nearest parts that belong together until none do."""
    rng = np.random.default_rng(seed)
    image = np.zeros((rng.integers(60, 400), 250), np.uint8)
    for _ in range(rng.integers(2, 16)):
        corner = rng.integers(0, image.shape[::-1])
        size = rng.integers((10, 1), (150, 6)) if rng.random() < 0.5 else rng.integers(2, 30, 2)
        cv2.rectangle(image, corner.tolist(), (corner + size).tolist(), 255, -1)
    ink = (image > 0).astype(np.uint8)
    _, _, boxes, _ = cv2.connectedComponentsWithStats(ink, connectivity=8)
    bars = [box for box in boxes[1:] if box[2] >= 3 * box[3] and box[2] >= 17.7]
    inked = np.flatnonzero(np.diff(ink.any(axis=1).astype(int), prepend=0, append=0))
    bands = [tuple(band) for band in inked.reshape(-1, 2).tolist()]
    while gaps := [
        (lower[0] - upper[1], index)
        for index, (upper, lower) in enumerate(pairwise(bands))
        if belong_together(ink, upper, lower, bars)
    ]:
        index = min(gaps)[1]
        bands[index : index + 2] = [(bands[index][0], bands[index + 1][1])]
    assert find_lines(image) == bands


def belong_together(ink, upper, lower, bars) -> bool:
    gap = lower[0] - upper[1]
    if (
        gap < MIN_LINE_GAP
        or faces_bar(ink, upper, lower, bars)
        or faces_bar(ink, lower, upper, bars)
    ):
        return True
    heights = [band[1] - band[0] for band in (upper, lower)]
    columns = [np.flatnonzero(ink[slice(*band)].any(axis=0)) for band in (upper, lower)]
    widths = [np.ptp(inked) + 1 for inked in columns]
    is_limit = heights[int(np.argmin(widths))] <= 26.55 and 2 * min(widths) <= max(widths)
    return (min(heights) <= 12 or is_limit) and gap < 2 * MIN_LINE_GAP


def faces_bar(ink, part, other, bars) -> bool:
    columns = ink[slice(*part)].any(axis=0)
    for left, top, width, height, _ in bars:
        between = slice(part[1], top) if part[0] < top else slice(top + height, part[0])
        span = slice(left, left + width)
        spans = columns[span].sum() > 0.9 * columns.sum()
        if spans and other[0] <= top < other[1] and not ink[between, span].any():
            return True
    return False
