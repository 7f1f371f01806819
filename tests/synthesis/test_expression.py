"""The layout tree of an expression."""

import pytest

from posformer.latex import tokenize
from posformer.synthesis.expression import (
    DEEPEST,
    ExpressionError,
    Fraction,
    Lines,
    Radical,
    Row,
    Scripted,
    Symbol,
    parse,
    row_symbols,
    rows,
)


def _only(text: str):
    (((item,),),) = ([[row.items for row in line] for line in parse(text.split()).lines],)[0]
    return item


def test_a_fraction_has_two_rows():
    item = _only("\\frac { a } { b + c }")
    assert isinstance(item, Fraction)
    assert (item.place, len(item.upper.items), len(item.lower.items)) == (0, 1, 3)


def test_a_root_may_have_an_index():
    item = _only("\\sqrt [ 3 ] { x }")
    assert isinstance(item, Radical)
    assert item.degree == Row((Symbol(2),))
    assert item.body == Row((Symbol(5),))


def test_scripts_hang_on_their_base_in_any_order():
    assert _only("x _ { 1 } ^ { 2 }") == Scripted(
        Symbol(0), Row((Symbol(3),)), Row((Symbol(7),)), limits=False
    )
    assert _only("x ^ { 2 } _ { 1 }") == Scripted(
        Symbol(0), Row((Symbol(7),)), Row((Symbol(3),)), limits=False
    )


def test_a_script_may_have_no_base():
    row = parse(tokenize("^ { 1 4 } C")).lines[0][0]
    assert row.items[0] == Scripted(None, None, Row((Symbol(2), Symbol(3))), limits=False)


def test_limits_belong_to_their_operator():
    item = _only("\\sum \\limits _ { i } ^ { n }")
    assert isinstance(item, Scripted)
    assert item.limits


def test_lines_and_environments():
    assert len(parse(tokenize("a \\\\ b \\\\ c")).lines) == 3
    item = _only("\\begin{cases} a & b \\\\ c & d \\end{cases}")
    assert isinstance(item, Lines)
    assert [len(line) for line in item.lines] == [2, 2]


def test_rows_hold_the_symbols_on_their_baseline():
    tree = parse(tokenize("x ^ { 2 } + \\frac { a } { b }"))
    assert [list(row_symbols(row)) for row in rows(tree)] == [[0, 5], [3], [8], [11]]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x ^", "end of expression: an argument is missing"),
        ("x ^ { 2", "token 3 '{': a group that is not closed"),
        ("x }", "token 2 '}': nothing it could belong to"),
        ("\\begin{array} { l } x", "token 1 '\\begin{array}': an environment that is not closed"),
        ("{ " * (DEEPEST + 1) + "x" + " }" * (DEEPEST + 1), "groups nested deeper"),
    ],
)
def test_what_is_no_expression_is_told_by_token_and_place(text, message):
    with pytest.raises(ExpressionError) as caught:
        parse(text.split())
    assert message in str(caught.value)
