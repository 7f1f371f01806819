"""Adaptive search: both passes give the scores of full search."""

import numpy as np
import pytest
from random_decoders import EOS, PAD, SOS, RandomDecoder, score

from posformer.search import DecodingOptions, FirstPass, first_pass, search, second_pass
from posformer.search.beam import FinishedHypothesis

OPTIONS = DecodingOptions(max_length=8).resolve()


def passes(model: RandomDecoder) -> list[FirstPass]:
    return first_pass(model, OPTIONS, SOS, EOS, model.batch, PAD)


@pytest.mark.parametrize("seed", range(6))
def test_first_pass_is_greedy_in_both_directions(seed):
    model = RandomDecoder(seed, 3, 4, sharpness=4)
    greedy = search(model, DecodingOptions(greedy=True, max_length=8), SOS, EOS, 3, PAD)
    for image, (one, (best,)) in enumerate(zip(passes(model), greedy, strict=True)):
        (forward,), (backward,) = one.found
        assert forward.tokens == best.tokens
        assert backward.score == pytest.approx(score(model, image, backward.tokens, True), abs=1e-5)
        assert one.agreed == (forward.tokens == backward.tokens)


def test_a_result_is_certain_if_the_directions_agree_and_are_sure():
    right, other = FinishedHypothesis((3, 4, 5), -0.1), FinishedHypothesis((3, 4), -0.2)
    agreed = FirstPass([[right], [FinishedHypothesis((3, 4, 5), -0.3)]], 1.0)
    assert agreed.total == pytest.approx(-0.8)  # four tokens with the end, -0.2 on average
    assert agreed.hypothesis.tokens == (3, 4, 5)
    assert agreed.hypothesis.score == pytest.approx(-0.4)
    assert agreed.is_certain(-0.81) and not agreed.is_certain(-0.79)
    assert not FirstPass([[right], [other]], 1.0).is_certain(-100)


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("scales", [1, 2, 3])
def test_second_pass_ranks_the_hypotheses_of_all_scales_by_all_scores(seed, scales):
    images = [4, 1, 3]
    models = [RandomDecoder(seed, 5, 4, sharpness=4)]
    for number in range(1, scales):  # the same decoder for other images, which are its scales
        other = models[0].only(0)
        other.context = np.random.default_rng(number).normal(0, 1, (3, 12))
        models.append(other)
    first = passes(models[0])
    doubtful = [first[image] for image in images]
    found = second_pass(models, doubtful, images, OPTIONS, SOS, EOS, PAD)
    for number, (image, hypotheses) in enumerate(zip(images, found, strict=True)):
        places = [(models[0], image), *((model, number) for model in models[1:])]
        pool = {
            one.tokens
            for model, at in places
            for direction in passes(model)[at].found
            for one in direction
        }
        scores = {
            tokens: sum(
                score(model, at, tokens, reverse) for model, at in places for reverse in (0, 1)
            )
            / scales
            for tokens in pool
        }
        best = max(scores, key=scores.__getitem__)
        assert hypotheses[0].tokens == best
        assert hypotheses[0].score == pytest.approx(scores[best], abs=1e-5)
