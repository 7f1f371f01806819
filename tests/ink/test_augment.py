"""Stroke augmentation."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from posformer.errors import PosformerError
from posformer.ink import AlignedInk, RenderStyle
from posformer.ink.augmentation import StrokeAugmentation
from writing import aligned, stroke

NONE = StrokeAugmentation().scaled(0)
EXPRESSION = aligned("a + b ^ { 2 } = c d e")


def points_of(ink: AlignedInk) -> np.ndarray:
    return np.concatenate(ink.strokes)


def only(**values: float) -> StrokeAugmentation:
    return StrokeAugmentation(**{**vars(NONE), **values})


def test_strength_zero_only_shifts_the_ink() -> None:
    ink = NONE(EXPRESSION, np.random.default_rng(0))
    shift = points_of(ink) - points_of(EXPRESSION)
    assert np.allclose(shift, shift[0], atol=1e-4)


def test_result_depends_on_the_seed() -> None:
    augment = StrokeAugmentation()
    one, same, other = (augment(EXPRESSION, np.random.default_rng(seed)) for seed in (1, 1, 2))
    assert np.array_equal(points_of(one), points_of(same))
    assert not np.array_equal(points_of(one)[:5], points_of(other)[:5])


@settings(deadline=None, max_examples=40)
@given(st.integers(0, 10_000), st.floats(0, 3))
def test_tokens_and_alignment_are_preserved(seed: int, strength: float) -> None:
    ink = StrokeAugmentation().scaled(strength)(EXPRESSION, np.random.default_rng(seed))
    assert ink.tokens == EXPRESSION.tokens
    assert [bool(row) for row in ink.alignment] == [bool(row) for row in EXPRESSION.alignment]
    owned = [member for row in ink.alignment for member in row]
    assert sorted(owned) == list(range(len(ink.strokes)))
    assert all(len(one) and one.dtype == np.float32 for one in ink.strokes)
    assert np.isfinite(points_of(ink)).all()


def test_slant_is_a_horizontal_shear() -> None:
    ink = only(slant=0.3)(EXPRESSION, np.random.default_rng(0))
    shift = points_of(ink) - points_of(EXPRESSION)
    height = points_of(EXPRESSION)[:, 1]
    slope, _ = np.polyfit(height, shift[:, 0], 1)
    assert abs(slope) > 1e-3
    assert np.allclose(np.ptp(shift[:, 1]), 0, atol=1e-4)


def test_rotation_preserves_distances() -> None:
    ink = only(rotation=20)(EXPRESSION, np.random.default_rng(0))
    for one, other in zip(ink.strokes, EXPRESSION.strokes, strict=True):
        assert np.hypot(*(one[0] - one[-1])) == pytest.approx(np.hypot(*(other[0] - other[-1])))


def test_symbols_are_shifted_independently() -> None:
    ink = only(symbol_shift=3)(EXPRESSION, np.random.default_rng(0))
    shifts = [one - other for one, other in zip(ink.strokes, EXPRESSION.strokes, strict=True)]
    assert all(np.allclose(shift, shift[0], atol=1e-4) for shift in shifts)
    assert np.ptp([shift[0] for shift in shifts], axis=0).min() > 1


def test_dropped_points_never_include_stroke_ends() -> None:
    ink = only(drop=0.9)(EXPRESSION, np.random.default_rng(0))
    assert len(points_of(ink)) < len(points_of(EXPRESSION))
    assert all(len(one) >= 2 for one in ink.strokes)


def test_only_close_strokes_of_one_symbol_are_joined() -> None:
    strokes = (stroke((0, 0), (0, 20)), stroke((5, 20), (20, 20)), stroke((30, 0), (30, 20)))
    ink = AlignedInk("L", ("L", "1"), strokes, ((0, 1), (2,)), "hand")
    joined = only(join=1)(ink, np.random.default_rng(0))
    assert joined.alignment == ((0,), (1,))
    assert len(joined.strokes[0]) == 4
    assert only(join=1, join_gap=2)(ink, np.random.default_rng(0)).alignment == ink.alignment


def test_dot_is_never_joined_to_its_letter() -> None:
    ink = AlignedInk("i", ("i",), (stroke((0, 8), (0, 20)), stroke((0, 2), (1, 3))), ((0, 1),), "")
    assert only(join=1, join_gap=99)(ink, np.random.default_rng(0)).alignment == ((0, 1),)


def test_pen_width_varies_and_stays_positive() -> None:
    rng = np.random.default_rng(0)
    always = only(pen=1)
    assert {always.sample_pen(RenderStyle(), rng).pen_width for _ in range(50)} == {2, 4, 5, 6}
    assert min(always.sample_pen(RenderStyle(pen_width=1), rng).pen_width for _ in range(50)) == 1
    assert NONE.sample_pen(RenderStyle(), rng) == RenderStyle()


def test_thick_pens_are_thinned_again() -> None:
    rng = np.random.default_rng(0)
    pens = [only(pen=1).sample_pen(RenderStyle(), rng) for _ in range(100)]
    assert {pen.thinned for pen in pens if pen.pen_width >= 5} == {1}
    assert {pen.thinned for pen in pens if pen.pen_width <= 4} == {0}


@pytest.mark.parametrize("wrong", [{"noise": -1.0}, {"wavelength": (0.0, 5.0)}])
def test_invalid_settings_are_rejected(wrong: dict) -> None:
    with pytest.raises(PosformerError):
        StrokeAugmentation(**wrong)
