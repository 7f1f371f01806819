"""Expressions sampled from a grammar."""

import numpy as np
import pytest

from posformer.errors import DataError
from posformer.latex import complexity, encode_forest, tokenize
from posformer.synthesis.grammar import Grammar


@pytest.fixture(scope="module")
def grammar() -> Grammar:
    return Grammar.own()


@pytest.mark.parametrize("level", [0, 1, 2, 3, 4, 5])
def test_nested_level_is_exact(grammar, level):
    rng = np.random.default_rng(level)
    assert all(complexity(grammar.sample(rng, level=level)) == level for _ in range(50))


def test_number_of_lines_is_exact(grammar):
    rng = np.random.default_rng(0)
    for lines in (2, 3, 4):
        tokens = grammar.sample(rng, level=2, lines=lines)
        assert tokens.count("\\\\") == lines - 1
        assert complexity(tokens) == 2


def test_expressions_are_valid_and_balanced(grammar):
    rng = np.random.default_rng(0)
    for _ in range(200):
        tokens = grammar.sample(rng)
        encode_forest(tokens)
        for opening, closing in ("()", "{}", ("\\{", "\\}")):
            assert tokens.count(opening) == tokens.count(closing)
        assert tokens.count("|") % 2 == 0


def test_length_stays_within_bounds(grammar):
    rng = np.random.default_rng(0)
    for _ in range(50):
        assert 5 <= len(grammar.sample(rng, level=1, min_tokens=5, max_tokens=12)) <= 12


def test_only_tokens_of_captions_and_vocabulary_are_sampled():
    captions = [tokenize("a + b ^ { 2 }"), tokenize("c _ { 1 } = 3"), tokenize("x ( y )")]
    known = {token for caption in captions for token in caption}
    rng = np.random.default_rng(0)
    every = {t for _ in range(100) for t in Grammar.fit(captions).sample(rng)}
    assert every <= known
    some = {t for _ in range(100) for t in Grammar.fit(captions, known - {"("}).sample(rng)}
    assert some <= known - {"(", ")", "x", "y"}


def test_lines_add_only_line_breaks():
    grammar = Grammar.fit([tokenize("a + b"), tokenize("c ^ { 2 }")])
    rng = np.random.default_rng(0)
    used = {token for _ in range(50) for token in grammar.sample(rng, lines=3)}
    assert used <= {"a", "b", "c", "+", "2", "^", "{", "}", "\\\\"}


def test_most_expressions_are_new(grammar):
    rng = np.random.default_rng(0)
    made = {tuple(grammar.sample(rng, level=2)) for _ in range(100)}
    assert len(made) > 95


def test_same_seed_gives_the_same_expressions(grammar):
    def sample(seed):
        rng = np.random.default_rng(seed)
        return [grammar.sample(rng) for _ in range(10)]

    assert sample(1) == sample(1) != sample(2)


def test_invalid_captions_are_left_out():
    broken = [tokenize("( x"), tokenize("y ^ {"), tokenize("{ z }")]
    grammar = Grammar.fit([*broken, tokenize("a + b")])
    rng = np.random.default_rng(0)
    assert {token for _ in range(30) for token in grammar.sample(rng)} <= {"a", "b", "+"}


def test_errors():
    with pytest.raises(DataError, match="no caption"):
        Grammar.fit([])
    with pytest.raises(DataError, match="only tokens of the vocabulary"):
        Grammar.fit([tokenize("a + b")], {"a", "b"})
    with pytest.raises(DataError, match="no nested"):
        Grammar.fit([tokenize("a + b")]).sample(np.random.default_rng(0), level=1)
    with pytest.raises(DataError, match="level 5 with 1 to 4 tokens"):
        Grammar.own().sample(np.random.default_rng(0), level=5, max_tokens=4)
