"""The symbol layout tree: captions to symbols and relations, and back without loss."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from expressions import captions
from posformer.data import open_images
from posformer.latex.layout_tree import RELATIONS, LayoutNode, layout_tokens, layout_tree

TOKENS = [*"ab2[]{}^_&", r"\frac", r"\sqrt", r"\limits", r"\sum", r"\hat", r"\left", r"\right"]
TOKENS += [r"\begin{matrix}", r"\end{matrix}", r"\begin{array}", r"\end{array}", r"\root", r"\of"]


def relations(caption: str) -> list[tuple[str, str, str]]:
    """Return token, relation and the parent's token of every symbol."""
    nodes = layout_tree(caption.split())
    return [
        (one.token, RELATIONS[one.relation], nodes[one.parent].token if one.parent >= 0 else "-")
        for one in nodes
    ]


def test_scripts_and_arguments_are_branches() -> None:
    assert relations(r"\frac { a } { 2 } _ { i } ^ { n } + 1") == [
        (r"\frac", "right", "-"),
        ("a", "above", r"\frac"),
        ("2", "below", r"\frac"),
        ("i", "sub", r"\frac"),
        ("n", "sup", r"\frac"),
        ("+", "right", r"\frac"),
        ("1", "right", "+"),
    ]


def test_limits_are_below_and_above() -> None:
    assert relations(r"\sum \limits _ { i } ^ { n } x") == [
        (r"\sum", "right", "-"),
        ("n", "above", r"\sum"),
        ("i", "below", r"\sum"),
        ("x", "right", r"\sum"),
    ]


def test_roots_have_an_inside_and_an_index() -> None:
    expected = [(r"\sqrt", "right", "-"), ("3", "left-sup", r"\sqrt"), ("x", "inside", r"\sqrt")]
    assert relations(r"\sqrt [ 3 ] { x }") == expected


def test_a_missing_base_is_an_empty_symbol() -> None:
    nodes = layout_tree(["^", "{", "1", "4", "}", "C", "O", "_", "{", "2", "}"])
    assert nodes[:2] == [LayoutNode("", -1, 6, -1), LayoutNode("1", 0, 3, 2)]
    assert layout_tokens(nodes) == ["^", "{", "1", "4", "}", "C", "O", "_", "{", "2", "}"]


@pytest.mark.parametrize(
    "caption",
    [
        "",
        "x",
        r"\sqrt { }",
        r"\frac { } { }",
        r"x ^ { }",
        r"x ^ { a } ^ { b }",
        r"{ a + b } ^ { 2 } c",
        r"{ } ^ { 2 }",
        r"\left ( \frac { a } { b } \right ) ^ { 2 }",
        r"\begin{matrix} a & b \\ c & d \end{matrix} ^ { 2 } + 1",
        r"\begin{array} { c c } a & b \end{array}",
        r"\sum \limits x",
        r"\overset { a } { b } \limits _ { c }",
        r"\underset { a } { b } _ { c }",
        r"\xrightarrow [ a ] { b }",
        r"\root 3 \of { x }",
        r"\hat { \bar { x } } ^ { 2 }",
        r"\underbrace { a } \limits _ { n }",
        r"a \\ b",
    ],
)
def test_a_caption_is_restored(caption: str) -> None:
    tokens = caption.split()
    assert layout_tokens(layout_tree(tokens)) == tokens


@given(captions(max_leaves=8))
def test_any_expression_is_restored(tokens: list[str]) -> None:
    nodes = layout_tree(tokens)
    assert layout_tokens(nodes) == tokens
    for index, node in enumerate(nodes):
        assert node.parent < index
        assert node.source < 0 or tokens[node.source] == node.token


@given(st.lists(st.sampled_from(TOKENS), max_size=14))
def test_malformed_captions_have_a_tree(tokens: list[str]) -> None:
    layout_tokens(layout_tree(tokens))


@given(
    st.lists(
        st.tuples(st.sampled_from([*TOKENS, ""]), st.integers(0, 20), st.integers(0, 6)), max_size=9
    )
)
def test_any_tree_has_a_caption(parts: list[tuple[str, int, int]]) -> None:
    nodes = [
        LayoutNode(token, parent % index if index else -1, relation, -1)
        for index, (token, parent, relation) in enumerate(parts)
    ]
    layout_tokens(nodes)


def test_a_deep_nest_needs_no_recursion() -> None:
    tokens = ["x", *["^", "{", "x"] * 3000, *["}"] * 3000]
    assert layout_tokens(layout_tree(tokens)) == tokens


def test_all_captions_of_crohme_are_restored(crohme_zip: Path) -> None:
    lost = {}
    for split in ("train", "2014", "2016"):
        found = [one.tokens for one in open_images(crohme_zip, split)]
        lost[split] = sum(layout_tokens(layout_tree(one)) != [*one] for one in found)
        assert split != "train" or len(found) == 8834
    assert lost == {"train": 0, "2014": 0, "2016": 0}
