"""Constrained search: nothing but valid expressions, and the best of them."""

import numpy as np
import pytest
from random_decoders import EOS, FIRST_TOKEN, PAD, SOS, RandomDecoder, all_sequences, score

from posformer.latex import Vocabulary, is_valid
from posformer.runtime.grammar_constraint import GrammarConstraint, grammar_constraint
from posformer.search import DecodingOptions, Hypothesis, search

TOKENS = (
    r"x + [ ] ( ^ _ { } \frac \sqrt \hat \sum \limits & \\ \begin{matrix} \end{matrix} "
    r"\begin{array} \end{array} \left \right \root \of \foreign"
)
WIDE = Vocabulary(TOKENS.split())


def decode(vocabulary: Vocabulary, seed: int, **options) -> list[list[Hypothesis]]:
    model = RandomDecoder(seed, 4, len(vocabulary) - FIRST_TOKEN, sharpness=6)
    how = DecodingOptions(**{"scales": 1, **options})
    return search(model, how, SOS, EOS, 4, PAD, constraint=grammar_constraint(vocabulary))


@pytest.mark.parametrize("tokens", ["x { }", r"^ { }", r"x \sum \limits", r"\sqrt { }"])
@pytest.mark.parametrize("seed", range(3))
def test_exhaustive_beam_finds_the_ranking_of_valid_expressions(tokens, seed):
    vocabulary, max_length = Vocabulary(tokens.split()), 4
    count = len(vocabulary) - FIRST_TOKEN
    valid = [
        sequence
        for sequence in all_sequences(count, max_length)
        if sequence and is_valid(vocabulary.decode(sequence))
    ]
    model = RandomDecoder(seed, 1, count)
    options = DecodingOptions(
        beam=4**max_length, scales=1, max_length=max_length, top_k=len(valid), stopping="certain"
    )
    constraint = grammar_constraint(vocabulary)
    (found,) = search(model, options, SOS, EOS, 1, PAD, constraint=constraint)
    scores = {one: score(model, 0, one, False) + score(model, 0, one, True) for one in valid}
    assert [h.tokens for h in found] == sorted(scores, key=lambda one: -scores[one])
    assert [h.score for h in found] == pytest.approx(sorted(scores.values())[::-1], abs=1e-5)


@pytest.mark.parametrize(
    "how",
    [
        {"greedy": True},
        {"beam": 1},
        {"beam": 3, "scales": 2},
        {"beam": 3, "directions": "forward", "rescore": False},
        {"beam": 4, "top_k": 4, "rescore": False},
        {"beam": 2, "length_power": 0.0, "stopping": "certain"},
    ],
)
def test_random_models_decode_valid_expressions_only(how):
    for seed in range(8):
        for max_length in (1, 3, 25):
            for hypotheses in decode(WIDE, seed, max_length=max_length, **how):
                assert hypotheses
                for hypothesis in hypotheses:
                    tokens = WIDE.decode(hypothesis.tokens)
                    assert 1 <= len(tokens) <= max_length
                    assert is_valid(tokens), tokens


def test_random_models_decode_malformed_expressions_without_constraint():
    model = RandomDecoder(0, 4, len(WIDE) - FIRST_TOKEN, sharpness=6)
    found = search(model, DecodingOptions(scales=1, max_length=25), SOS, EOS, 4, PAD)
    assert not all(is_valid(WIDE.decode(best[0].tokens)) for best in found)


@pytest.mark.parametrize("how", [{"greedy": True}, {"beam": 3}])
@pytest.mark.parametrize("constrained", [False, True])
def test_every_image_has_its_own_limit(how, constrained):
    constraint = grammar_constraint(WIDE) if constrained else None
    limits = [2, 9, 5, 1]
    options = DecodingOptions(scales=1, max_length=8, **how)
    for seed in range(6):
        model = RandomDecoder(seed, 4, len(WIDE) - FIRST_TOKEN, sharpness=6)
        model.output[:, [SOS, EOS]] = 0.0
        found = search(model, options, SOS, EOS, 4, PAD, constraint=constraint, limits=limits)
        for image, (limit, hypotheses) in enumerate(zip(limits, found, strict=True)):
            assert all(len(one.tokens) <= min(limit, 8) for one in hypotheses)
            alone = search(
                model.only(image),
                options,
                SOS,
                EOS,
                1,
                PAD,
                constraint=constraint,
                limits=[limit],
            )
            assert [one.tokens for one in alone[0]] == [one.tokens for one in hypotheses]


def test_a_vocabulary_without_a_grammar_is_not_restricted():
    vocabulary = Vocabulary(["one", "two", "three"])
    constraint = GrammarConstraint(vocabulary)
    state = constraint.start(reverse=False)
    allowed = constraint.allowed([state, constraint.advance(state, 3)], np.array([5, 0]))
    assert allowed[:, FIRST_TOKEN:].tolist() == [[True] * 3, [False] * 3]
    assert allowed[:, EOS].tolist() == [False, True]
    for hypotheses in decode(vocabulary, 0, beam=3, max_length=6):
        assert hypotheses[0].tokens
