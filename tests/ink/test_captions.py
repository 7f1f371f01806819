"""Captions of ink."""

import zipfile
from pathlib import Path, PurePosixPath

import pytest

from posformer.errors import InkError
from posformer.ink import caption_of, label_token, read_inkml
from posformer.ink.captions import mathml_pieces
from writing import fraction_ink, inkml


def caption(truth: str | None = None, math: str | None = None, **more: object) -> str:
    ink = read_inkml(inkml({"0": "0 0, 1 1"}, truth=truth, math=math, **more), "said")
    return " ".join(caption_of(ink))


@pytest.mark.parametrize(
    ("label", "token"),
    [("\\lt", "<"), ("\\gt", ">"), ("COMMA", ","), ("\\to", "\\rightarrow"), ("x", "x")],
)
def test_labels_become_tokens(label: str, token: str) -> None:
    assert label_token(label) == token


@pytest.mark.parametrize(
    ("truth", "tokens"),
    [
        ("$x^2$", "x ^ { 2 }"),
        ("\\frac 1 {\\sqrt a}", "\\frac { 1 } { \\sqrt { a } }"),
        ("\\sum ^ { n } _ { i=0 } i", "\\sum \\limits _ { i = 0 } ^ { n } i"),
        (" { \\mbox { j } \\lt \\lambda \\left ( n \\right ) } ", "j < \\lambda ( n )"),
    ],
)
def test_latex_annotation_becomes_a_caption(truth: str, tokens: str) -> None:
    assert caption(truth.replace("<", "&lt;")) == tokens


@pytest.mark.parametrize(
    ("math", "tokens"),
    [
        ("<msup><mi>x</mi><mn>2</mn></msup>", "x ^ { 2 }"),
        ("<msubsup><mi>x</mi><mi>i</mi><mn>2</mn></msubsup>", "x _ { i } ^ { 2 }"),
        ("<msubsup><mo>\\int</mo><mn>0</mn><mn>1</mn></msubsup>",
         "\\int \\limits _ { 0 } ^ { 1 }"),
        ("<munder><mo>\\lim</mo><mi>n</mi></munder>", "\\lim \\limits _ { n }"),
        ("<mroot><mi>x</mi><mn>3</mn></mroot>", "\\sqrt [ 3 ] { x }"),
        ("<msqrt><mi>a</mi><mi>b</mi></msqrt>", "\\sqrt { a b }"),
        ("<mn>12</mn>", "1 2"),
    ],
)  # fmt: skip
def test_mathml_becomes_a_caption(math: str, tokens: str) -> None:
    assert caption(math=math) == tokens


def test_mathml_is_used_if_the_annotation_is_invalid() -> None:
    assert caption("\\lim _ {n}} x", "<mi>x</mi>") == "x"
    assert caption("\\sqrt {x} ABOVE {3}", "<mi>x</mi>") == "x"


def test_spelled_function_names_become_tokens_if_the_ink_is_labeled_so() -> None:
    assert caption("$l o g x$", groups=[("\\log", ["0"], "l_1")]) == "\\log x"
    assert caption("$l o g x$") == "l o g x"


def test_mathml_pieces_distinguish_repeated_symbols() -> None:
    ink = read_inkml(fraction_ink(), "one")
    ones = [piece.symbols for piece in mathml_pieces(ink) if piece.token == "1"]
    assert [[ink.symbols[place].id for place in places] for places in ones] == [["1_1"], ["1_2"]]


def test_dots_are_taken_from_the_annotation() -> None:
    dots = "<mo>.</mo><mo>.</mo><mo>.</mo>"
    ink = read_inkml(inkml({"0": "0 0"}, truth="\\cdots", math=dots), "dots")
    assert [piece.token for piece in mathml_pieces(ink)] == ["\\cdots"]


@pytest.mark.parametrize(
    ("truth", "math", "said"),
    [
        (None, None, "neither a LaTeX <annotation> nor MathML"),
        ("\\frac{1", None, "<annotation> truth"),
        (None, "<mtable/>", "<mtable>"),
        (None, "<msub><mi>x</mi></msub>", "<msub> has 1 parts"),
    ],
)
def test_errors_name_the_ink(truth: str | None, math: str | None, said: str) -> None:
    with pytest.raises(InkError, match=r"^said") as caught:
        caption(truth, math)
    assert said in str(caught.value)


def test_captions_of_crohme_are_reproduced(crohme_zip: Path, crohme_ink_zip: Path) -> None:
    with zipfile.ZipFile(crohme_zip) as images, zipfile.ZipFile(crohme_ink_zip) as inks:
        lines = images.read("data/2014/caption.txt").decode().splitlines()
        captions = {line.split()[0]: tuple(line.split()[1:]) for line in lines}
        files = [name for name in inks.namelist() if "/2014/" in name and name.endswith("inkml")]
        same = [
            caption_of(read_inkml(inks.read(file), file)) == captions[PurePosixPath(file).stem]
            for file in files[::3]
        ]
    assert sum(same) / len(same) > 0.99
