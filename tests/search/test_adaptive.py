"""Adaptive search: hypotheses of one scale, scored at the others where it may matter."""

from dataclasses import replace

import numpy as np
import pytest
from random_decoders import EOS, PAD, SOS, RandomDecoder, score

from posformer.search import (
    DecodingOptions,
    Doubt,
    FirstPass,
    adaptive_result,
    best_of,
    first_pass,
    search,
    second_pass,
)

OPTIONS = DecodingOptions(max_length=8).resolve()
EVERYTHING = 1000.0


def passes(model: RandomDecoder, margin: float = EVERYTHING) -> list[FirstPass]:
    return first_pass(model, OPTIONS, margin, SOS, EOS, model.batch, PAD)


def mean_score(model: RandomDecoder, image: int, tokens: tuple[int, ...]) -> float:
    return np.mean([score(model, image, tokens, reverse) for reverse in (False, True)])


@pytest.mark.parametrize("seed", range(6))
def test_the_first_pass_has_the_hypotheses_of_both_directions(seed):
    model = RandomDecoder(seed, 3, 4, sharpness=4)
    one_way = {"directions": "forward", "rescore": False, "max_length": 8}
    forward = search(model, DecodingOptions(scales=1, top_k=3, **one_way), SOS, EOS, 3, PAD)
    for image, (one, expected) in enumerate(zip(passes(model), forward, strict=True)):
        assert {hypothesis.tokens for hypothesis in expected} <= one.scores.keys()
        assert len(one.scores) <= len(expected) + 1
        for tokens, table in one.scores.items():
            assert table.mean() == pytest.approx(mean_score(model, image, tokens), abs=1e-5)


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("margin", [0.5, 2.0])
def test_the_first_pass_leaves_out_only_what_is_behind_by_the_margin(seed, margin):
    model = RandomDecoder(seed, 4, 4, sharpness=4)
    for few, all_ in zip(passes(model, margin), passes(model), strict=True):
        assert few.scores.keys() <= all_.scores.keys()
        assert set(few.near(margin)) == set(all_.near(margin))


def test_a_result_is_certain_if_all_others_are_behind_by_the_margin():
    scores = {(3, 4, 5): np.full((1, 2), -0.1), (3, 4): np.full((1, 2), -0.3)}
    one = FirstPass(scores, length_power=1.0)
    assert one.is_certain(0.79) and not one.is_certain(0.81)  # 0.2 per token, four with the end
    assert one.near(0.79) == [(3, 4, 5)]
    assert FirstPass(scores, length_power=0.0).is_certain(0.19)
    assert FirstPass({}, 1.0).is_certain(1.0)


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("scales", [2, 3])
@pytest.mark.parametrize("every", [False, True])
def test_the_second_pass_ranks_near_hypotheses_by_all_scores(seed, scales, every):
    images, margin = [4, 1, 3], 3.0
    models = [RandomDecoder(seed, 5, 4, sharpness=4)]
    for number in range(1, scales):  # the same decoder for other images, which are its scales
        other = models[0].only(0)
        other.context = np.random.default_rng(number).normal(0, 1, (3, 12))
        models.append(other)
    first = passes(models[0], margin)
    doubts = [Doubt(first[image], models[0], image) for image in images]
    options = replace(OPTIONS, scales=scales)
    found = second_pass(doubts, models[1:], options, margin, SOS, EOS, every)
    for number, (image, scores) in enumerate(zip(images, found, strict=True)):
        places = [(models[0], image), *((model, number) for model in models[1:])]
        expected = {
            tokens: np.mean([mean_score(*place, tokens) for place in places])
            for tokens in first[image].near(margin)
        }
        assert scores.keys() == expected.keys() if every else scores.keys() <= expected.keys()
        (best,) = best_of(scores, options)
        assert best.tokens == max(expected, key=expected.__getitem__)
        assert best.score / 2 == pytest.approx(expected[best.tokens], abs=1e-5)


def test_a_certain_result_has_the_scores_of_its_scale():
    table = np.array([[-0.1, -0.2], [-9.0, -9.0]])
    scores = {(3,): table, (4,): np.array([[-5.0, -5.0], [0.0, 0.0]])}
    (best,) = adaptive_result(scores, 1.0, OPTIONS)
    assert (best.tokens, best.forward, best.backward) == ((3,), -0.1, -0.2)
    (best,) = adaptive_result(scores, 100.0, OPTIONS)
    assert (best.tokens, best.forward) == ((4,), -2.5)
    assert adaptive_result({}, 1.0, OPTIONS) == []
