"""Symbol substitution and subtree swap."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from posformer.errors import PosformerError
from posformer.ink import AlignedInk
from posformer.synthesis import GroupBank, SymbolBank, SymbolSubstitution
from posformer.synthesis.substitution import KINDS, find_groups, fit_symbol
from writing import aligned

CORPUS = [
    aligned("a b c x y", "letters", "ann"),
    aligned("1 2 3 4 5", "digits", "ben"),
    aligned("A B C + \\times = <", "others", "ann"),
    aligned("x ^ { 2 }", "square", "ben"),
    aligned("y ^ { 3 } + x ^ { a }", "cubic", "ann"),
    aligned("x ^ { n + 1 } y", "long", "ann"),
]
EXPRESSION = aligned("x + x ^ { 2 } = y", "given", "cat")


def kind_of(token: str) -> object:
    return next((kind for kind in KINDS if token in kind), token)


def check_whole(ink: AlignedInk) -> None:
    """Every stroke belongs to one token and every token that had ink has some."""
    owned = [stroke for row in ink.alignment for stroke in row]
    assert sorted(owned) == list(range(len(ink.strokes)))
    assert len(ink.alignment) == len(ink.tokens)
    for token, row in zip(ink.tokens, ink.alignment, strict=True):
        assert bool(row) == (token not in ("^", "_", "{", "}"))


@settings(deadline=None, max_examples=50)
@given(st.integers(0, 10_000))
def test_symbols_are_substituted_consistently_within_their_kind(seed: int) -> None:
    substitution = SymbolSubstitution(SymbolBank.from_inks(CORPUS), substitution=1, each=1)
    ink = substitution(EXPRESSION, np.random.default_rng(seed))
    check_whole(ink)
    pairs = set(zip(EXPRESSION.tokens, ink.tokens, strict=True))
    assert len(pairs) == len(set(EXPRESSION.tokens)) == len(set(ink.tokens))
    assert all(kind_of(old) == kind_of(new) for old, new in pairs)
    assert ink.tokens != EXPRESSION.tokens


def test_weights_grow_with_the_root_of_counts() -> None:
    bank = SymbolBank.from_inks([aligned("a"), aligned("b " * 16)])
    substitution = SymbolSubstitution(bank, substitution=1, each=1)
    sampled = [
        substitution(aligned("x"), np.random.default_rng(seed)).tokens[0] for seed in range(500)
    ]
    assert 2.5 < sampled.count("b") / sampled.count("a") < 6  # the root of 16, within chance


def test_weights_of_the_two_cases_of_a_letter_are_closer() -> None:
    bank = SymbolBank.from_inks([aligned("C"), aligned("c " * 16)])
    substitution = SymbolSubstitution(bank, substitution=1, each=1)
    sampled = [
        substitution(aligned("x"), np.random.default_rng(seed)).tokens[0] for seed in range(500)
    ]
    ratio = sampled.count("c") / sampled.count("C")
    assert 1.5 < ratio < 2.7  # the fourth root of 16, within chance


def test_exponents_of_letters_become_primes() -> None:
    bank = SymbolBank.from_inks([aligned("x ^ { \\prime }", "prime", "ann"), aligned("2")])
    substitution = SymbolSubstitution(bank, substitution=1, each=1)
    given = aligned("y ^ { 2 } + 3 ^ { 2 } + x ^ { 2 2 }", "given", "cat")
    sampled = [substitution(given, np.random.default_rng(seed)) for seed in range(60)]
    primed = [ink for ink in sampled if "\\prime" in ink.tokens]
    assert 5 < len(primed) < 25  # a quarter, within chance
    for ink in primed:
        check_whole(ink)
        assert ink.tokens.index("\\prime") == 3 and ink.tokens.count("\\prime") == 1
        prime = np.concatenate([ink.strokes[stroke] for stroke in ink.alignment[3]])
        old = np.concatenate([given.strokes[stroke] for stroke in given.alignment[3]])
        assert np.allclose(prime.min(axis=0), old.min(axis=0))
        assert np.ptp(prime[:, 1]) < np.ptp(old[:, 1])


def test_exponent_one_becomes_a_prime() -> None:
    bank = SymbolBank.from_inks([aligned("x ^ { \\prime }", "prime", "ann"), aligned("1 1 1 1")])
    substitution = SymbolSubstitution(bank, substitution=1, each=1)
    ink = substitution(aligned("y ^ { 2 } + 2", "given", "cat"), np.random.default_rng(0))
    assert ink.tokens[1:] == ("^", "{", "\\prime", "}", "+", "1")


def test_new_ink_is_where_the_old_ink_was() -> None:
    substitution = SymbolSubstitution(SymbolBank.from_inks(CORPUS), substitution=1, each=1)
    ink = substitution(EXPRESSION, np.random.default_rng(0))
    for new, old in zip(ink.alignment, EXPRESSION.alignment, strict=True):
        if old:
            centre = ink.strokes[new[0]].mean(axis=0)
            before = EXPRESSION.strokes[old[0]].mean(axis=0)
            assert np.abs(centre - before).max() < 24


def test_new_symbol_stands_on_the_baseline_of_the_old_one() -> None:
    bank = SymbolBank.from_inks([aligned("x x x x")])
    hanging = np.array([[0, 0], [10, 37]], np.float32)  # as tall as a `g` of x-height 20
    (fitted,) = fit_symbol(bank.samples("x")[0], "g", hanging)
    assert fitted[:, 1].min() == pytest.approx(0, abs=1)
    assert fitted[:, 1].max() == pytest.approx(20, abs=1)


def test_probability_zero_changes_nothing() -> None:
    substitution = SymbolSubstitution(
        SymbolBank.from_inks(CORPUS), GroupBank(CORPUS), substitution=0, subtree_swap=0
    )
    assert substitution(EXPRESSION, np.random.default_rng(0)) is EXPRESSION


def test_same_seed_gives_the_same_result() -> None:
    substitution = SymbolSubstitution.from_inks(CORPUS, substitution=1, subtree_swap=1)
    one, same = (substitution(EXPRESSION, np.random.default_rng(7)) for _ in range(2))
    assert one.tokens == same.tokens
    assert all((a == b).all() for a, b in zip(one.strokes, same.strokes, strict=True))


def test_subtree_swap_keeps_role_and_extent() -> None:
    substitution = SymbolSubstitution(None, GroupBank(CORPUS), subtree_swap=1)
    texts = set()
    for seed in range(30):
        ink = substitution(EXPRESSION, np.random.default_rng(seed))
        check_whole(ink)
        texts.add(" ".join(ink.tokens))
    changed = {f"x + x ^ {{ {group} }} = y" for group in ("2", "3", "a")}
    assert len(texts) > 1
    assert texts <= changed, "n + 1 is far wider than 2"


def test_roles_of_groups() -> None:
    text = "\\frac { x ^ { 2 } } { \\sqrt [ 3 ] { y _ { 1 } } }"
    tokens = text.split()
    roles = {" ".join(tokens[g.first + 1 : g.last]): g.role for g in find_groups(tokens)}
    assert roles == {
        "2": ("^", 0),
        "x ^ { 2 }": ("\\frac", 0),
        "1": ("_", 0),
        "y _ { 1 }": ("\\sqrt", 0),
        "\\sqrt [ 3 ] { y _ { 1 } }": ("\\frac", 1),
    }


def test_subtree_swap_respects_max_tokens() -> None:
    wide = [aligned("x ^ { 1 2 3 }"), aligned("x ^ { a + b }"), aligned("x ^ { y + z }")]
    substitution = SymbolSubstitution(
        None, GroupBank(wide), subtree_swap=1, max_tokens=len(wide[0].tokens)
    )
    for seed in range(10):
        assert len(substitution(wide[1], np.random.default_rng(seed)).tokens) <= len(wide[0].tokens)


def test_probability_outside_zero_to_one_is_an_error() -> None:
    with pytest.raises(PosformerError, match="subtree_swap 2"):
        SymbolSubstitution(None, None, subtree_swap=2)


def test_parentheses_become_other_delimiters_in_pairs() -> None:
    bank = SymbolBank.from_inks([*CORPUS, aligned("( [ | ] )", "fences", "ann")])
    substitution = SymbolSubstitution(bank, substitution=1, each=1)
    given = aligned("a ( b ) + ( c )", "given", "cat")
    sampled = [substitution(given, np.random.default_rng(seed)) for seed in range(60)]
    for ink in sampled:
        check_whole(ink)
    pairs = [(ink.tokens[1], ink.tokens[3], ink.tokens[5], ink.tokens[7]) for ink in sampled]
    assert set(pairs) == {("(", ")") * 2, ("[", "]") * 2, ("|", "|") * 2}
