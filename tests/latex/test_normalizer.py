"""The normalizer."""

import io
import re
import zipfile
from pathlib import Path
from xml.sax.saxutils import unescape

import pytest
from counting import lines_run
from hypothesis import given
from hypothesis import strategies as st

from expressions import captions
from posformer.errors import LatexError
from posformer.latex import normalize, to_latex

# What is typed, and what captions write; lines without an arrow are headings.
TYPED = r"""
scripts
x^2                             ⟼ x ^ { 2 }
x^{2}                           ⟼ x ^ { 2 }
x ^ {2}                         ⟼ x ^ { 2 }
x^ { 2 }                        ⟼ x ^ { 2 }
x_i                             ⟼ x _ { i }
x_{ij}                          ⟼ x _ { i j }
x_i^2                           ⟼ x _ { i } ^ { 2 }
x^2_i                           ⟼ x _ { i } ^ { 2 }
x^{2}_{i}                       ⟼ x _ { i } ^ { 2 }
x^{2^2}                         ⟼ x ^ { 2 ^ { 2 } }
x^\alpha                        ⟼ x ^ { \alpha }
x^\frac12                       ⟼ x ^ { \frac { 1 } { 2 } }
x^\sqrt2                        ⟼ x ^ { \sqrt { 2 } }
x^10                            ⟼ x ^ { 1 } 0
x^-1                            ⟼ x ^ { - } 1
x^{-1}                          ⟼ x ^ { - 1 }
x_1,x_2                         ⟼ x _ { 1 } , x _ { 2 }
e^{-x^2/2}                      ⟼ e ^ { - x ^ { 2 } / 2 }
{x}^{2}                         ⟼ x ^ { 2 }
{x_1}^2                         ⟼ x _ { 1 } ^ { 2 }
{x^2}^3                         ⟼ { x ^ { 2 } } ^ { 3 }
{ab}^2                          ⟼ a b ^ { 2 }
{}^{14}C                        ⟼ ^ { 1 4 } C
{}^{14}_{6}C                    ⟼ _ { 6 } ^ { 1 4 } C
^{14}CO_2                       ⟼ ^ { 1 4 } C O _ { 2 }
x^2{}^3                         ⟼ x ^ { 2 } { } ^ { 3 }
x^{}                            ⟼ x
x^{{2}}                         ⟼ x ^ { 2 }
a\sp2                           ⟼ a ^ { 2 }
a\sb{12}                        ⟼ a _ { 1 2 }
(a+b)^2                         ⟼ ( a + b ) ^ { 2 }
\sin^2x                         ⟼ \sin ^ { 2 } x
\sin^{-1}x                      ⟼ \sin ^ { - 1 } x
\log_2 8                        ⟼ \log _ { 2 } 8
\log_{10}x                      ⟼ \log _ { 1 0 } x

primes
x'                              ⟼ x ^ { \prime }
x''                             ⟼ x ^ { \prime \prime }
x'''                            ⟼ x ^ { \prime \prime \prime }
f'(x)                           ⟼ f ^ { \prime } ( x )
f''(x)=0                        ⟼ f ^ { \prime \prime } ( x ) = 0
x'^2                            ⟼ x ^ { \prime 2 }
x_1'                            ⟼ x _ { 1 } ^ { \prime }
x'_1                            ⟼ x _ { 1 } ^ { \prime }
f^{'}                           ⟼ f ^ { \prime }
f^{''}                          ⟼ f ^ { \prime \prime }
f^'                             ⟼ f ^ { \prime }
f^\prime                        ⟼ f ^ { \prime }
f^{\prime\prime}                ⟼ f ^ { \prime \prime }
f"(x)                           ⟼ f ^ { \prime \prime } ( x )
(x+y)'                          ⟼ ( x + y ) ^ { \prime }

fractions
\frac12                         ⟼ \frac { 1 } { 2 }
\frac{1}2                       ⟼ \frac { 1 } { 2 }
\frac1{2}                       ⟼ \frac { 1 } { 2 }
\frac 1n                        ⟼ \frac { 1 } { n }
\frac x2                        ⟼ \frac { x } { 2 }
\frac{1}{2}                     ⟼ \frac { 1 } { 2 }
\frac {1} {2}                   ⟼ \frac { 1 } { 2 }
\frac{{1}}{2}                   ⟼ \frac { 1 } { 2 }
\frac ab c                      ⟼ \frac { a } { b } c
\frac\pi2                       ⟼ \frac { \pi } { 2 }
\frac{\frac12}{3}               ⟼ \frac { \frac { 1 } { 2 } } { 3 }
\frac\frac123                   ⟼ \frac { \frac { 1 } { 2 } } { 3 }
\dfrac{a}{b}                    ⟼ \frac { a } { b }
\tfrac12                        ⟼ \frac { 1 } { 2 }
\cfrac{1}{1+x}                  ⟼ \frac { 1 } { 1 + x }
\cfrac[l]{1}{x}                 ⟼ \frac { 1 } { x }
a\over b                        ⟼ \frac { a } { b }
{a\over b}+c                    ⟼ \frac { a } { b } + c
{1 \over {x+1}}                 ⟼ \frac { 1 } { x + 1 }
\left(a\over b\right)           ⟼ ( \frac { a } { b } )
\nicefrac12                     ⟼ 1 / 2
\nicefrac1{}                    ⟼ 1 /
1/2                             ⟼ 1 / 2
\binom nk                       ⟼ \binom { n } { k }
\dbinom{n}{k}                   ⟼ \binom { n } { k }
{n\choose k}                    ⟼ \binom { n } { k }
a\atop b                        ⟼ \begin{matrix} a \\ b \end{matrix}

roots
\sqrt2                          ⟼ \sqrt { 2 }
\sqrt x                         ⟼ \sqrt { x }
\sqrt{x}                        ⟼ \sqrt { x }
\sqrt{}                         ⟼ \sqrt { }
\sqrt[3]{x}                     ⟼ \sqrt [ 3 ] { x }
\sqrt[3]2                       ⟼ \sqrt [ 3 ] { 2 }
\sqrt [n] {x+1}                 ⟼ \sqrt [ n ] { x + 1 }
\sqrt[]{x}                      ⟼ \sqrt { x }
\sqrt\frac12                    ⟼ \sqrt { \frac { 1 } { 2 } }
\sqrt{\sqrt{x}}                 ⟼ \sqrt { \sqrt { x } }
\sqrt\left[x\right]             ⟼ \sqrt { [ x ] }
\root 3 \of {x+1}               ⟼ \sqrt [ 3 ] { x + 1 }

sums, integrals, limits
\sum_{i=1}^n i                  ⟼ \sum \limits _ { i = 1 } ^ { n } i
\sum^n_{i=1}i                   ⟼ \sum \limits _ { i = 1 } ^ { n } i
\sum\limits_{i=1}^{n}i          ⟼ \sum \limits _ { i = 1 } ^ { n } i
\sum\nolimits_i x_i             ⟼ \sum \limits _ { i } x _ { i }
\displaystyle\sum_i             ⟼ \sum \limits _ { i }
\sum x                          ⟼ \sum x
\int_0^1 x\,dx                  ⟼ \int \limits _ { 0 } ^ { 1 } x d x
\int x dx                       ⟼ \int x d x
\int\limits_a^b                 ⟼ \int \limits _ { a } ^ { b }
\prod_{k=1}^n k                 ⟼ \prod \limits _ { k = 1 } ^ { n } k
\lim_{x\to0}f                   ⟼ \lim \limits _ { x \rightarrow 0 } f
\lim_{x \rightarrow \infty}     ⟼ \lim \limits _ { x \rightarrow \infty }
\lim_{x\to0^+}                  ⟼ \lim \limits _ { x \rightarrow 0 ^ { + } }
\underset{x\to0}{\lim}f         ⟼ \lim \limits _ { x \rightarrow 0 } f
\overset{n}{\sum}               ⟼ \sum \limits ^ { n }
\max_x f(x)                     ⟼ \max \limits _ { x } f ( x )
\operatorname*{lim}_{x\to0}     ⟼ \lim \limits _ { x \rightarrow 0 }
\mathop{lim}\limits_{x\to0}     ⟼ \lim \limits _ { x \rightarrow 0 }
\sum_{\substack{i<n\\j<n}}      ⟼ \sum \limits _ { \begin{matrix} i < n \\ j < n \end{matrix} }

functions and text
\mathrm{sin}x                   ⟼ \sin x
\mathrm{sin}(x)                 ⟼ \sin ( x )
\operatorname{sin}x             ⟼ \sin x
\operatorname{arg\,max}_x f     ⟼ \arg \max \limits _ { x } f
\text{cos}\theta                ⟼ \cos \theta
{\rm sin}x                      ⟼ \sin x
\mathrm{d}x                     ⟼ d x
\mathrm dx                      ⟼ d x
\mathrm{CO}_2                   ⟼ C O _ { 2 }
\mathbf{x}                      ⟼ x
\mathit{ab}                     ⟼ a b
\boldsymbol\alpha               ⟼ \alpha
{\bf x}                         ⟼ x
\mbox{A}                        ⟼ A
\mbox { Pr }                    ⟼ P r
\text{if }x>0                   ⟼ i f x > 0
x\text{ and }y                  ⟼ x a n d y
\textrm{max}                    ⟼ \max
\hbox{a}                        ⟼ a
\operatorname{foo}(x)           ⟼ f o o ( x )
\mathbb R                       ⟼ \mathbb { R }
\mathbb{R}^n                    ⟼ \mathbb { R } ^ { n }
\mathcal L                      ⟼ \mathcal { L }
{\cal L}                        ⟼ \mathcal { L }

delimiters
\left(x\right)                  ⟼ ( x )
\left( \frac{a}{b} \right)^2    ⟼ ( \frac { a } { b } ) ^ { 2 }
\left[x\right]                  ⟼ [ x ]
\left\{x\right\}                ⟼ \{ x \}
\left|x\right|                  ⟼ | x |
\left.x\right|_0^1              ⟼ x | _ { 0 } ^ { 1 }
\left<x\right>                  ⟼ \langle x \rangle
\left(\left(x\right)\right)     ⟼ ( ( x ) )
\left(a\middle|b\right)         ⟼ ( a | b )
\big(x\big)                     ⟼ ( x )
\Bigg(a,b\Bigg)                 ⟼ ( a , b )
\bigl[x\bigr]                   ⟼ [ x ]
\lbrack x\rbrack                ⟼ [ x ]
\lbrace x\rbrace                ⟼ \{ x \}
\lvert x\rvert                  ⟼ | x |
\|x\|                           ⟼ | | x | |
\lVert x\rVert                  ⟼ | | x | |
\abs{x}^2                       ⟼ | x | ^ { 2 }
P(A\mid B)                      ⟼ P ( A | B )
]0,1[                           ⟼ ] 0 , 1 [

synonyms
a\le b                          ⟼ a \leq b
a\leqslant b                    ⟼ a \leq b
a\ge b                          ⟼ a \geq b
a\ne b                          ⟼ a \neq b
a\not=b                         ⟼ a \neq b
a\not\in B                      ⟼ a \notin B
a\not\subset B                  ⟼ a \not \subset B
x\to y                          ⟼ x \rightarrow y
a\gets b                        ⟼ a \leftarrow b
A\implies B                     ⟼ A \Rightarrow B
A\iff B                         ⟼ A \Leftrightarrow B
A\Longrightarrow B              ⟼ A \Rightarrow B
1,\dots,n                       ⟼ 1 , \ldots , n
1+\dotsb+n                      ⟼ 1 + \cdots + n
1,...,n                         ⟼ 1 , \ldots , n
a\lt b\gt c                     ⟼ a < b > c
M\ltN                           ⟼ M < N
a\ast b                         ⟼ a * b
a\cdotp b                       ⟼ a \cdot b
f\colon A                       ⟼ f : A
p\land q\lor\lnot r             ⟼ p \wedge q \vee \neg r
\varnothing                     ⟼ \emptyset
90\degree                       ⟼ 9 0 ^ { \circ }
\R                              ⟼ \mathbb { R }
\Alpha                          ⟼ A

spacing, sizes, comments, marks
a\,b\;c\!d\:e                   ⟼ a b c d e
a\quad b\qquad c                ⟼ a b c
a~b\ c                          ⟼ a b c
a\hspace{1cm}b                  ⟼ a b
a\kern3pt b                     ⟼ a b
\displaystyle x                 ⟼ x
{\Large x}                      ⟼ x
\color{red}x                    ⟼ x
\textcolor{red}{x}              ⟼ x
x\label{eq:1}                   ⟼ x
\phantom{x}y                    ⟼ y
$x$                             ⟼ x
$$x$$                           ⟼ x
\(x\)                           ⟼ x
\[x\]                           ⟼ x
$x^2$ $y$                       ⟼ x ^ { 2 } y
x%comment                       ⟼ x
x % comment                     ⟼ x
50%                             ⟼ 5 0 \%
50\%                            ⟼ 5 0 \%
\begin{equation}x\end{equation} ⟼ x
{x}                             ⟼ x
{{x}+{y}}                       ⟼ x + y

accents
\hat x                          ⟼ \hat { x }
\hat{x}_1                       ⟼ \hat { x } _ { 1 }
\vec{AB}                        ⟼ \vec { A B }
\bar x                          ⟼ \bar { x }
\overline{a+b}                  ⟼ \overline { a + b }
\overset ab                     ⟼ \overset { a } { b }
\underset{a}{b}                 ⟼ \underset { a } { b }
\stackrel?=                     ⟼ \stackrel { ? } { = }
\xrightarrow[a]{b}              ⟼ \xrightarrow [ a ] { b }

several lines
x=1\\y=2                        ⟼ x = 1 \\ y = 2
\begin{array}{cc}a&b\end{array} ⟼ \begin{matrix} a & b \end{matrix}
\begin{pmatrix}a\\b\\\end{pmatrix} ⟼ \begin{pmatrix} a \\ b \end{pmatrix}
\begin{align*}x&=1\\[2pt]y&=2\end{align*} ⟼ \begin{aligned} x & = 1 \\ y & = 2 \end{aligned}
\begin {cases} 1 \end {cases}   ⟼ \begin{cases} 1 \end{cases}
\pmatrix{a&b\cr c&d}            ⟼ \begin{pmatrix} a & b \\ c & d \end{pmatrix}

Unicode
x²                              ⟼ x ^ { 2 }
x²+y³                           ⟼ x ^ { 2 } + y ^ { 3 }
x¹²                             ⟼ x ^ { 1 2 }
x₁²                             ⟼ x _ { 1 } ^ { 2 }
x⁻¹                             ⟼ x ^ { - 1 }
aₙ₊₁                            ⟼ a _ { n + 1 }
H₂O                             ⟼ H _ { 2 } O
2ⁿ                              ⟼ 2 ^ { n }
√2                              ⟼ \sqrt { 2 }
√12                             ⟼ \sqrt { 1 2 }
√x                              ⟼ \sqrt { x }
√(a+b)                          ⟼ \sqrt { a + b }
√((a+b)c)+1                     ⟼ \sqrt { ( a + b ) c } + 1
√{x}                            ⟼ \sqrt { x }
∛x                              ⟼ \sqrt [ 3 ] { x }
½                               ⟼ \frac { 1 } { 2 }
3¾                              ⟼ 3 \frac { 3 } { 4 }
α+β                             ⟼ \alpha + \beta
2πr                             ⟼ 2 \pi r
Δx                              ⟼ \Delta x
Α                               ⟼ A
µ                               ⟼ \mu
a≤b≥c≠d                         ⟼ a \leq b \geq c \neq d
x→∞                             ⟼ x \rightarrow \infty
A⇒B                             ⟼ A \Rightarrow B
a×b÷c·d                         ⟼ a \times b \div c \cdot d
a−b                             ⟼ a - b
±1                              ⟼ \pm 1
∑_{i=1}^n                       ⟼ \sum \limits _ { i = 1 } ^ { n }
∫₀¹                             ⟼ \int \limits _ { 0 } ^ { 1 }
x∈A∪B                           ⟼ x \in A \cup B
∀x∃y                            ⟼ \forall x \exists y
1,…,n                           ⟼ 1 , \ldots , n
f′(x)                           ⟼ f ^ { \prime } ( x )
f’(x)                           ⟼ f ^ { \prime } ( x )
90°                             ⟼ 9 0 ^ { \circ }
30°15′                          ⟼ 3 0 ^ { \circ } 1 5 ^ { \prime }
‖x‖                             ⟼ | | x | |
ẋ                               ⟼ \dot { x }
x̂                              ⟼ \hat { x }
ℝ                               ⟼ \mathbb { R }
𝑥+𝐲                             ⟼ x + y
𝕏                               ⟼ \mathbb { X }
（x＋1）                           ⟼ ( x + 1 )
①                               ⟼ \textcircled { 1 }
≠                              ⟼ \neq
中文                              ⟼ 中 文

what ink files say
$\phi(x)$                       ⟼ \phi ( x )
$x_{1}^2$                       ⟼ x _ { 1 } ^ { 2 }
$E_{k} = {v_{1}^{2}}$           ⟼ E _ { k } = v _ { 1 } ^ { 2 }
$ \pm \theta _ {0} $            ⟼ \pm \theta _ { 0 }
\int \cos V d { \lambda } _ { \mbox { A } } ⟼ \int \cos V d \lambda _ { A }
$\log{x} + \log{y} \!$          ⟼ \log x + \log y
$ \sin \lbrack a \rbrack $      ⟼ \sin [ a ]
$2\cos^2(\frac x2)$             ⟼ 2 \cos ^ { 2 } ( \frac { x } { 2 } )
$\left| $\frac{a}{b} \right|$   ⟼ | \frac { a } { b } |
"""
CASES = [
    (typed.strip(), caption.strip())
    for typed, arrow, caption in (line.partition(" ⟼ ") for line in TYPED.splitlines())
    if arrow
]


