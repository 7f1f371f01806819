"""Layout of handwritten expressions."""

import numpy as np
import pytest

from posformer.errors import DataError, LatexError
from posformer.ink.alignment import inked_places
from posformer.ink.render import render_aligned, strokes_in_pixels
from posformer.synthesis.glyphs import own_bank
from posformer.synthesis.layout import LayoutStyle, lay_out

FORMULAS = [
    "x = \\frac { - b \\pm \\sqrt { b ^ { 2 } - 4 a c } } { 2 a }",
    "\\sum \\limits _ { i = 1 } ^ { n } x _ { i } ^ { 2 } \\leq \\int \\limits _ { 0 } ^ { 1 } f",
    "\\lim \\limits _ { n \\rightarrow \\infty } ( 1 + \\frac { 1 } { n } ) ^ { n } = e",
    "\\sqrt [ 3 ] { \\frac { a + b } { c } } + | \\frac { x } { y } |",
    "f ^ { \\prime } ( x ) = \\sin \\theta \\cdot \\log _ { 2 } y \\ldots",
    "^ { 1 4 } C + x _ { 1 } _ { 2 }",
    "a = b \\\\ c = \\frac { 1 } { 2 } \\\\ d < e",
    "\\{ \\begin{matrix} x & y \\\\ z & w \\end{matrix}",
    "\\begin{cases} x + y = 1 \\\\ x - y = 2 \\end{cases}",
    "\\begin{Vmatrix} 1 & 2 \\\\ 3 & 4 \\end{Vmatrix}",
    "\\begin{array} { l r } x & 1 \\\\ y & 2 \\end{array}",
    "( ( [ x ] ) | y |",
]
SEEDS = range(4)


@pytest.fixture(scope="module")
def bank():
    return own_bank()


def _boxes(text, bank, seed=0, **style):
    """Boxes by token index, in ink units: left, top, right, bottom."""
    ink = lay_out(text.split(), bank, np.random.default_rng(seed), LayoutStyle(**style))
    found = {}
    for index, strokes in enumerate(ink.alignment):
        if strokes:
            points = np.concatenate([ink.strokes[stroke] for stroke in strokes])
            found[index] = (*points.min(axis=0), *points.max(axis=0))
    return found


@pytest.mark.parametrize("text", FORMULAS)
@pytest.mark.parametrize("seed", SEEDS)
def test_every_stroke_belongs_to_exactly_one_token(text, seed, bank):
    ink = lay_out(text.split(), bank, np.random.default_rng(seed))
    assert [index for index, strokes in enumerate(ink.alignment) if strokes] == inked_places(
        ink.tokens
    )
    owned = [stroke for strokes in ink.alignment for stroke in strokes]
    assert sorted(owned) == list(range(len(ink.strokes)))
    assert all(np.isfinite(stroke).all() for stroke in ink.strokes)
    assert all(stroke.dtype == np.float32 for stroke in ink.strokes)


@pytest.mark.parametrize("text", FORMULAS)
def test_boxes_lie_within_the_image(text, bank):
    ink = lay_out(text.split(), bank, np.random.default_rng(1))
    ink = type(ink)(ink.name, ink.tokens, strokes_in_pixels(ink.strokes), ink.alignment, ink.writer)
    image, boxes = render_aligned(ink)
    boxes = boxes[~np.isnan(boxes[:, 0])]
    assert (boxes[:, :2] >= 0).all()
    assert (boxes[:, 2] <= image.shape[1]).all()
    assert (boxes[:, 3] <= image.shape[0]).all()
    assert (boxes[:, 2:] > boxes[:, :2]).all()


def test_layout_depends_on_the_seed(bank):
    def write(seed):
        return lay_out(FORMULAS[0].split(), bank, np.random.default_rng(seed)).strokes

    assert all(np.array_equal(one, two) for one, two in zip(write(3), write(3), strict=True))
    assert any(
        one.shape != two.shape or not np.array_equal(one, two)
        for one, two in zip(write(3), write(4), strict=False)
    )


@pytest.mark.parametrize("seed", range(20))
def test_scripts_are_right_of_their_base_above_and_below(seed, bank):
    boxes = _boxes("x _ { 1 } ^ { 2 }", bank, seed, slope=0.0)
    (base, lower, upper) = (boxes[index] for index in (0, 3, 7))
    middle = (base[1] + base[3]) / 2
    assert upper[3] < middle < lower[3]
    assert upper[3] < lower[1]
    assert min(upper[2], lower[2]) > base[2]


