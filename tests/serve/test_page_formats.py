"""The formats that the page writes itself: the same text as Python's."""

import random

import pytest
from browsing import BROWSER, open_page
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from running import running

from expressions import captions
from posformer.latex import convert, is_structure, normalize
from posformer.latex.symbols import SIGNATURES, SYMBOLS
from posformer.serve import Settings, create_app

pytest.importorskip("playwright.sync_api", reason="needs playwright")
pytestmark = pytest.mark.skipif(not BROWSER, reason="needs Chromium (apt-get install chromium)")

FORMATS = ("latex", "markdown", "typst", "asciimath", "unicode")
LATEX = r"""
\frac{-b\pm\sqrt{b^2-4ac}}{2a}  \sqrt[3]{x+1}  \sqrt[n]{x}  \sum_{k=0}^{n}\frac{x^k}{k!}  f'(x)
\lim_{x\rightarrow 0}\frac{\sin x}{x}=1  \int_0^\infty e^{-x^2}dx  \mathbb{R}^{n}  \mathcal{L}
\begin{pmatrix}a&b\\c&d\end{pmatrix}  \begin{cases}1,x>0\\0\end{cases}  \hat{x}+\vec{ab}
\binom{n}{k}  \overset{!}{=}  \xrightarrow[a]{b}  \overline{AB}  90^\circ  x_{i,j}^{2}  a\not=b
\left(\frac{1}{2}\right)^2  [0,1)  |x|  12.5\%  \{a,b\}  {a+b}^2  \underset{x}{\max}  x''
"""


@pytest.fixture(scope="module")
def page(browser, tiny_recognizer):
    app = create_app(tiny_recognizer, Settings())
    with running(app) as (address, _), open_page(browser, address) as page:
        page.evaluate("async () => { window.expression = await import('/expression.js') }")
        yield page


def written(page, expressions):
    """Return the text of each expression in each format."""
    return page.evaluate(
        """([all, formats]) =>
            all.map((one) => formats.map((name) => expression.convert(one, name)))""",
        [expressions, FORMATS],
    )


def assert_same(page, expressions):
    expected = [[convert(tokens, name) for name in FORMATS] for tokens in expressions]
    assert written(page, expressions) == expected


def with_arguments(token: str) -> list[str]:
    positions, option = SIGNATURES.get(token, ("", ""))
    options = ["[", "n", "]"] if option else []
    return [token, *options, *(["{", "x", "+", "1", "}"] * len(positions))]


def test_every_symbol(page):
    symbols = sorted(token for token in SYMBOLS if not is_structure(token) and token != r"\root")
    assert_same(page, [with_arguments(token) for token in symbols])
    assert_same(page, [["a", *with_arguments(token), "b", "^", "{", "2", "}"] for token in symbols])


def test_examples(page):
    texts = [text for line in LATEX.strip().splitlines() for text in line.split("  ")]
    assert_same(page, [normalize(text, reorder_scripts=False) for text in texts])


def test_random_expressions(page):
    @settings(
        max_examples=100,
        deadline=None,
        derandomize=True,
        phases=[Phase.generate, Phase.shrink],
        suppress_health_check=list(HealthCheck),
    )
    @given(st.lists(captions(), min_size=1, max_size=10))
    def check(expressions):
        assert_same(page, expressions)

    check()


def test_malformed_tokens(page):
    """What a model writes without a constraint is written leniently, as in Python."""
    tokens = [*"ax12{}^_&,(", r"\\", r"\frac", r"\sqrt", r"\sum", r"\limits", r"\left", r"\right"]
    choose = random.Random(0)
    assert_same(page, [choose.choices(tokens, k=choose.randint(1, 12)) for _ in range(2000)])


def test_mathml_shows_every_symbol_with_its_index(page):
    symbols = sorted(token for token in SYMBOLS if not is_structure(token))
    shown = page.evaluate(
        """async (all) => {
            const { mathElement } = await import("/mathml.js");
            return all.map((tokens) => {
                const math = mathElement(tokens, { indexed: true });
                document.body.append(math);
                const { width } = math.getBoundingClientRect();
                const indices = [...math.querySelectorAll("[data-index]")]
                    .map((one) => Number(one.dataset.index));
                const text = math.textContent;
                math.remove();
                return { width, indices, text };
            });
        }""",
        [[token, *("{x}" * len(SIGNATURES.get(token, ("",))[0]))] for token in symbols],
    )
    for token, one in zip(symbols, shown, strict=True):
        assert one["width"] > 1, token
        assert "\\" not in one["text"].replace("\\", "", token == r"\backslash"), token
        arguments = len(SIGNATURES.get(token, ("",))[0])
        expected = {2 + 3 * number for number in range(arguments)} or {0}
        assert expected <= set(one["indices"]), token


def test_malformed_latex_is_a_problem(page):
    problems = page.evaluate(
        "(all) => all.map((one) => expression.describe(one).problem)",
        ["x^{2", "x}", r"\frac{1}", "x^2", r"\frac12"],
    )
    assert all(problems[:3])
    assert problems[3:] == [None, None]
