"""LaTeX becomes MathML."""

from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from posformer.latex.mathml import to_mathml

NAMESPACE = "{http://www.w3.org/1998/Math/MathML}"


def elements(latex: str, **options: bool) -> list[str]:
    root = ElementTree.fromstring(to_mathml(latex, **options))
    return [element.tag.removeprefix(NAMESPACE) for element in root.iter()]


@pytest.mark.parametrize(
    ("latex", "element"),
    [
        (r"\frac{1}{2}", "mfrac"),
        ("x^{2}", "msup"),
        (r"\sqrt[3]{x}", "mroot"),
        (r"\begin{matrix}a&b\end{matrix}", "mtable"),
        ("x^{", "merror"),
        (r"\text{<b>}", "mtext"),
    ],
)
def test_elements(latex: str, element: str) -> None:
    assert element in elements(latex)


def test_aligned_lines_become_a_table_with_cells() -> None:
    found = elements(r"\begin{aligned}a&=b\\c&=d\end{aligned}")
    assert (found.count("mtr"), found.count("mtd")) == (2, 4)


def test_display() -> None:
    assert 'display="block"' in to_mathml("x", display=True)
    assert 'display="inline"' in to_mathml("x")


@pytest.mark.parametrize("latex", [r"\text{<script>x</script>}", "a<b", r"\href{javascript:x}{y}"])
def test_markup_in_latex_is_text(latex: str) -> None:
    root = ElementTree.fromstring(to_mathml(latex))
    assert all(element.tag.startswith(f"{NAMESPACE}m") for element in root.iter())
    assert not any("href" in element.attrib for element in root.iter())


@given(st.text(alphabet="x1^_{}\\<>&\"'fractexbgin[]\x00 ", max_size=20))
def test_any_text_gives_well_formed_mathml(latex: str) -> None:
    assert elements(latex)[0] == "math"
