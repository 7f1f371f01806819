"""Text to tokens and back."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from expressions import captions
from posformer.latex import (
    STRUCTURE_TOKENS,
    fence_of,
    in_lines,
    is_structure,
    normalize,
    split_caption,
    to_latex,
    tokenize,
)


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("x^{2}", ["x", "^", "{", "2", "}"]),
        (r"\frac12", [r"\frac", "1", "2"]),
        (r"\sin x", [r"\sin", "x"]),
        (r"\{a\}", [r"\{", "a", r"\}"]),
        (r"a\\b", ["a", r"\\", "b"]),
        (r"a\,b", ["a", r"\,", "b"]),
        (r"\alpha\beta", [r"\alpha", r"\beta"]),
        (r"\cdot*x", [r"\cdot", "*", "x"]),
        (r"\begin{matrix}a&b\end{matrix}", [r"\begin{matrix}", "a", "&", "b", r"\end{matrix}"]),
        (r"\begin {align*} x", [r"\begin{align*}", "x"]),
        (r"\\begin", [r"\\", "b", "e", "g", "i", "n"]),
        ("x\\ y", ["x", "\\", "y"]),
        ("x\t²\n≤", ["x", "²", "≤"]),
        ("", []),
    ],
)
def test_commands_characters_and_environments_are_tokens(text: str, tokens: list[str]) -> None:
    assert tokenize(text) == tokens


@given(captions())
def test_tokenizing_a_caption_splits_it_at_white_space(tokens: list[str]) -> None:
    assert tokenize(" ".join(tokens)) == tokens


@given(captions())
def test_to_latex_and_tokenize_are_inverse(tokens: list[str]) -> None:
    text = to_latex(tokens)
    assert tokenize(text) == tokens
    assert normalize(text) == tokens


@pytest.mark.parametrize(
    ("tokens", "text"),
    [
        ("x ^ { 2 }", "x^{2}"),
        (r"\sin x", r"\sin x"),
        (r"\sin 2 x", r"\sin2x"),
        (r"\alpha \beta", r"\alpha\beta"),
        (r"\frac { 1 } { x }", r"\frac{1}{x}"),
        (r"\{ a \}", r"\{a\}"),
        (r"\sum \limits _ { i } x", r"\sum\limits_{i}x"),
        (r"\begin{matrix} a & b \\ c & d \end{matrix}", r"\begin{matrix}a&b\\c&d\end{matrix}"),
        (r"\pi é", r"\pi é"),
        ("5 %", r"5\%"),
        (r"x \\ [ 0 , 1 ]", r"x\\{}[0,1]"),
        (". . .", ". . ."),
        ("", ""),
    ],
)
def test_to_latex_adds_spaces_only_where_needed(tokens: str, text: str) -> None:
    assert to_latex(tokens.split()) == text


def test_bracket_after_a_line_break_is_kept() -> None:
    tokens = [r"x", r"\\", r"[", r"2", r"]"]
    assert normalize(to_latex(tokens)) == tokens


def test_structure_tokens_have_no_ink() -> None:
    assert frozenset({"^", "_", "{", "}", r"\limits", r"\\", "&"}) == STRUCTURE_TOKENS
    assert all(map(is_structure, [*STRUCTURE_TOKENS, r"\begin{matrix}", r"\end{align*}"]))
    assert not any(map(is_structure, ["x", r"\frac", r"\sqrt", r"\{", r"\prime", "[", r"\begin"]))


@given(st.text())
def test_any_text_can_be_tokenized(text: str) -> None:
    tokens = tokenize(text)
    assert all(token.split() == [token] for token in tokens)


@pytest.mark.parametrize(
    ("caption", "tokens"),
    [
        (r"\begin{cases} x \\ y \end{cases}", [r"\begin{cases}", "x", r"\\", "y", r"\end{cases}"]),
        (r"\begin { cases } x \end { cases }", [r"\begin{cases}", "x", r"\end{cases}"]),
        (r"\begin {align*} x & = 1", [r"\begin{align*}", "x", "&", "=", "1"]),
        (r"x ^ { 2 }", ["x", "^", "{", "2", "}"]),
    ],
)
def test_captions_keep_environments_in_one_token(caption: str, tokens: list[str]) -> None:
    assert list(split_caption(caption)) == tokens
    assert tokenize(caption) == tokens


@pytest.mark.parametrize(
    ("tokens", "text"),
    [
        ("x + 1", "x+1"),
        (r"a \\ b", r"\begin{array}{l}a\\b\end{array}"),
        (r"a & = b \\ & = c", r"\begin{array}{ll}a&=b\\&=c\end{array}"),
        (r"a \\ [ b ]", r"\begin{array}{l}a\\{}[b]\end{array}"),
        (r"\begin{cases} a \\ b \end{cases}", r"\begin{cases}a\\b\end{cases}"),
        (
            r"\begin{cases} a & b \\ c & d \end{cases} \\ x",
            r"\begin{array}{l}\begin{cases}a&b\\c&d\end{cases}\\x\end{array}",
        ),
        (r"\begin{array} a & b \\ c \end{array}", r"\begin{array}{ll}a&b\\c\end{array}"),
        (r"\begin{array} { r } a \\ b \end{array}", r"\begin{array}{r}a\\b\end{array}"),
        (r"\end{cases} a \\ b", r"\begin{array}{l}\end{cases}a\\b\end{array}"),
    ],
)
def test_lines_outside_of_environments_get_an_array(tokens: str, text: str) -> None:
    assert to_latex(in_lines(tokens.split())) == text


@pytest.mark.parametrize(
    ("token", "symbols"),
    [
        (r"\begin{cases}", (r"\{",)),
        (r"\end{cases}", ()),
        (r"\begin{pmatrix}", ("(",)),
        (r"\end{bmatrix*}", ("]",)),
        (r"\begin{Vmatrix}", ("|", "|")),
        (r"\begin{aligned}", ()),
        ("x", ()),
    ],
)
def test_fences_of_environments(token: str, symbols: tuple[str, ...]) -> None:
    assert fence_of(token) == symbols
