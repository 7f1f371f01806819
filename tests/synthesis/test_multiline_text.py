"""Multi-line texts."""

from dataclasses import replace

import numpy as np
import pytest

from posformer.errors import DataError
from posformer.ink.alignment import inked_places
from posformer.latex import check, complexity, encode_forest, tokenize
from posformer.synthesis.grammar import Grammar
from posformer.synthesis.multiline import ENVIRONMENTS, arrange
from posformer.synthesis.synthesizer import Synthesizer


@pytest.fixture(scope="module")
def grammar() -> Grammar:
    return Grammar.own()


@pytest.fixture(scope="module")
def synthesizer() -> Synthesizer:
    return replace(
        Synthesizer.own(), lines=(2, 3), environments=("cases", "aligned", "pmatrix"), max_tokens=16
    )


def _lines(tokens: list[str]) -> list[list[str]]:
    """The lines between `\\begin{…}` and `\\end{…}`."""
    lines: list[list[str]] = [[]]
    for token in tokens[1:-1]:
        if token == "\\\\":
            lines.append([])
        else:
            lines[-1].append(token)
    return lines


@pytest.mark.parametrize("environment", sorted(ENVIRONMENTS))
def test_texts_are_valid_and_have_the_requested_lines(grammar, environment):
    rng = np.random.default_rng(0)
    for lines in (1, 2, 3):
        for _ in range(20):
            tokens = arrange(grammar, environment, rng, lines, max_tokens=20)
            check(tokens)
            assert tokens[0] == f"\\begin{{{environment}}}"
            assert tokens[-1] == f"\\end{{{environment}}}"
            assert len(_lines(tokens)) == lines


def test_every_line_of_a_system_is_an_equation(grammar):
    rng = np.random.default_rng(1)
    for _ in range(50):
        for line in _lines(arrange(grammar, "cases", rng, 3, max_tokens=20)):
            assert line.count("=") >= 1 and line[0] != "=" and line[-1] != "=" and "&" not in line


def test_derivations_are_aligned_at_the_equals_sign(grammar):
    rng = np.random.default_rng(2)
    derived = 0
    for _ in range(50):
        first, *others = _lines(arrange(grammar, "aligned", rng, 3, max_tokens=20))
        assert first[0] != "&"
        for line in (first, *others):
            assert line.count("&") == 1 and line[line.index("&") + 1] == "="
        derived += sum(line[0] == "&" for line in others)
    assert 20 < derived < 80


def test_matrix_rows_have_the_same_number_of_cells(grammar):
    rng = np.random.default_rng(3)
    widths = set()
    for _ in range(40):
        rows = _lines(arrange(grammar, "pmatrix", rng, 3, max_tokens=20))
        assert len({row.count("&") for row in rows}) == 1
        widths.add(1 + rows[0].count("&"))
    assert widths == {2, 3}


def test_lines_are_trees_in_series(synthesizer):
    rng = np.random.default_rng(4)
    for _ in range(50):
        forest = encode_forest(synthesizer.make(rng).tokens)
        for token, level, position in zip(
            forest.tokens, forest.levels, forest.positions, strict=True
        ):
            if token in ("\\\\", "&") or token.startswith(("\\begin", "\\end")):
                assert (level, position) == (0, "M")


def test_number_of_symbols_is_limited(synthesizer):
    rng = np.random.default_rng(5)
    small = replace(synthesizer, max_symbols=10)
    assert all(len(inked_places(small.make(rng).tokens)) <= 10 for _ in range(50))
    with pytest.raises(
        DataError, match="found no new expression in 1000 attempts with at most 2 symbols"
    ):
        replace(synthesizer, max_symbols=2).make(rng)


def test_nested_level_is_respected_in_environments(synthesizer):
    rng = np.random.default_rng(6)
    for level in (0, 1, 2):
        assert all(complexity(synthesizer.make(rng, level).tokens) == level for _ in range(10))


def test_held_out_text_is_never_generated(synthesizer):
    rng = np.random.default_rng(7)
    tiny = replace(Synthesizer.own({"x", "1", "="}), lines=(2, 2), environments=("cases",))
    tiny = replace(tiny, max_tokens=3, max_symbols=7)
    made = {tiny.make(rng).tokens for _ in range(60)}
    held_out = frozenset(sorted(made)[: len(made) // 2])
    strict = replace(tiny, held_out=held_out)
    assert not held_out & {strict.make(rng).tokens for _ in range(200)}


def test_tokens_lists_everything_expressions_can_contain(synthesizer):
    rng = np.random.default_rng(8)
    used = {token for _ in range(100) for token in synthesizer.make(rng).tokens}
    assert used <= synthesizer.tokens
    assert {"\\\\", "&", "\\begin{cases}", "\\end{pmatrix}"} <= synthesizer.tokens
    assert "\\begin{bmatrix}" not in synthesizer.tokens


def test_disallowed_letters_and_digits_are_replaced():
    captions = [tokenize("m + n ^ { 7 }"), tokenize("\\alpha + 1")]
    grammar = Grammar.fit(captions, {"x", "y", "2", "+", "^", "{", "}"})
    rng = np.random.default_rng(9)
    used = {token for _ in range(100) for token in grammar.sample(rng)}
    assert used == {"x", "y", "2", "+", "^", "{", "}"} == grammar.tokens


def test_unknown_environment_is_named():
    with pytest.raises(DataError, match="environment 'itemize': expected one of Bmatrix, "):
        replace(Synthesizer.own(), environments=("cases", "itemize"))
