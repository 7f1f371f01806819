"""Rendering strokes like CROHME's images."""

import io
import zipfile
from pathlib import Path, PurePosixPath

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image
from typer.testing import CliRunner

from posformer.cli import app
from posformer.errors import InkError
from posformer.ink import (
    RenderStyle,
    natural_scale,
    read_inkml,
    render,
    render_aligned,
    rendered_size,
    strokes_in_pixels,
)
from posformer.recognizer import prepare
from writing import aligned, fraction_ink, stroke

points = st.tuples(st.floats(-500, 500, width=32), st.floats(-500, 500, width=32))
strokes_of_any_shape = st.lists(
    st.lists(points, min_size=1, max_size=12).map(lambda rows: np.array(rows, np.float32)),
    min_size=1,
    max_size=6,
)
styles = st.builds(
    RenderStyle,
    scale=st.floats(0.2, 2),
    margin=st.tuples(st.integers(0, 20), st.integers(0, 20)),
    pen_width=st.integers(1, 6),
)


def test_point_becomes_a_square_inside_the_margin() -> None:
    image = render([stroke((5.7, 3.2))])
    assert image.shape == (26, 26)
    rows, columns = np.nonzero(image)
    assert (rows.min(), rows.max(), columns.min(), columns.max()) == (12, 14, 12, 14)
    assert set(np.unique(image)) == {0, 255}


def test_lines_round_half_pixels_away_from_their_start() -> None:
    style = RenderStyle(margin=(0, 0), pen_width=1)
    forward = render([stroke((0, 0), (2, 1))], style) > 0
    backward = render([stroke((2, 1), (0, 0))], style) > 0
    assert forward.tolist() == [[True, False, False], [False, True, True]]
    assert backward.tolist() == [[True, True, False], [False, False, True]]


def test_no_line_is_drawn_between_strokes() -> None:
    style = RenderStyle(margin=(0, 0), pen_width=1)
    image = render([stroke((0, 0), (0, 2)), stroke((10, 0), (10, 2))], style)
    assert not image[:, 1:10].any()
    assert (np.count_nonzero(image[:, 0]), np.count_nonzero(image[:, 10])) == (3, 3)


@settings(deadline=None)
@given(strokes_of_any_shape, styles)
def test_rendered_size_matches_the_image(strokes: list[np.ndarray], style: RenderStyle) -> None:
    assert render(strokes, style).shape == rendered_size(strokes, style)


@settings(deadline=None)
@given(strokes_of_any_shape, st.integers(1, 6), st.integers(0, 9))
def test_ink_touches_the_empty_margin(strokes: list[np.ndarray], pen: int, margin: int) -> None:
    image = render(strokes, RenderStyle(margin=(margin, margin), pen_width=pen))
    rows, columns = np.nonzero(image)
    height, width = image.shape
    assert (rows.min(), columns.min()) == (margin, margin)
    assert (rows.max(), columns.max()) == (height - margin - 1, width - margin - 1)


def test_thinned_stroke_loses_its_outer_pixels() -> None:
    line = [np.array([(0.0, 0.0), (40.0, 0.0)])]
    image = render(line, RenderStyle(margin=(0, 0), pen_width=5, thinned=1))
    assert image.shape == (5, 45)
    assert image[:, 5:40].any(axis=1).tolist() == [False, True, True, True, False]


def test_boxes_enclose_the_ink_of_their_tokens() -> None:
    ink = aligned("a + b ^ { 2 }")
    image, boxes = render_aligned(ink)
    for index, members in enumerate(ink.alignment):
        if not members:
            assert np.isnan(boxes[index]).all()
            continue
        left, top, right, bottom = boxes[index].astype(int)
        inside = image[top:bottom, left:right]
        assert inside.any(axis=0).all()
        assert inside.any(axis=1).all()
    inked = boxes[~np.isnan(boxes[:, 0])].astype(int)
    for left, top, right, bottom in inked:
        image[top:bottom, left:right] = 0
    assert not image.any()


