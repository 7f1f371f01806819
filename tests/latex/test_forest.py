"""The position forest."""

import json
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
from counting import lines_run
from hypothesis import given
from hypothesis import strategies as st

from expressions import captions
from posformer.errors import LatexError
from posformer.latex import (
    complexity,
    draw_forest,
    encode_forest,
    identifier_codes,
    normalize,
    tokenize,
)
from posformer.latex.forest_drawing import forest_records, forest_table


def identifiers(latex: str, **options: object) -> list[str]:
    tokens = normalize(latex, reorder_scripts=False)
    return encode_forest(tokens, **options).identifiers()


def test_the_example_of_the_paper() -> None:
    tokens = tokenize(r"Ay^{3}_{1}+\frac{y^{\beta_{1}}_{2}B}{C}")
    forest = encode_forest(tokens)
    spelled = dict(zip(range(len(tokens)), forest.identifiers(), strict=True))
    assert tokens[19] == "1"
    assert spelled[19] == "MLLR"
    assert " ".join(forest.identifiers()) == (
        "M M ML ML ML ML MR MR MR MR M ML ML ML MLL MLL MLL MLLR MLLR MLLR MLLR MLL"
        " MLR MLR MLR MLR ML ML MR MR MR"
    )


def test_powers_of_powers_have_complexity_four() -> None:
    assert complexity(normalize("x^{2^2}+x^{2^{2^2}}+x^{2^{2^{2_2}}}")) == 4
    assert complexity(["x"]) == complexity([]) == 0


@pytest.mark.parametrize(
    ("latex", "expected"),
    [
        ("x^2", "M ML ML ML ML"),
        ("x_2", "M MR MR MR MR"),
        ("^{14}C", "ML ML ML ML ML M"),
        (r"\frac ab", "ML ML ML ML MR MR MR"),
        (r"\binom ab", "ML ML ML ML MR MR MR"),
        (r"\stackrel ab", "ML ML ML ML MR MR MR"),
        (r"\overset ab", "ML ML ML ML MR MR MR"),
        (r"\underset ab", "MR MR MR MR ML ML ML"),
        (r"\sqrt a", "MR MR MR MR"),
        (r"\sqrt[n]a", "MR ML ML ML MR MR MR"),
        (r"\hat a", "M M M M"),
        (r"\mathbb R", "M M M M"),
        (r"\sum_i^n", "M MR MR MR MR ML ML ML ML"),
        (r"\lim\limits_n x", "M M MR MR MR MR M"),
        (r"a\\b^2", "M M M ML ML ML ML"),
        (r"\begin{matrix}a&b\\c&d_1\end{matrix}", "M M M M M M M M MR MR MR MR M"),
        (r"\sqrt{\frac1{x^2}}", "MR MR MRL MRL MRL MRL MRR MRR MRRL MRRL MRRL MRRL MRR MR"),
        (r"\sqrt[n_1]{a^2}", "MR ML ML MLR MLR MLR MLR ML MR MR MRL MRL MRL MRL MR"),
        ("[0,1]", "M M M M M"),
    ],
)
def test_every_substructure_has_its_branches(latex: str, expected: str) -> None:
    assert " ".join(identifiers(latex)) == expected


@pytest.mark.parametrize(
    ("tokens", "expected"),
    [
        ("{ x }", "M M M"),
        ("{ x } ^ { 2 }", "M M M ML ML ML ML"),
        ("x ^ 2", "M ML ML"),
        (r"x ^ \frac 1 2 y", "M ML MLL MLL MLR M"),
        (r"\frac \sqrt 2 x y", "ML MLR MLR MR M"),
        (r"x ^ { ] }", "M ML ML ML ML"),
        (r"\sqrt { [ } ]", "MR MR MR MR M"),
        (r"\dfrac { 1 } { 2 }", "ML ML ML ML MR MR MR"),
    ],
)
def test_bare_groups_are_transparent_and_single_tokens_are_arguments(
    tokens: str, expected: str
) -> None:
    assert " ".join(encode_forest(tokens.split()).identifiers()) == expected


