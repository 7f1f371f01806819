"""The expression tree."""

from contextlib import suppress

import pytest
from counting import lines_run
from hypothesis import given
from hypothesis import strategies as st

from expressions import captions
from posformer.errors import LatexError
from posformer.latex import encode_forest, is_valid, tokenize
from posformer.latex.tree import Node, Row, Tree, baselines, parse, walk


def only_node(text: str) -> Node:
    (node,) = parse(text.split()).root.nodes
    return node


def tokens_of(rows: list[Row]) -> list[list[str]]:
    return [[node.token for node in row.nodes] for row in rows]


def test_fraction_has_two_arguments() -> None:
    node = only_node("\\frac { a } { b + c }")
    assert (node.token, node.index) == ("\\frac", 0)
    assert tokens_of(node.rows) == [["a"], ["b", "+", "c"]]
    assert [row.position for row in node.arguments] == ["L", "R"]
    assert [(row.start, row.end) for row in node.arguments] == [(1, 3), (4, 8)]


@pytest.mark.parametrize(
    ("text", "arguments", "option"),
    [
        ("\\sqrt { x }", [["x"]], None),
        ("\\sqrt [ 3 ] { x }", [["x"]], ["3"]),
        ("\\sqrt [ [ ] { ] }", [["]"]], ["["]),
        ("\\binom n k", [["n"], ["k"]], None),
        ("\\hat x", [["x"]], None),
        ("\\frac \\sqrt 2 x", [["\\sqrt"], ["x"]], None),
        ("\\xrightarrow [ a ] { b }", [["b"]], ["a"]),
        ("\\begin{array} { l r } a & b \\end{array}", [["a", "&", "b"]], ["l", "r"]),
        ("\\left ( x \\right )", [["(", "x"]], None),
    ],
)
def test_commands_have_their_arguments(
    text: str, arguments: list[list[str]], option: list[str] | None
) -> None:
    node = parse(text.split()).root.nodes[0]
    assert tokens_of(list(node.arguments)) == arguments
    assert (node.option and [one.token for one in node.option.nodes]) == option


@pytest.mark.parametrize("text", ["x _ { 1 } ^ { 2 }", "x ^ { 2 } _ { 1 }", "x _ 1 ^ 2"])
def test_scripts_belong_to_the_node_before_them_in_any_order(text: str) -> None:
    node = only_node(text)
    lower, upper = node.script("_"), node.script("^")
    assert lower is not None and upper is not None
    assert tokens_of([lower, upper]) == [["1"], ["2"]]


def test_script_without_a_base_gets_a_missing_one() -> None:
    missing, carbon = parse(tokenize("^ { 1 4 } C")).root.nodes
    assert (missing.token, missing.index, carbon.token) == ("", -1, "C")
    assert tokens_of(missing.rows) == [["1", "4"]]


def test_second_script_of_a_kind_gets_a_missing_base() -> None:
    nodes = parse(tokenize("x _ { 1 } _ { 2 } ^ { 3 }")).root.nodes
    assert [(node.token, len(node.scripts)) for node in nodes] == [("x", 1), ("", 2)]


def test_limits_belong_to_their_operator() -> None:
    assert only_node("\\sum \\limits _ { i } ^ { n }").limits == 1
    assert only_node("\\sum _ { i }").limits == -1


def test_rows_have_lines_and_cells() -> None:
    assert len(parse(tokenize("a \\\\ b \\\\ c")).root.lines) == 3
    (row,) = only_node("\\begin{cases} a & b \\\\ c & d \\end{cases}").arguments
    assert [[len(cell) for cell in line] for line in row.lines] == [[1, 1], [1, 1]]


def test_baselines_hold_the_nodes_of_a_row_and_of_its_groups() -> None:
    tree = parse(tokenize("x ^ { 2 } + { y } \\hat { z } \\frac { a } { b }"))
    assert [[node.token for node in row] for row in baselines(tree)] == [
        ["x", "+", "y", "z", "\\frac"],
        ["2"],
        ["a"],
        ["b"],
    ]


@pytest.mark.parametrize(
    ("text", "token", "number", "reason"),
    [
        ("x ^", "^", 2, "has too few arguments"),
        ("\\hat }", "\\hat", 1, "has too few arguments"),
        ("x ^ { 2", "{", 3, "is never closed"),
        ("x }", "}", 2, "closes nothing"),
        ("\\begin{array} { l } x", "\\begin{array}", 1, "is never closed"),
        ("\\left ( x", "\\left", 1, "is never closed"),
        ("\\root 3 x", "\\root", 1, "is never closed"),
    ],
)
def test_errors_name_the_token_and_its_number(
    text: str, token: str, number: int, reason: str
) -> None:
    with pytest.raises(LatexError) as caught:
        parse(text.split())
    assert (caught.value.token, caught.value.number, caught.value.reason) == (token, number, reason)


