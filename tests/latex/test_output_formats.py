"""Output formats: every token, every parser that exists, and adversarial sizes."""

import math
import re
from pathlib import Path

import pytest
import sympy
from hypothesis import given, settings
from hypothesis import strategies as st

from expressions import captions
from posformer.errors import ConfigError, LatexError
from posformer.latex import FORMATS, convert, normalize, tokenize
from posformer.latex.symbols import ENVIRONMENT, SIGNATURES, SYMBOLS, is_structure, tokens_of
from posformer.latex.sympy_source import TAKEN, to_sympy
from posformer.latex.tree_text import CHARACTERS
from posformer.latex.typst import _Typst, to_typst

typst = pytest.importorskip("typst", reason="needs the typst package")

VOCABULARY = (Path(__file__).parents[2] / "configs" / "vocabulary.txt").read_text("utf-8").split()
TOKENS = sorted({*VOCABULARY, *SYMBOLS})
TEXT_FORMATS = sorted(FORMATS.keys() - {"sympy"})


def example(token: str) -> list[str]:
    """A well-formed expression with the token."""
    if environment := ENVIRONMENT.fullmatch(token):
        name = environment[2]
        return [rf"\begin{{{name}}}", "a", "&", "b", r"\\", "c", "&", "d", rf"\end{{{name}}}"]
    if token in ("^", "_"):
        return ["y", token, "{", "x", "}"]
    if token in ("{", "}"):
        return ["{", "x", "}"]
    if token == "&":
        return example(r"\begin{matrix}")
    if token == r"\limits":
        return [r"\sum", token, "_", "{", "x", "}"]
    if token == r"\\":
        return ["x", token, "y"]
    if token == r"\root":
        return [token, "3", r"\of", "{", "x", "}"]
    return [token, *(part for _ in SIGNATURES.get(token, ("",))[0] for part in "{x}")]


def typeset(equations: list[str]) -> None:
    """Compile Typst mathematics; an error fails the test."""
    typst.compile("\n\n".join(f"$ {text} $" for text in equations).encode(), format="svg")


# Every token


@pytest.mark.parametrize("format", TEXT_FORMATS)
def test_every_token_converts(format: str) -> None:
    for token in TOKENS:
        text = convert(example(token), format)
        assert text and "\n" not in text and "merror" not in text, token
        if format not in ("latex", "markdown"):
            assert not re.search(r"\\[A-Za-z]", text), f"{token} is left as LaTeX: {text}"


def test_every_token_converts_to_sympy_or_is_named_in_the_error() -> None:
    refused = set()
    for token in TOKENS:
        try:
            assert sympy.sympify(to_sympy(example(token))) is not None, token
        except LatexError as error:
            assert re.search(r"\(token \d+\) |expression is incomplete", str(error)), error
            refused.add(token)
    assert {r"\pm", r"\ldots", r"\oplus", r"\sim"} <= refused
    assert not refused & (tokens_of("letter", "digit", "greek") | {r"\frac", r"\sqrt", "^", "_"})


def test_typst_accepts_every_token() -> None:
    typeset([to_typst(["u", *example(token), "v"]) for token in TOKENS])


def test_typst_names_are_the_unicode_characters() -> None:
    names = {
        name: CHARACTERS[token]
        for token, name in _Typst.symbols.items()
        if token in CHARACTERS
        and re.fullmatch("[a-zA-Z.]+", name)
        and not CHARACTERS[token].isascii()
    }
    assert len(names) > 80
    checks = [f'#assert.eq(str(sym.{name}), "{sign}")' for name, sign in names.items()]
    typst.compile("\n".join(checks).encode(), format="svg")


def test_every_symbol_has_a_character() -> None:
    plain = [one for one in SYMBOLS.values() if not one.arguments and not is_structure(one.token)]
    missing = [one.token for one in plain if one.token[0] == "\\" and one.token not in CHARACTERS]
    assert missing == []


# What the formats look like

QUADRATIC = r"x=\frac{-b\pm\sqrt{b^2-4ac}}{2a}"