def test_boxes_scale_with_the_image() -> None:
    ink = aligned("a + b")
    full, boxes = render_aligned(ink)
    half, half_boxes = render_aligned(ink, RenderStyle(scale=0.5))
    assert half.shape == (full.shape[0] // 2, full.shape[1] // 2)
    assert np.allclose(half_boxes, boxes / 2, atol=1)


def test_ink_in_any_unit_has_the_same_rendered_size() -> None:
    small = [stroke((0, 0), (10, 40)), stroke((20, 5), (50, 47)), stroke((60, 20), (90, 21))]
    large = [points * 100 for points in small]
    tiny = [points.astype(np.float64) / 1000 for points in small]
    assert natural_scale(small) == pytest.approx(28 / 41)
    assert rendered_size(strokes_in_pixels(large)) == rendered_size(strokes_in_pixels(small))
    assert rendered_size(strokes_in_pixels(tiny)) == rendered_size(strokes_in_pixels(small))


def test_single_minus_sign_is_sized_by_width() -> None:
    _, width = rendered_size(strokes_in_pixels([stroke((0, 0), (100, 2), (200, 0))]))
    assert width < 80


def test_single_dot_is_rendered() -> None:
    assert render(strokes_in_pixels([stroke((7, 7))])).any()


@pytest.mark.parametrize(
    "wrong", [{"scale": 0}, {"margin": (-1, 0)}, {"pen_width": 0}, {"thinned": 3}]
)
def test_invalid_styles_are_rejected(wrong: dict) -> None:
    with pytest.raises(InkError):
        RenderStyle(**wrong)


def test_too_large_image_is_rejected() -> None:
    with pytest.raises(InkError, match="too large"):
        render([stroke((0, 0), (1e6, 1e6))])


def test_render_command_writes_the_image(tmp_path: Path) -> None:
    (tmp_path / "a.inkml").write_bytes(fraction_ink())
    arguments = ["render", str(tmp_path / "a.inkml"), str(tmp_path / "a.png"), "--margin", "4"]
    assert CliRunner().invoke(app, arguments).exit_code == 0
    ink = read_inkml(tmp_path / "a.inkml")
    expected = render(strokes_in_pixels(ink.strokes), RenderStyle(margin=(4, 4)))
    assert (np.asarray(Image.open(tmp_path / "a.png")) == expected).all()


def test_render_command_names_an_unwritable_file(tmp_path: Path) -> None:
    (tmp_path / "a.inkml").write_bytes(fraction_ink())
    arguments = ["render", str(tmp_path / "a.inkml"), str(tmp_path / "a.nothing")]
    result = CliRunner().invoke(app, arguments)
    assert isinstance(result.exception, InkError)
    assert "a.nothing" in str(result.exception)


@pytest.mark.parametrize("split", ["train", "2014", "2016"])
def test_crohme_images_are_reproduced_pixel_for_pixel(
    crohme_zip: Path, crohme_ink_zip: Path, split: str
) -> None:
    with zipfile.ZipFile(crohme_zip) as images, zipfile.ZipFile(crohme_ink_zip) as inks:
        known = set(images.namelist())
        files = [name for name in inks.namelist() if f"/{split}/" in name]
        pairs = [(file, f"data/{split}/img/{PurePosixPath(file).stem}.bmp") for file in files]
        identical = []
        for file, bitmap in [pair for pair in pairs if pair[1] in known][::60]:
            real = np.asarray(Image.open(io.BytesIO(images.read(bitmap))))
            rendered = render(strokes_in_pixels(read_inkml(inks.read(file), file).strokes))
            identical.append(
                rendered.shape == real.shape and bool(((rendered > 0) == (real > 0)).all())
            )
    assert sum(identical) / len(identical) > 0.95


def test_size_after_scaling_is_bounded():
    strokes = [np.array([[0, 0], [2000, 2000]], float)]
    assert render(strokes).shape == (2026, 2026)
    with pytest.raises(InkError, match="too large"):
        render(strokes, RenderStyle(scale=4.0))


def test_length_of_lines_is_bounded(bounded):
    """A short file with a line that goes to and fro must not need gigabytes."""
    sweep = ", ".join(f"{x} {y}" for y in range(30) for x in (0, 290_000))
    ink = f"<ink><trace>0 0, 0 28</trace><trace>{sweep}</trace></ink>".encode()
    assert len(ink) < 600
    with pytest.raises(InkError, match="too long"):
        bounded(prepare, ink)


def test_many_flat_strokes_take_linear_time(bounded):
    strokes = [[[0, 100 * number], [60, 100 * number]] for number in range(1000)]
    assert len(bounded(prepare, strokes)) >= 1