@pytest.mark.parametrize(("typed", "caption"), CASES, ids=[typed for typed, _ in CASES])
def test_typed_text_becomes_caption_form(typed: str, caption: str) -> None:
    tokens = normalize(typed)
    assert " ".join(tokens) == caption
    assert normalize(tokens) == tokens
    assert normalize(caption) == tokens
    assert normalize(to_latex(tokens)) == tokens


def test_table_has_two_hundred_different_cases() -> None:
    assert len(CASES) >= 200
    assert len({typed for typed, _ in CASES}) == len(CASES)


def test_comments_end_with_their_line() -> None:
    assert normalize("x % first\n+ y%\n+ z") == ["x", "+", "y", "+", "z"]
    assert normalize("x^2%note\n+1") == normalize("x^2+1")


def test_empty_text_becomes_an_empty_caption() -> None:
    assert normalize("") == normalize("  $ $ ") == normalize([]) == []


def test_tokens_are_normalized_like_text() -> None:
    assert normalize(["x", "^", "2"]) == normalize("x^2")
    assert normalize(["12", "²"]) == normalize("12²")
    assert normalize(["5", "%"]) == ["5", r"\%"]


@pytest.mark.parametrize(
    ("typed", "as_typed"),
    [
        ("x^2_i", "x ^ { 2 } _ { i }"),
        ("x_i^2", "x _ { i } ^ { 2 }"),
        (r"\sum^n_{i=1}", r"\sum ^ { n } _ { i = 1 }"),
        (r"\sum\limits_i", r"\sum \limits _ { i }"),
        (r"\underset{x}{\lim}", r"\underset { x } { \lim }"),
    ],
)
def test_scripts_keep_their_order_on_request(typed: str, as_typed: str) -> None:
    tokens = normalize(typed, reorder_scripts=False)
    assert " ".join(tokens) == as_typed
    assert normalize(tokens, reorder_scripts=False) == tokens