@pytest.mark.parametrize(
    ("latex", "format", "text"),
    [
        (QUADRATIC, "latex", r"x=\frac{-b\pm\sqrt{b^{2}-4ac}}{2a}"),
        (QUADRATIC, "markdown", r"$x=\frac{-b\pm\sqrt{b^{2}-4ac}}{2a}$"),
        (QUADRATIC, "typst", "x = frac(-b plus.minus sqrt(b^2 - 4 a c), 2 a)"),
        (QUADRATIC, "asciimath", "x = (-b +- sqrt(b^2 - 4 a c))/(2 a)"),
        (QUADRATIC, "unicode", "x = (−b ± √(b² − 4ac))/(2a)"),
        (r"\sum_{i=1}^n x_i", "typst", "sum_(i = 1)^n x_i"),
        (r"\sum_{i=1}^n x_i", "unicode", "∑ᵢ₌₁ⁿ xᵢ"),
        (r"\int\limits_0^1 f", "typst", "limits(integral)_0^1 f"),
        (r"a\\b", "markdown", r"$$\begin{array}{l}a\\b\end{array}$$"),
        (r"a\\b", "typst", r"a \ b"),
        (r"a\\b", "asciimath", "{:(a),(b):}"),
        (r"a\\b", "unicode", "a; b"),
        (r"\begin{cases}a,&x>0\\b&x=0\end{cases}", "typst", r"cases(a\, & x > 0, b & x = 0)"),
        (r"\begin{cases}a,&x>0\\b&x=0\end{cases}", "asciimath", '{(a",",x > 0),(b,x = 0):}'),
        (r"\begin{cases}a,&x>0\\b&x=0\end{cases}", "unicode", "{a, x > 0; b, x = 0"),
        (r"\begin{aligned}a&=b\\&=c\end{aligned}", "typst", r"a & = b \  & = c"),
        (r"\begin{pmatrix}a&b\\c&d\end{pmatrix}", "typst", 'mat(delim: "(", a, b; c, d)'),
        (r"\begin{pmatrix}a&b\\c&d\end{pmatrix}", "asciimath", "((a,b),(c,d))"),
        (r"[0,1)", "typst", "[0, 1)"),
        (r"\frac{(a}{x,y}", "typst", r"frac(\(a, x\, y)"),
        (r"\frac{(a}{b}", "asciimath", '("("a)/(b)'),
        (r"{x^2}^3", "typst", "attach(x^2, t: 3)"),
        (r"{x^2}^3", "asciimath", "{:x^2:}^3"),
        (r"{x^2}^3", "unicode", "(x²)³"),
        (r"f''(x)", "typst", "f'' (x)"),
        (r"f''(x)", "unicode", "f′′(x)"),
        (r"x^f(y)", "typst", "x^f (y)"),
        (r"^{14}_6C", "typst", '""^14_6 C'),
        (r"a\not\subset b", "unicode", "a ⊄ b"),
        (r"\frac ab^2\sqrt{x}^2", "unicode", "(a/b)² (√x)²"),
        (r"\sqrt[3]{x}\sqrt[n]{2}", "unicode", "∛xⁿ√2"),
        (r"\mathbb{R}\mathcal{L}\mathfrak{gC}\textcircled{1}\vec{a}", "unicode", "ℝℒ𝔤ℭ①a⃗"),
        (r"\sin^2 90^\circ", "unicode", "sin² 90°"),
        (r"x^{a+\omega}", "unicode", "x^(a + ω)"),
    ],
)  # fmt: skip
def test_formats(latex: str, format: str, text: str) -> None:
    assert convert(latex, format) == text


def test_unknown_formats_and_malformed_latex_are_errors() -> None:
    with pytest.raises(ConfigError, match="unknown format 'word'; the formats are latex, mathml,"):
        convert("x", "word")
    with pytest.raises(LatexError, match="is never closed"):
        convert("x^{", "typst")


# Any input


@settings(max_examples=40)
@given(st.lists(captions(), min_size=5, max_size=5))
def test_typst_accepts_random_expressions(expressions: list[list[str]]) -> None:
    typeset([to_typst(tokens) for tokens in expressions])


NASTY = [
    *"(){}[],;:&^_/#$\"'\\|!.-xé",
    *(r"\left", r"\frac", r"\sqrt", r"\\", r"\begin{cases}", r"\end{cases}", r"\limits"),
    *(r"\hat", r"\langle", r"\rfloor", r"\not", r"\foo"),
]


@settings(max_examples=60)
@given(st.lists(st.lists(st.sampled_from(NASTY), max_size=12), min_size=4, max_size=4))
def test_malformed_model_output_converts(expressions: list[list[str]]) -> None:
    typeset([to_typst(tokens) for tokens in expressions])
    for tokens in expressions:
        for format in ("asciimath", "unicode"):
            assert isinstance(convert(tokens, format), str)


@given(captions())
def test_sympy_text_can_be_evaluated_or_is_refused(tokens: list[str]) -> None:
    try:
        text = to_sympy(tokens)
    except LatexError as error:
        assert "\n" not in str(error)
        return
    compile(text, "expression", "eval")