def test_depth_can_be_limited() -> None:
    tokens = ["{"] * 3 + ["}"] * 3
    assert len(parse(tokens, max_depth=3).rows) == 4
    with pytest.raises(LatexError, match=r"^\{ \(token 3\) is nested deeper than 2 groups"):
        parse(tokens, max_depth=2)


# Properties

SNIPPETS = tokenize(
    r"x^_{}\frac\sqrt[]\hat\sum\limits\\&\begin{array}\end{array}\left\right\root\of"
)


def tokens_in(tree: Tree) -> list[str]:
    """The tokens of a tree, collected from its nodes."""
    found: dict[int, str] = {}
    for row in tree.rows:
        found |= {index: tree.tokens[index] for index in (row.start, row.end) if index >= 0}
        for node in row.nodes:
            found |= {node.index: node.token, node.limits: "\\limits"}
            found |= {script.index: script.token for script in node.scripts}
    found.pop(-1, None)
    return [found[index] for index in sorted(found)]


def check_round_trip(tree: Tree) -> None:
    assert tokens_in(tree) == list(tree.tokens)
    order = [node.index for node in walk(tree.root.nodes) if node.index >= 0]
    assert order == sorted(order)


@given(captions())
def test_tokens_come_back_from_the_tree(tokens: list[str]) -> None:
    check_round_trip(parse(tokens))


@given(st.lists(st.sampled_from(SNIPPETS), max_size=30))
def test_lenient_parser_takes_any_tokens_and_agrees_with_the_strict_one(tokens: list[str]) -> None:
    tree = parse(tokens, lenient=True)
    check_round_trip(tree)
    with suppress(LatexError):
        assert parse(tokens).row_of == tree.row_of


@given(st.lists(st.sampled_from(SNIPPETS), max_size=30))
def test_lenient_parser_fills_in_missing_arguments(tokens: list[str]) -> None:
    for row in parse(tokens, lenient=True).rows:
        for node in row.nodes:
            arity = {"\\frac": 2, "\\sqrt": 1, "\\hat": 1}.get(node.token, len(node.arguments))
            assert len(node.arguments) == arity
            assert all(len(script.arguments) == 1 for script in node.scripts)


@given(captions())
def test_nested_levels_are_depths_in_the_tree(tokens: list[str]) -> None:
    tree = parse(tokens)
    levels = encode_forest(tokens, coding="authors").nested_levels
    for number, row in enumerate(tree.rows):
        depth, around = 0, row
        while around.parent >= 0:
            depth += bool(around.position)
            around = tree.rows[around.parent]
        inside = [i for i, at in enumerate(tree.row_of) if at == number]
        inside = [index for index in inside if index not in (row.start, row.end)]
        assert all(levels[index] == depth for index in inside)


@given(captions())
def test_rows_lie_between_their_delimiters(tokens: list[str]) -> None:
    for row in parse(tokens).rows[1:]:
        inside = [node.index for node in walk(row.nodes) if node.index >= 0]
        assert all(row.start < index < row.end for index in inside)
        alone = parse(tokens[row.start + 1 : row.end]).root
        assert tokens_of([alone]) == tokens_of([row])


# Size


@pytest.mark.parametrize(
    "tokens",
    [
        ["x", "^", "{"] * 10_000 + ["}"] * 10_000,
        ["{"] * 10_000 + ["}"] * 10_000,
        ["\\sqrt"] * 10_000 + ["x"],
        ["\\frac", "{", "}", "{"] * 10_000 + ["}"] * 10_000,
        ["\\begin{matrix}"] * 10_000 + ["\\end{matrix}"] * 10_000,
    ],
    ids=["scripts", "groups", "roots", "fractions", "matrices"],
)
def test_ten_thousand_levels_do_not_recurse(tokens: list[str]) -> None:
    tree = parse(tokens)
    check_round_trip(tree)
    assert sum(1 for _ in baselines(tree)) > 0
    assert isinstance(is_valid(tokens), bool)
    assert len(parse(tokens[: 3 * 10_000], lenient=True).rows) > 10_000 - 1


@pytest.mark.parametrize("unit", [["x", "^", "{"], ["\\frac", "{", "}"], ["}"], ["\\begin{a}"]])
def test_work_is_linear_in_the_number_of_tokens(unit: list[str]) -> None:
    def work(size: int) -> int:
        return lines_run(lambda: parse(unit * size + ["\\end{b}", "}"] * size, lenient=True))

    assert work(1_000) < 2.1 * work(500)
