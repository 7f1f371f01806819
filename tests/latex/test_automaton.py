"""The automaton accepts what the syntax check accepts, from either end."""

import gzip
import itertools
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from expressions import captions
from posformer.data import open_images
from posformer.latex import is_valid
from posformer.latex.automaton import Automaton, State
from posformer.latex.symbols import SYMBOLS

ENVIRONMENTS = [f"\\{side}{{{name}}}" for name in ("matrix", "cases") for side in ("begin", "end")]
TOKENS = [*SYMBOLS, *ENVIRONMENTS, r"\end{array}", r"\left", r"\right", r"\of", r"\unknown"]
SMALL_VOCABULARIES = [
    "x ^ _ { }",
    r"\sum x \limits _ { }",
    r"\sqrt [ ] { } ^",
    r"\frac [ { } ^ \sqrt",
    r"\begin{array} \end{array} & { } ^",
    r"\left \right \\ { } x",
    r"\root \of { } & [",
    r"\xrightarrow \sqrt [ ] { }",
    r"\begin{cases} \end{cases} \begin{array} x \end{array}",
]


def follow(automaton: Automaton, indices: Sequence[int], reverse: bool) -> State | None:
    """Return the state after some tokens, None if they are not allowed."""
    state = automaton.start(reverse)
    for index in reversed(indices) if reverse else indices:
        if automaton.growth[state.mode][automaton.class_of[index]] is None:
            return None
        state = automaton.advance(state, index)
    return state


def accepts(automaton: Automaton, indices: Sequence[int]) -> tuple[bool, bool]:
    """Return whether tokens are accepted, left to right and right to left."""
    ends = [follow(automaton, indices, reverse) for reverse in (False, True)]
    forward, backward = (end is not None and automaton.complete[end.mode] for end in ends)
    return forward, backward


@pytest.fixture(scope="module")
def full() -> Automaton:
    return Automaton(TOKENS)


@pytest.mark.parametrize("tokens", SMALL_VOCABULARIES)
def test_all_short_sequences_are_judged_as_by_the_syntax_check(tokens: str) -> None:
    known = tokens.split()
    automaton = Automaton(known)
    for length in range(1, 6):
        for indices in itertools.product(range(len(known)), repeat=length):
            valid = is_valid([known[index] for index in indices])
            assert accepts(automaton, indices) == (valid, valid), indices


@given(tokens=captions())
def test_captions_are_accepted_from_both_ends(full: Automaton, tokens: list[str]) -> None:
    assert accepts(full, [TOKENS.index(token) for token in tokens]) == (True, True)


@pytest.mark.parametrize("reverse", [False, True])
@given(seed=st.integers(0, 2**32), length=st.integers(1, 40), favored=st.floats(0, 1))
def test_random_walks_are_valid(
    full: Automaton, reverse: bool, seed: int, length: int, favored: float
) -> None:
    rng = np.random.default_rng(seed)
    structure = [index for index in range(len(TOKENS)) if full.class_of[index] != 0]
    state, walked = full.start(reverse), []
    while not (full.complete[state.mode] and (len(walked) == length or rng.random() < 0.05)):
        growth = full.growth[state.mode]
        room = length - len(walked) - state.missing
        choices = structure if rng.random() < favored else range(len(TOKENS))
        changes = [(index, growth[full.class_of[index]]) for index in choices]
        fitting = [index for index, change in changes if change is not None and change < room]
        if not fitting:
            assert choices is structure, "an expression that is not complete must go on"
            favored = 0.0
            continue
        walked.append(int(rng.choice(fitting)))
        state = full.advance(state, walked[-1])
    tokens = [TOKENS[index] for index in (reversed(walked) if reverse else walked)]
    assert is_valid(tokens), tokens
    assert 1 <= len(tokens) <= length


def test_missing_is_the_shortest_way_to_the_end() -> None:
    known = ["x", r"\sum", r"\limits", "^", "{", "}", r"\frac", r"\sqrt", "[", "]"]
    automaton = Automaton(known)
    for reverse in (False, True):
        states = {automaton.start(reverse)}
        for _ in range(5):
            for state in states:
                growth = automaton.growth[state.mode]
                assert (state.missing == 0) == automaton.complete[state.mode]
                steps = [change for change in growth if change is not None]
                assert min(steps) >= -1
                assert state.missing == 0 or min(steps) == -1
            states = {
                automaton.advance(state, index)
                for state in states
                for index in range(len(known))
                if automaton.growth[state.mode][automaton.class_of[index]] is not None
            }


def test_tokens_without_their_partners_are_never_allowed() -> None:
    known = ["x", "^", r"\frac", r"\sum", r"\limits", "{", r"\begin{cases}", r"\right", "["]
    automaton = Automaton(known)
    for reverse in (False, True):
        growth = automaton.growth[automaton.start(reverse).mode]
        numbers = zip(known, automaton.class_of, strict=True)
        allowed = {token for token, number in numbers if growth[number] is not None}
        assert allowed == {"x", r"\sum", "["}


def test_a_vocabulary_of_nothing_usable_accepts_the_empty_expression_only() -> None:
    for known in ([], ["{"], ["^", r"\frac"]):
        automaton = Automaton(known)
        assert automaton.complete[automaton.start().mode]
        assert automaton.complete[automaton.start(reverse=True).mode]


@pytest.mark.parametrize("split", ["train", "2014", "2016"])
def test_crohme_is_accepted(crohme_zip: Path, split: str, full: Automaton) -> None:
    index = {token: number for number, token in enumerate(TOKENS)}
    for example in open_images(crohme_zip, split):
        indices = [index[token] for token in example.tokens]
        assert accepts(full, indices) == (True, True), example.name


def test_texts_are_accepted_if_they_are_valid(formula_texts: Path, full: Automaton) -> None:
    index = {token: number for number, token in enumerate(TOKENS)}
    for path in sorted(formula_texts.glob("*.txt.gz")):
        with gzip.open(path, "rt", encoding="utf-8") as lines:
            for line in itertools.islice(lines, 0, 60_000, 60):
                tokens = line.split("\t")[1].split()
                indices = [index.get(token, index[r"\unknown"]) for token in tokens]
                assert set(accepts(full, indices)) == {is_valid(tokens)}, line