@pytest.mark.parametrize("format", sorted(FORMATS.keys() - {"mathml", "sympy"}))
@pytest.mark.parametrize(
    "unit",
    [
        "^{",
        r"\frac{a}{",
        r"\hat{",
        "x_",
        r"\sqrt[n]{",
        "(",
        "{",
        "x+",
        r"&\\",
        r"\begin{matrix}",
        "&",
    ],
)
def test_length_is_linear(format: str, unit: str) -> None:
    tokens = tokenize(unit)
    short, long = (len(convert(tokens * count, format)) for count in (200, 4000))
    assert long <= 20 * short + 200


def test_deep_nesting_is_refused_by_sympy() -> None:
    for unit, closing in ((r"\sqrt{", "}"), ("(", ")"), (r"\sin ", ""), ("x^{", "}")):
        with pytest.raises(LatexError, match="too deeply for SymPy"):
            convert(unit * 300 + "x" + closing * 300, "sympy")


# Parsers read the text back


def test_normalizer_reads_unicode_text_back() -> None:
    for latex in [
        r"x^{2}+\alpha_{i}\leq \infty",
        r"\sum_{i=1}^{n}i^{2}\neq \sqrt{x}",
        r"a\in \mathbb{R}\Rightarrow \sqrt[3]{a+b}\rightarrow \beta",
    ]:
        assert normalize(convert(latex, "unicode")) == normalize(latex)


def test_taken_names_are_those_of_sympy() -> None:
    letters = [token.removeprefix("\\") for token in tokens_of("letter", "greek")]
    taken = {name for name in letters if hasattr(sympy, name)} | {"lambda"}
    assert taken - {"pi"} == TAKEN


VALUES = {"x": 1.25, "y": 0.75, "a": 2.0, "b": 3.0, "n": 4.0}
EXPRESSIONS = (Path(__file__).parent / "sympy_expressions.txt").read_text("utf-8").splitlines()


def test_there_are_a_hundred_expressions() -> None:
    assert len(set(EXPRESSIONS)) >= 100


@pytest.mark.parametrize("line", EXPRESSIONS)
def test_sympy_text_has_the_value_of_the_expression(line: str) -> None:
    latex, _, value = line.partition(" => ")
    expression = sympy.sympify(convert(latex, "sympy"))
    found = complex(sympy.N(expression.subs(VALUES).doit()))
    expected = complex(eval(value, {**vars(math), **VALUES}))
    assert found == pytest.approx(expected, rel=1e-9, abs=1e-9)


@pytest.mark.parametrize(
    ("latex", "text"),
    [
        ("x=1", "Eq(x, 1)"),
        (r"1<x\leq 2", "And(Lt(1, x), Le(x, 2))"),
        (r"x=1\\y=2", "[Eq(x, 1), Eq(y, 2)]"),
        (r"f(x)=\frac{1}{2}x", "Eq(Function('f')(x), Rational(1, 2)*x)"),
        (r"x_1+x_{i+1}+N+\beta", "x_1 + Symbol('x_{i+1}') + Symbol('N') + Symbol('beta')"),
        (r"\int\frac{dx}{x}", "Integral(1/x, x)"),
        (r"\int_0^1\int_0^x xy dy dx", "Integral(Integral(x*y, (y, 0, x)), (x, 0, 1))"),
        (r"\begin{bmatrix}1&2\\3&4\end{bmatrix}", "Matrix([[1, 2], [3, 4]])"),
        (r"\frac{d^2y}{dx^2}", "Derivative(y, (x, 2))"),
    ],
)
def test_sympy_statements(latex: str, text: str) -> None:
    assert convert(latex, "sympy") == text
    sympy.sympify(text)


@pytest.mark.parametrize(
    ("latex", "message"),
    [
        (r"x\pm 1", r"\pm (token 2) has no meaning there in SymPy"),
        (r"1+\ldots", r"\ldots (token 3) has no meaning in SymPy"),
        ("(x", "( (token 1) is not closed by )"),
        ("[0,1)", "[ (token 1) is not closed by ]"),
        ("x+", "the expression is incomplete"),
        ("", "the expression is empty"),
        (r"\int x", r"\int (token 1) has no differential, such as dx"),
        (r"\sum x", r"\sum (token 1) needs an index with both bounds"),
        (r"1.2.3", "1 (token 1) begins 1.2.3, which is not a number"),
        (r"2_3", "2 (token 1) cannot have a subscript in SymPy"),
    ],
)
def test_sympy_refuses_what_it_cannot_express(latex: str, message: str) -> None:
    with pytest.raises(LatexError) as caught:
        convert(latex, "sympy")
    assert str(caught.value).startswith(message)
