"""Syntax check."""

import pytest
from hypothesis import given

from expressions import captions
from posformer.errors import LatexError
from posformer.latex import check, is_valid, normalize


@pytest.mark.parametrize(
    "tokens",
    [
        "",
        "x",
        "x _ { 1 } ^ { 2 }",
        "^ { 1 4 } C",
        "{ x ^ { 2 } } ^ { 3 }",
        "x ^ { 2 } { } ^ { 3 }",
        r"\frac { 1 } { 2 } ^ { 2 }",
        r"\sqrt [ 3 ] { x }",
        r"\sqrt { }",
        r"\hat { x }",
        r"\sum \limits _ { i } ^ { n } i",
        r"\begin{matrix} a & b \\ c & d \end{matrix}",
        r"a = 1 \\ & = 2",
        r"\begin{cases} x ^ { 2 } = 1 \\ ^ { 2 } x \end{cases}",
        r"\frac { \begin{matrix} a \\ b \end{matrix} } { c }",
        r"\begin{array} { l r } a & b \\ c & d \end{array}",
        "( ] [ )",
        r"\xrightarrow [ a ] { b }",
    ],
)
def test_captions_are_valid(tokens: str) -> None:
    check(tokens.split())
    assert is_valid(tokens.split())


@pytest.mark.parametrize(
    ("tokens", "token", "number"),
    [
        ("x ^ 2", "^", 2),
        ("x ^", "^", 2),
        ("x ^ { 2", "{", 3),
        ("x }", "}", 2),
        ("x ^ { 2 } ^ { 3 }", "^", 6),
        ("x ^ { 2 } _ { 1 } ^ { 3 }", "^", 10),
        (r"\frac { 1 }", r"\frac", 1),
        (r"\frac { 1 } x", r"\frac", 1),
        (r"\frac 1 2", r"\frac", 1),
        (r"\sqrt x", r"\sqrt", 1),
        (r"\sqrt [ 3 ]", r"\sqrt", 1),
        (r"\sqrt [ 3 { x }", "[", 2),
        (r"\hat x", r"\hat", 1),
        (r"x \limits _ { 2 }", r"\limits", 2),
        (r"\sum \limits x", r"\limits", 2),
        (r"\sum _ { 1 } \limits ^ { 2 }", r"\limits", 6),
        (r"\begin{matrix} a", r"\begin{matrix}", 1),
        (r"\begin{matrix} a \end{cases}", r"\end{cases}", 3),
        (r"{ a \end{cases} }", r"\end{cases}", 3),
        (r"\frac { a \\ b } { c }", r"\\", 4),
        (r"\begin{matrix} x ^ { a & b } \end{matrix}", "&", 6),
        (r"\sqrt [ 2 & ] { x }", "&", 4),
    ],
)
def test_errors_name_the_token_and_its_number(tokens: str, token: str, number: int) -> None:
    assert not is_valid(tokens.split())
    with pytest.raises(LatexError) as caught:
        check(tokens.split())
    assert (caught.value.token, caught.value.number) == (token, number)


@given(captions())
def test_caption_form_is_valid(tokens: list[str]) -> None:
    check(tokens)
    check(normalize(tokens, reorder_scripts=False))