@pytest.mark.parametrize(
    ("tokens", "token", "number", "reason"),
    [
        ("x ^ { 2", "{", 3, "never closed"),
        ("x }", "}", 2, "closes nothing"),
        ("x ^ }", "^", 2, "too few arguments"),
        ("x ^", "^", 2, "too few arguments"),
        (r"\frac { 1 }", r"\frac", 1, "too few arguments"),
        (r"{ \frac { 1 } }", r"\frac", 2, "too few arguments"),
        (r"\sqrt [ 3 { 2 }", "[", 2, "never closed"),
        (r"a ^ \\ b", "^", 2, "too few arguments"),
        (r"\begin{matrix} a", r"\begin{matrix}", 1, "never closed"),
        (r"\begin{matrix} a \end{cases}", r"\end{cases}", 3, r"\end{matrix} is awaited"),
        (r"{ \begin{matrix} }", "}", 3, r"\end{matrix} is awaited"),
        (r"\end{matrix}", r"\end{matrix}", 1, "closes nothing"),
    ],
)
def test_errors_name_the_token_and_its_number(
    tokens: str, token: str, number: int, reason: str
) -> None:
    with pytest.raises(LatexError) as caught:
        encode_forest(tokens.split())
    assert (caught.value.token, caught.value.number) == (token, number)
    assert reason in str(caught.value)
    assert len(encode_forest(tokens.split(), lenient=True)) == len(tokens.split())


@pytest.mark.parametrize(
    ("tokens", "expected"),
    [
        ("x ^ { 2", "M ML ML ML"),
        ("x } y", "M M M"),
        ("x ^ } y", "M ML M M"),
        (r"\frac { 1 } + 2", "ML ML ML ML MR M"),
        (r"{ \frac { 1 } } 2", "M ML ML ML ML M M"),
        (r"\sqrt [ 3 } x", "MR ML ML ML ML"),
        (r"a _ { \begin{matrix} b } c", "M MR MR MR MR MR M"),
        (r"\frac { a ^ { b } c", "ML ML ML MLL MLL MLL MLL ML"),
    ],
)
def test_lenient_closes_open_groups_and_ignores_stray_closers(tokens: str, expected: str) -> None:
    assert " ".join(encode_forest(tokens.split(), lenient=True).identifiers()) == expected


def test_unknown_coding_is_an_error() -> None:
    with pytest.raises(ValueError, match="coding"):
        encode_forest(["x"], coding="other")


# Properties


@given(captions())
def test_identifiers_agree_with_levels_and_positions(tokens: list[str]) -> None:
    forest = encode_forest(tokens)
    spelled = forest.identifiers()
    assert len(forest) == len(spelled) == len(forest.levels) == len(tokens)
    assert [len(identifier) - 1 for identifier in spelled] == list(forest.nested_levels)
    assert [identifier[-1] for identifier in spelled] == list(forest.relative_positions)
    assert (forest.levels, forest.positions) == (forest.nested_levels, forest.relative_positions)
    assert all(identifier[0] == "M" for identifier in spelled)
    assert forest.complexity == max(forest.levels)


@given(captions(), captions(), st.sampled_from(["^", "_", r"\sqrt", r"\frac", "{"]))
def test_identifiers_of_a_group_extend_those_of_its_surroundings(
    content: list[str], other: list[str], command: str
) -> None:
    inside = encode_forest(content).identifiers()
    prefix = {"^": "ML", "_": "MR", r"\sqrt": "MR", r"\frac": "ML", "{": "M"}[command]
    opening = ["{"] if command == "{" else [command, "{"]
    behind = ["{", *other, "}"] if command == r"\frac" else other
    whole = encode_forest([*other, *opening, *content, "}", *behind]).identifiers()
    start = len(other) + len(opening)
    group = whole[start : start + len(content)]
    assert group == [prefix + identifier[1:] for identifier in inside]
    assert whole[: len(other)] == encode_forest(other).identifiers()


@given(captions())
def test_reversed_forest_is_the_forest_from_right_to_left(tokens: list[str]) -> None:
    forest = encode_forest(tokens)
    back = forest.reversed()
    assert back.tokens == forest.tokens[::-1]
    assert back.identifiers() == forest.identifiers()[::-1]
    assert back.levels == forest.levels[::-1]
    assert back.positions == forest.positions[::-1]
    assert identifier_codes(back) == identifier_codes(forest)[::-1]
    assert back.reversed() == forest