@pytest.mark.parametrize(
    ("typed", "token", "number", "column", "reason"),
    [
        (r"a+\foo b", r"\foo", 3, 3, "is not known"),
        ("x^2^3", "^", 4, 4, "second superscript"),
        ("x_1_2", "_", 4, 4, "second subscript"),
        ("x^2'", "'", 4, 4, "second superscript"),
        ("x + }", "}", 3, 5, "closes nothing"),
        ("{x", "{", 1, 1, "never closed"),
        ("x^{2", "{", 3, 3, "never closed"),
        (r"\frac{1}", r"\frac", 1, 1, "too few arguments"),
        (r"{\frac1}", r"\frac", 2, 2, "too few arguments"),
        ("x^", "^", 2, 2, "too few arguments"),
        ("x^^2", "^", 2, 2, "no argument before ^"),
        ("^&", "^", 1, 1, "too few arguments"),
        (r"\left(x", r"\left", 1, 1, "never closed"),
        (r"\left(x)", r"\left", 1, 1, "never closed"),
        (r"x\right)", r"\right", 2, 2, "closes nothing"),
        (r"\left", r"\left", 1, 1, "no delimiter"),
        (r"{\left(x}", "}", 5, 9, r"closes nothing, \right is awaited"),
        (r"\sqrt[3", "[", 2, 6, "never closed"),
        (r"\begin{foo}x\end{foo}", r"\begin{foo}", 1, 1, "is not known"),
        (r"\begin{cases}x\end{matrix}", r"\end{matrix}", 3, 15, r"\end{cases} is awaited"),
        (r"\begin x", r"\begin", 1, 1, "is not known"),
        (r"a\over b\over c", r"\over", 4, 9, "second of its kind"),
        ("x🙂", "🙂", 2, 2, "not a mathematical character"),
        ("x + #1", "#", 3, 5, "no caption form"),
        ("x\\", "\\", 2, 2, "unfinished"),
        (r"\hspace{1cm", "{", 2, 8, "never closed"),
        ("√(x", "√", 1, 1, "never closed"),
    ],
)
def test_errors_name_token_number_and_column(
    typed: str, token: str, number: int, column: int, reason: str
) -> None:
    with pytest.raises(LatexError) as caught:
        normalize(typed)
    assert reason in str(caught.value)
    assert "\n" not in str(caught.value)
    assert (caught.value.number, caught.value.column) == (number, column)
    if token != "√":
        assert caught.value.token == token