@pytest.mark.parametrize("seed", range(20))
def test_scripts_are_smaller_than_their_base(seed, bank):
    boxes = _boxes("3 ^ { 3 }", bank, seed, irregularity=0.3)
    heights = [bottom - top for _, top, _, bottom in boxes.values()]
    assert heights[1] < 0.85 * heights[0]


@pytest.mark.parametrize("seed", range(20))
def test_numerator_is_above_and_denominator_below_the_bar(seed, bank):
    boxes = _boxes("\\frac { a + 1 } { y ^ { 2 } }", bank, seed, slope=0.0)
    bar = boxes[0]
    above, below = [boxes[index] for index in (2, 3, 4)], [boxes[index] for index in (7, 10)]
    assert max(box[3] for box in above) < bar[1]
    assert min(box[1] for box in below) > bar[3]


@pytest.mark.parametrize("seed", range(20))
def test_main_bar_of_nested_fractions_is_the_longest(seed, bank):
    boxes = _boxes("\\frac { 1 } { \\frac { a } { b } }", bank, seed)
    assert boxes[0][2] - boxes[0][0] > boxes[5][2] - boxes[5][0]


@pytest.mark.parametrize("seed", range(20))
def test_radical_covers_the_radicand(seed, bank):
    boxes = _boxes("\\sqrt { x + \\frac { 1 } { 2 } }", bank, seed, slope=0.0)
    sign = boxes.pop(0)
    assert sign[1] < min(box[1] for box in boxes.values())
    assert sign[0] < min(box[0] for box in boxes.values())
    assert sign[2] > max((box[0] + box[2]) / 2 for box in boxes.values())


@pytest.mark.parametrize("seed", range(10))
def test_delimiters_grow_with_their_content(seed, bank):
    plain = _boxes("( x )", bank, seed)
    tall = _boxes("( \\frac { \\frac { 1 } { x } } { 2 } )", bank, seed)
    indices = sorted(tall)
    inner = [tall[index] for index in indices[1:-1]]
    extent = max(box[3] for box in inner) - min(box[1] for box in inner)
    for index in (indices[0], indices[-1]):
        height = tall[index][3] - tall[index][1]
        assert height > 0.75 * extent
        assert height > plain[0][3] - plain[0][1]


@pytest.mark.parametrize("seed", range(10))
def test_limits_are_above_and_below_a_sum(seed, bank):
    text = "\\sum \\limits _ { i = 1 } ^ { n } i"
    boxes = _boxes(text, bank, seed, sum_limits_beside=0.0, slope=0.0)
    assert boxes[10][3] < boxes[0][1]
    assert boxes[4][1] > boxes[0][3]


@pytest.mark.parametrize("seed", range(10))
def test_lines_are_below_each_other(seed, bank):
    boxes = _boxes("a = b \\\\ c = \\frac { 1 } { 2 } \\\\ d", bank, seed, slope=0.0)
    first = [boxes[index] for index in (0, 1, 2)]
    second = [box for index, box in boxes.items() if 4 <= index < 13]
    assert max(box[3] for box in first) < min(box[1] for box in second)
    assert max(box[3] for box in second) < boxes[max(boxes)][1]


@pytest.mark.parametrize("seed", range(10))
def test_equations_are_right_of_their_brace(seed, bank):
    text = "\\begin{cases} x = 1 \\\\ y = 2 \\end{cases}"
    boxes = _boxes(text, bank, seed)
    brace = boxes.pop(0)
    assert len(boxes) == 6
    assert all(brace[2] < box[0] for box in boxes.values())
    middles = [(box[1] + box[3]) / 2 for box in boxes.values()]
    assert brace[1] < min(middles) and max(middles) < brace[3]


@pytest.mark.parametrize(
    ("environment", "left", "right"),
    [("pmatrix", 1, 1), ("bmatrix", 1, 1), ("vmatrix", 1, 1), ("Vmatrix", 2, 2), ("matrix", 0, 0)],
)
def test_matrices_are_between_their_delimiters(environment, left, right, bank):
    tokens = f"\\begin{{{environment}}} 1 & 2 \\\\ 3 & 4 \\end{{{environment}}}".split()
    boxes = _boxes(" ".join(tokens), bank, irregularity=0.0)
    cells = [boxes[index] for index, token in enumerate(tokens) if token.isdigit()]
    assert (0 in boxes, len(tokens) - 1 in boxes) == (bool(left), bool(right))
    if left:
        assert boxes[0][2] < min(cell[0] for cell in cells)
        assert boxes[len(tokens) - 1][0] > max(cell[2] for cell in cells)
    one, two, three, four = cells
    assert max(one[2], three[2]) < min(two[0], four[0])
    assert max(one[3], two[3]) < min(three[1], four[1])