@given(captions(), st.integers(1, 8), st.sampled_from(["paper", "authors"]))
def test_codes_are_identifiers_as_numbers(tokens: list[str], length: int, coding: str) -> None:
    forest = encode_forest(tokens, coding=coding)
    for row, identifier in zip(identifier_codes(forest, length), forest.identifiers(), strict=True):
        numbers = [{"M": 3, "L": 4, "R": 5}[letter] for letter in identifier]
        assert row == (numbers + [0] * length)[:length]


@given(captions())
def test_both_codings_agree_on_symbols(tokens: list[str]) -> None:
    paper = encode_forest(tokens).identifiers()
    authors = encode_forest(tokens, coding="authors").identifiers()
    operators = {"^", "_", "{", "}", "[", "]", r"\frac", r"\binom", r"\overset", r"\sqrt"}
    for token, ours, theirs in zip(tokens, paper, authors, strict=True):
        if token not in operators:
            assert theirs == ours[1:] + "M"


SNIPPETS = tokenize(r"x^_{}\frac\sqrt[]\\&\begin{a}\end{a}")


@given(st.lists(st.sampled_from(SNIPPETS)))
def test_lenient_never_raises_and_agrees_with_strict(tokens: list[str]) -> None:
    forest = encode_forest(tokens, lenient=True)
    assert len(forest.identifiers()) == len(tokens)
    assert draw_forest(forest)
    with suppress(LatexError):
        assert encode_forest(tokens) == forest


# Size


def nested(depth: int) -> list[str]:
    return ["x", "^", "{"] * depth + ["}"] * depth


def test_ten_thousand_nested_groups() -> None:
    depth = 10_000
    forest = encode_forest(nested(depth))
    assert forest.complexity == depth
    assert len(forest.branch_positions) == depth + 1
    assert forest.levels[:4] == (0, 1, 1, 1)
    assert forest.levels[-2:] == (2, 1)
    assert identifier_codes(forest)[3 * depth - 1] == [3, 4, 4, 4, 4]
    assert encode_forest(nested(depth)[: 3 * depth], lenient=True).complexity == depth


def test_line_of_ten_thousand_tokens_has_one_branch() -> None:
    forest = encode_forest(["x", "+"] * 5_000)
    assert forest.complexity == 0
    assert len(forest.branch_positions) == 1
    assert identifier_codes(forest) == [[3, 0, 0, 0, 0]] * 10_000


@pytest.mark.parametrize(
    "tokens_of_size",
    [
        nested,
        lambda size: ["x", "+"] * size,
        lambda size: ["^"] * size + ["}"] * size,
        lambda size: [r"\frac", "{", "a", "}", "{", "b", "}"] * size,
        lambda size: [r"\frac", "{", "a", "}", "{"] * size + ["}"] * size,
    ],
)
def test_work_is_linear_in_the_number_of_tokens(tokens_of_size) -> None:
    def work(size: int) -> int:
        tokens = tokens_of_size(size)
        return lines_run(lambda: identifier_codes(encode_forest(tokens, lenient=True)))

    assert work(2_000) < 2.1 * work(1_000)


# The authors' coding


@pytest.mark.parametrize(
    ("latex", "expected"),
    [
        ("x^2", "M M M LM M"),
        (r"\frac ab", "M M LM M M RM M"),
        (r"\sqrt[3]a", "M M LM M M RM M"),
        ("x^{2_3}", "M M M LM LM LM LRM LM M"),
    ],
)
def test_authors_coding(latex: str, expected: str) -> None:
    assert " ".join(identifiers(latex, coding="authors")) == expected