def test_errors_in_tokens_have_a_number_and_no_column() -> None:
    with pytest.raises(LatexError, match=r"\\foo \(token 2\) is not known") as caught:
        normalize(["x", r"\foo"])
    assert caught.value.column is None


@given(captions())
def test_caption_form_is_a_fixed_point(tokens: list[str]) -> None:
    once = normalize(tokens)
    assert once == tokens
    assert normalize(" ".join(tokens)) == tokens
    assert normalize(to_latex(tokens)) == tokens


@given(st.text(alphabet=r"\{}[]^_&%$'~ xyab12+-=.()|√²₁½αé≤fracsqtlimover", max_size=30))
def test_any_text_is_normalized_to_a_fixed_point_or_is_an_error(text: str) -> None:
    try:
        once = normalize(text)
    except LatexError:
        return
    assert normalize(once) == once
    assert normalize(to_latex(once)) == once


def test_ten_thousand_levels_do_not_recurse() -> None:
    depth = 10_000
    scripts = normalize("x^{" * depth + "y" + "}" * depth)
    assert scripts == ["x", "^", "{"] * depth + ["y"] + ["}"] * depth
    assert normalize("{a" * depth + "}" * depth) == ["a"] * depth
    assert normalize(r"\sqrt" * depth + "2").count(r"\sqrt") == depth
    assert normalize("{" * depth + r"a\over b" + "}" * depth) == normalize(r"\frac ab")