@pytest.mark.parametrize("seed", range(10))
def test_equations_are_aligned_at_the_equals_sign(seed, bank):
    text = "\\begin{aligned} a b c & = 1 \\\\ x & = 2 \\\\ & = 3 \\end{aligned}"
    boxes = _boxes(text, bank, seed, slope=0.0)
    signs = [boxes[index][0] for index, token in enumerate(text.split()) if token == "="]
    left_sides = [boxes[index][2] for index, token in enumerate(text.split()) if token in "cx"]
    x_height = 100.0
    assert max(signs) - min(signs) < x_height
    assert max(left_sides) < min(signs)


def test_symbols_of_a_line_run_from_left_to_right(bank):
    boxes = _boxes("1 2 3 4 5 6 7 8 9", bank, irregularity=0.0)
    lefts = [boxes[index][0] for index in sorted(boxes)]
    assert lefts == sorted(lefts)
    assert all(boxes[index][2] <= boxes[index + 1][0] for index in range(8))


def test_writer_can_be_chosen(bank):
    writer = bank.writers[2]
    assert lay_out(["x"], bank, np.random.default_rng(0), writer=writer).writer == writer


def test_symbol_without_samples_is_named(bank):
    with pytest.raises(DataError, match="heartsuit"):
        lay_out(["\\heartsuit"], bank, np.random.default_rng(0))


@pytest.mark.parametrize("text", ["", "{ }", "\\\\", "\\begin{cases} \\end{cases}"])
def test_empty_expression_is_an_error(text, bank):
    with pytest.raises(LatexError, match="nothing to write"):
        lay_out(text.split(), bank, np.random.default_rng(0))


MARKED = [
    "\\hat { x } + \\overline { A B } - \\underline { y } + \\vec { v } \\ddot { q }",
    "\\widehat { a b c } \\overrightarrow { A B } \\underbrace { a + b } _ { n }",
    "\\mathbb { R } ^ { n } \\binom { n } { k } \\overset { a } { = } \\underset { x } { \\max }",
    "\\xrightarrow [ n ] { f } \\boxed { x } \\textcircled { 3 } \\cancel { y }",
    "\\arctan x + \\limsup \\limits _ { n } a _ { n }",
]


@pytest.mark.parametrize("text", MARKED)
@pytest.mark.parametrize("seed", SEEDS)
def test_marks_have_ink_and_fonts_have_none(text, seed, bank):
    ink = lay_out(text.split(), bank, np.random.default_rng(seed))
    assert [index for index, strokes in enumerate(ink.alignment) if strokes] == inked_places(
        ink.tokens
    )
    assert all(stroke.dtype == np.float32 for stroke in ink.strokes)


@pytest.mark.parametrize("seed", SEEDS)
def test_accents_are_above_or_below_their_argument(seed, bank):
    above = _boxes("\\hat { x }", bank, seed)
    assert above[0][3] < above[2][1]
    below = _boxes("\\underline { x }", bank, seed)
    assert below[0][1] > below[2][3]


@pytest.mark.parametrize("seed", SEEDS)
def test_wide_accents_span_their_argument(seed, bank):
    boxes = _boxes("\\overline { a + b + c }", bank, seed, irregularity=0.0)
    left = min(box[0] for index, box in boxes.items() if index)
    right = max(box[2] for index, box in boxes.items() if index)
    assert abs(boxes[0][0] - left) < 20
    assert abs(boxes[0][2] - right) < 20


@pytest.mark.parametrize("seed", SEEDS)
def test_frames_enclose_their_argument(seed, bank):
    boxes = _boxes("\\boxed { x ^ { 2 } }", bank, seed, irregularity=0.0)
    frame = boxes.pop(0)
    for left, top, right, bottom in boxes.values():
        assert frame[0] < left
        assert frame[1] < top
        assert right < frame[2]
        assert bottom < frame[3]


def test_binomials_are_enclosed_by_their_parentheses(bank):
    boxes = _boxes("\\binom { n } { k }", bank, irregularity=0.0)
    assert boxes[0][0] < boxes[2][0]
    assert boxes[2][2] < boxes[0][2]
    assert boxes[2][3] < boxes[5][1]


def test_calligraphic_letters_need_samples(bank):
    with pytest.raises(DataError, match="mathcal"):
        lay_out(["\\mathcal", "{", "A", "}"], bank, np.random.default_rng(0))
