"""Filled contours."""

import numpy as np

from posformer.ink.aligned import AlignedInk
from posformer.ink.fill import fill_aligned, filled_size, print_scale


def _square(left, top, right, bottom):
    corners = [[left, top], [right, top], [right, bottom], [left, bottom]]
    return np.array(corners, np.float32)


def _ink(*contours):
    return AlignedInk("", ("a",), contours, (tuple(range(len(contours))),), "", filled=True)


def test_holes_stay_empty():
    ink = _ink(_square(0, 0, 100, 100), _square(25, 25, 75, 75)[::-1])
    image, _ = fill_aligned(ink, 1.0, margin=5)
    assert image[10, 55] == 255
    assert image[55, 55] == 0


def test_overlapping_contours_are_joined():
    ink = _ink(_square(0, 0, 100, 20), _square(50, 0, 150, 20)[::-1])
    image, _ = fill_aligned(ink, 1.0, margin=5)
    assert (image[15, 10:150] == 255).all()


def test_boxes_fit_the_ink():
    ink = AlignedInk(
        "", ("a", "{", "b"), (_square(0, 0, 40, 50), _square(60, 10, 90, 30)), ((0,), (), (1,)), ""
    )
    image, boxes = fill_aligned(ink, 0.5, margin=7)
    assert image.shape == filled_size(ink, 0.5, margin=7)
    np.testing.assert_allclose(boxes[[0, 2]], [[7, 7, 27, 32], [37, 12, 52, 22]])
    assert np.isnan(boxes[1]).all()
    rows, columns = np.nonzero(image > 127)
    assert (columns.min(), rows.min()) == (7, 7)
    assert (columns.max(), rows.max()) == (51, 31)


def test_scale_gives_symbols_the_usual_height():
    ink = _ink(_square(0, 0, 100, 59))
    assert print_scale(ink) == 0.5
