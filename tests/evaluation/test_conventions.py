"""One spelling for LaTeX that looks the same."""

import pytest

from posformer.evaluation.conventions import comparable

SAME = [
    (r"\sum \limits _ { i } x", r"\sum _ { i } x"),
    (r"\| x \| _ { 2 }", r"\Vert x \Vert _ { 2 }"),
    (r"| | x | | _ { 2 }", r"\Vert x \Vert _ { 2 }"),
    (r"\begin{aligned} x & = 1 \\ y & = 2 \end{aligned}", r"x = 1 \\ y = 2"),
    (r"\begin{matrix} x & = 1 \\ y & = 2 \end{matrix}", r"x = 1 \\ y = 2"),
    (r"[ \begin{matrix} 1 & 2 \end{matrix} ]", r"\begin{bmatrix} 1 & 2 \end{bmatrix}"),
    (r"( \begin{matrix} 1 & 2 \end{matrix} ) ^ 2", r"\begin{pmatrix} 1 & 2 \end{pmatrix} ^ 2"),
    (r"\{ \begin{matrix} 1 & x \\ 2 & y \end{matrix}", r"\begin{cases} 1 x \\ 2 y \end{cases}"),
    (
        r"( \begin{matrix} [ \begin{matrix} 1 \end{matrix} ] & 2 \end{matrix} )",
        r"\begin{pmatrix} \begin{bmatrix} 1 \end{bmatrix} & 2 \end{pmatrix}",
    ),
    (r"x \text { i f } y _ { \text { m a x } }", "x i f y _ { m a x }"),
]  # fmt: skip
DIFFERENT = [
    (r"\begin{pmatrix} 1 & 2 \end{pmatrix}", r"\begin{bmatrix} 1 & 2 \end{bmatrix}"),
    (r"\begin{pmatrix} 1 & 2 \end{pmatrix}", r"\begin{pmatrix} 1 2 \end{pmatrix}"),
    (r"x = \begin{matrix} 1 & 2 \end{matrix}", r"x = 1 2"),
    (r"\begin{matrix} 1 & 2 \end{matrix} = \begin{matrix} 1 \end{matrix}", "1 2 = 1"),
    (r"| x |", r"\Vert x \Vert"),
    ("x _ { 1 }", "x 1"),
]


@pytest.mark.parametrize(("one", "other"), SAME)
def test_what_looks_the_same_has_one_spelling(one: str, other: str) -> None:
    assert comparable(one.split()) == comparable(other.split())
    assert comparable(comparable(one.split())) == comparable(one.split())


@pytest.mark.parametrize(("one", "other"), DIFFERENT)
def test_what_looks_different_stays_different(one: str, other: str) -> None:
    assert comparable(one.split()) != comparable(other.split())


@pytest.mark.parametrize("text", [r"\text", "}", r"\end{matrix}", r"\{ \begin{matrix}", "{ x", ""])
def test_malformed_predictions_are_compared_too(text: str) -> None:
    assert isinstance(comparable(text.split()), tuple)
