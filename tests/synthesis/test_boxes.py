"""Boxes of positioned symbols, and stretching."""

import numpy as np
import pytest

from posformer.synthesis.bank import SymbolSample
from posformer.synthesis.boxes import Box, hook_of, stretch_bar, stretch_radical


def _sample(token, *points):
    array = np.array(points, np.float32)
    width, height = array.max(axis=0).tolist()
    return SymbolSample(token, "ann", array, (len(array),), width, height, 10.0, height)


DROOPING = _sample("\\sqrt", (0, 12), (4, 10), (8, 30), (14, 1), (30, 0), (50, 8), (60, 14))


def test_box_grows_with_its_content():
    box = Box()
    box.put(Box.of(0, np.array([[5, 5], [7, 9]], np.float32), (2,), top=-4.0), 1.0, 0.0)
    box.put(Box.of(1, np.array([[0, 0], [3, 1]], np.float32), (2,), top=-1.0), 6.0, 2.0)
    assert (box.width, box.top, box.bottom) == (9.0, -4.0, 2.0)
    assert [(piece.index, piece.x, piece.y) for piece in box.pieces] == [(0, 1, -4), (1, 6, 1)]


def test_bar_of_a_radical_begins_after_the_upstroke():
    assert hook_of(DROOPING) == 14
    assert hook_of(_sample("\\sqrt", (0, 0), (10, 0), (20, 0.5))) is None


def test_hook_and_bar_of_a_radical_are_stretched_independently():
    points = stretch_radical(DROOPING, 14, sign=7.0, bar=92.0, height=60.0, clearance=60.0)
    assert points[3] == pytest.approx((7, 2))
    assert points[-1] == pytest.approx((99, 28))
    assert points[:, 1].max() == pytest.approx(60)


def test_drooping_bar_keeps_clear_of_the_radicand():
    points = stretch_radical(DROOPING, 14, sign=7.0, bar=92.0, height=60.0, clearance=5.0)
    bar = points[(points[:, 0] > 7) & (points[:, 0] < 90)]
    assert bar[:, 1].max() <= 5
    assert points[:4] == pytest.approx(
        stretch_radical(DROOPING, 14, 7.0, 92.0, 60.0, clearance=60.0)[:4]
    )


def test_stretched_bar_has_the_requested_length_and_limited_height():
    bar = _sample("\\frac", (0, 0), (10, 4), (20, 1))
    long = stretch_bar(bar, 200.0, thickest=6.0)
    assert np.ptp(long, axis=0) == pytest.approx((200, 6))
    short = stretch_bar(bar, 10.0, thickest=6.0)
    assert np.ptp(short, axis=0) == pytest.approx((10, 2))