def test_authors_coding_matches_their_program(reference: Path) -> None:
    arrays = np.load(reference / "posformer_reference_small.npz")
    texts = json.loads((reference / "posformer_reference_small.json").read_text("utf-8"))
    captions = texts["captions"]
    letters = {"M": 3, "L": 4, "R": 5}
    for row in range(2 * len(captions)):
        forest = encode_forest(captions[row % len(captions)].split(), coding="authors")
        start = 1
        if row >= len(captions):
            forest, start = forest.reversed(), 2
        rows = arrays["position_input"][row]
        size = len(forest)
        assert rows[0].tolist() == [start, 0, 0, 0, 0]
        assert rows[1 : size + 1].tolist() == identifier_codes(forest)
        assert not rows[size + 1 :].any()
        assert arrays["level_target"][row, :size].tolist() == list(forest.levels)
        positions = [letters[letter] for letter in forest.positions]
        assert arrays["position_target"][row, :size].tolist() == positions


# Drawing


def drawn(latex: str) -> list[str]:
    return draw_forest(encode_forest(normalize(latex, reorder_scripts=False))).splitlines()


def test_substructures_are_trees_in_series() -> None:
    assert drawn(r"x^2+\frac{1}{3}") == [
        "M  x",
        "└─ L  ^ 2",
        "M  +",
        r"M  \frac",
        "├─ L  1",
        "└─ R  3",
    ]


def test_the_example_of_the_paper_is_drawn_as_in_its_figure() -> None:
    assert drawn(r"A y^3_1 + \frac{y^{\beta_1}_2 B}{C}") == [
        "M  A",
        "M  y",
        "├─ L  ^ 3",
        "└─ R  _ 1",
        "M  +",
        r"M  \frac",
        "├─ L  y",
        r"│  ├─ L  ^ \beta",
        "│  │  └─ R  _ 1",
        "│  └─ R  _ 2",
        "├─ L  B",
        "└─ R  C",
    ]


@pytest.mark.parametrize(
    ("latex", "lines"),
    [
        (r"x^2\frac12", ["M  x", "└─ L  ^ 2", r"M  \frac", "├─ L  1", "└─ R  2"]),
        (r"\sqrt[3]{x}", [r"M  \sqrt", "├─ L  [ 3 ]", "└─ R  x"]),
        ("^{14}C", ["M", "└─ L  ^ 1 4", "M  C"]),
        ("x^{a+b_1}", ["M  x", "├─ L  ^ a +", "└─ L  b", "   └─ R  _ 1"]),
        ("{x^2}^3", ["M  x", "└─ L  ^ 2", "M", "└─ L  ^ 3"]),
        (r"\frac12^3", [r"M  \frac", "├─ L  1", "└─ R  2", "M", "└─ L  ^ 3"]),
        (r"\hat{x}^2", [r"M  \hat x", "└─ L  ^ 2"]),
        (r"\sum\limits_i x", [r"M  \sum \limits", "└─ R  _ i", "M  x"]),
        (r"\frac{}{}", [r"M  \frac", "├─ L", "└─ R"]),
    ],
)
def test_each_substructure_is_a_tree_with_its_own_root(latex: str, lines: list[str]) -> None:
    assert drawn(latex) == lines


def test_deep_nests_are_drawn_without_recursion() -> None:
    assert len(draw_forest(encode_forest(nested(1_500))).splitlines()) == 1_501


def test_lines_are_drawn_below_each_other() -> None:
    assert drawn(r"x=1\\y=2") == [r"M  x = 1 \\", "M  y = 2"]


def test_records_and_table_agree() -> None:
    forest = encode_forest(["x", "^", "{", "2", "}"])
    records = forest_records(forest)
    assert records[0] == {"token": "x", "identifier": "M", "level": 0, "position": "M"}
    assert records[3] == {"token": "2", "identifier": "ML", "level": 1, "position": "L"}
    lines = forest_table(forest).splitlines()
    assert lines[0].split() == list(records[0])
    assert [line.split() for line in lines[1:]] == [
        [str(value) for value in record.values()] for record in records
    ]


@given(captions())
def test_drawing_contains_all_tokens_except_braces(tokens: list[str]) -> None:
    forest = encode_forest(tokens)
    words = draw_forest(forest).split()
    shown = [word for word in words if word not in ("├─", "└─", "│", "M", "L", "R")]
    assert shown == [token for token in forest.tokens if token not in ("{", "}")]