@pytest.mark.parametrize(
    ("unit", "closing"),
    [
        ("x^{", "}"),
        ("{a", "}"),
        ("x+", ""),
        (r"\sqrt", ""),
        (r"\frac{a}{", "}"),
        (r"\left(", r"\right)"),
        ("√(", ")"),
        ("x²", ""),
        (".", ""),
        ("5%", ""),
    ],
)
def test_work_is_linear_in_the_length_of_the_text(unit: str, closing: str) -> None:
    def work(size: int) -> int:
        text = unit * size + "2" + closing * size
        return lines_run(lambda: normalize(text))

    assert work(400) < 2.1 * work(200)


@pytest.mark.parametrize("split", ["train", "2014", "2016"])
def test_crohme_captions_are_unchanged(crohme_zip: Path, split: str) -> None:
    for name, tokens in _captions(crohme_zip, split).items():
        assert normalize(tokens) == tokens, name


@pytest.mark.slow
@pytest.mark.parametrize("split", ["train", "2014", "2016"])
def test_annotations_of_crohme_ink_become_its_captions(
    crohme_zip: Path, crohme_ink_zip: Path, split: str
) -> None:
    captions = _captions(crohme_zip, split)
    agreed = sum(
        _is_turned_into(text, captions[name])
        for name, text in _ink_texts(crohme_ink_zip, split).items()
        if name in captions
    )
    print(f"\n{split}: {agreed} of {len(captions)} texts become their caption")
    assert agreed >= 0.985 * len(captions)


def _captions(archive: Path, split: str) -> dict[str, list[str]]:
    with zipfile.ZipFile(archive) as file, file.open(f"data/{split}/caption.txt") as lines:
        rows = [line.split() for line in io.TextIOWrapper(lines, encoding="utf-8")]
    return {name: tokens for name, *tokens in rows}


def _ink_texts(archive: Path, split: str) -> dict[str, str]:
    truth = re.compile(r'<annotation type="truth">(.*?)</annotation>', re.DOTALL)
    texts = {}
    with zipfile.ZipFile(archive) as file:
        for name in file.namelist():
            if name.startswith(f"inkml/{split}/") and name.endswith(".inkml"):
                match = truth.search(file.read(name).decode("utf-8", errors="replace"))
                if match:
                    texts[Path(name).stem] = unescape(match[1])
    return texts


def _is_turned_into(text: str, caption: list[str]) -> bool:
    try:
        return normalize(text) == caption
    except LatexError:
        return False
