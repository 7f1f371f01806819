"""Search finds what is best, whatever the caching, grouping and stopping."""

import itertools
import math

import numpy as np
import pytest
from toys import (
    EOS,
    FIRST_WORD,
    PAD,
    SOS,
    ForgetfulDecoder,
    RandomDecoder,
    all_sequences,
    plain_beam_search,
    score,
)

from posformer.search import DecodingOptions, Hypothesis, greedy, search
from posformer.search.beam import Direction, decode


def run(model, images=None, **options):
    images = model.images if images is None else images
    return search(model, DecodingOptions(**options), SOS, EOS, images, PAD)


def assert_same(one: list[list[Hypothesis]], other: list[list[Hypothesis]]) -> None:
    assert [[h.tokens for h in hypotheses] for hypotheses in one] == [
        [h.tokens for h in hypotheses] for hypotheses in other
    ]
    for h, g in zip(itertools.chain(*one), itertools.chain(*other), strict=True):
        assert (h.score, h.forward, h.backward) == pytest.approx(
            (g.score, g.forward, g.backward), abs=1e-5
        )


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("power", [0.0, 0.7, 1.0])
def test_a_beam_as_wide_as_the_space_finds_the_true_ranking(seed, power):
    words, max_length = 3, 3
    model = RandomDecoder(seed, images=2, words=words)
    sequences = list(all_sequences(words, max_length))
    found = run(
        model,
        beam=len(sequences),
        max_length=max_length,
        length_power=power,
        top_k=len(sequences),
        stopping="certain",
    )
    for image in range(2):
        truth = sorted(
            (
                score(model, image, tokens, False, power)
                + score(model, image, tokens, True, power),
                tokens,
            )
            for tokens in sequences
        )[::-1]
        assert [h.tokens for h in found[image]] == [tokens for _, tokens in truth]
        assert [h.score for h in found[image]] == pytest.approx([s for s, _ in truth], abs=1e-5)


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("stopping", ["likely", "certain"])
@pytest.mark.parametrize("beam", [1, 2, 5])
def test_every_lane_equals_a_plain_search_of_its_own(seed, stopping, beam):
    model = RandomDecoder(seed, images=3, words=6)
    options = DecodingOptions(beam=beam, max_length=9, stopping=stopping)
    lanes = (Direction(SOS, EOS, reverse=False), Direction(EOS, SOS, reverse=True))
    found = decode(model, options, lanes, 3, PAD)
    for image, backward in itertools.product(range(3), (False, True)):
        horizon = None if stopping == "likely" else 10
        plain = plain_beam_search(model, image, backward, beam, 9, 1.0, horizon)
        pool = found[image][backward]
        assert {h.tokens: h.score for h in pool} == pytest.approx(plain, abs=1e-5)
        assert pool == sorted(pool, key=lambda h: -h.score)


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("power", [0.0, 0.5, 1.0])
def test_stopping_when_certain_changes_nothing(seed, power):
    model = RandomDecoder(seed, images=2, words=5, sharpness=4)
    found = run(
        model, beam=4, max_length=12, length_power=power, stopping="certain", top_k=8, rescore=False
    )
    for image in range(2):
        whole: dict = {}
        for backward in (False, True):
            plain = plain_beam_search(model, image, backward, 4, 12, power, horizon=10**9)
            for tokens, value in plain.items():
                whole[tokens] = max(value, whole.get(tokens, -math.inf))
        assert {h.tokens: h.score for h in found[image]} == pytest.approx(whole, abs=1e-5)


def test_stopping_when_certain_saves_steps_where_sums_are_compared():
    model = RandomDecoder(3, images=2, words=4, sharpness=4)
    run(model, beam=2, max_length=60, length_power=0.0, stopping="certain")
    assert sum(steps == 1 for _, _, steps in model.calls) < 40


@pytest.mark.parametrize("seed", range(8))
def test_cached_and_uncached_decoding_agree(seed):
    model = RandomDecoder(seed, images=1 + seed % 4, words=3 + seed)
    options = {"beam": 1 + seed, "max_length": 8 + seed, "top_k": 4}
    assert_same(run(model, **options), run(ForgetfulDecoder(model), model.images, **options))


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("directions", ["both", "forward"])
def test_a_image_alone_and_in_a_group_gives_the_same(seed, directions):
    model = RandomDecoder(seed, images=5, words=8)
    options = {"beam": 4, "max_length": 14, "top_k": 3, "directions": directions}
    together = run(model, **options)
    alone = [run(model.only(image), **options)[0] for image in range(5)]
    assert_same(together, alone)


@pytest.mark.parametrize("seed", range(5))
def test_scores_are_those_of_the_definition(seed):
    model = RandomDecoder(seed, images=2, words=7)
    for image, hypotheses in enumerate(run(model, beam=5, max_length=10, top_k=10)):
        for h in hypotheses:
            assert h.forward == pytest.approx(score(model, image, h.tokens, False), abs=1e-5)
            assert h.backward == pytest.approx(score(model, image, h.tokens, True), abs=1e-5)
            assert h.score == pytest.approx(h.forward + h.backward)


def test_leaving_out_what_cannot_win_never_loses_a_winner():
    for seed in range(20):
        model = RandomDecoder(seed, images=2, words=4, sharpness=4)
        many = run(model, beam=6, max_length=6, top_k=12)
        for top_k in (1, 2, 3):
            few = run(model, beam=6, max_length=6, top_k=top_k)
            assert_same(few, [hypotheses[:top_k] for hypotheses in many])


def test_what_cannot_be_meant_comes_last():
    def is_well_formed(tokens: tuple[int, ...]) -> bool:
        return FIRST_WORD not in tokens

    for seed in range(20):
        model = RandomDecoder(seed, images=2, words=4)
        all_of_them = DecodingOptions(beam=6, max_length=6, top_k=12)
        plain = search(model, all_of_them, SOS, EOS, 2, PAD)
        expected = [sorted(best, key=lambda h: not is_well_formed(h.tokens)) for best in plain]
        for top_k in (1, 3, 12):
            options = DecodingOptions(beam=6, max_length=6, top_k=top_k)
            found = search(model, options, SOS, EOS, 2, PAD, is_well_formed)
            assert_same(found, [best[:top_k] for best in expected])


@pytest.mark.parametrize("seed", range(10))
def test_what_any_view_finds_is_judged_by_all(seed):
    model = RandomDecoder(seed, images=6, words=4)
    by_view = run(model, beam=6, max_length=6, top_k=99)
    for expression, best in enumerate(run(model, beam=6, max_length=6, top_k=99, views=2)):
        views = [2 * expression, 2 * expression + 1]
        assert {h.tokens for h in best} == {h.tokens for view in views for h in by_view[view]}
        for hypothesis in best:
            ways = [
                np.mean([score(model, view, hypothesis.tokens, reverse) for view in views])
                for reverse in (False, True)
            ]
            assert (hypothesis.forward, hypothesis.backward) == pytest.approx(ways, abs=1e-5)
            assert hypothesis.score == pytest.approx(sum(ways), abs=1e-5)


def test_greedy_search_gives_the_view_that_scores_best():
    model = RandomDecoder(0, images=6, words=6)
    how = {"beam": 1, "max_length": 12, "directions": "forward", "rescore": False}
    alone = [hypotheses[0] for hypotheses in run(model, **how)]
    expected = [max(alone[at : at + 3], key=lambda one: one.score) for at in (0, 3)]
    assert run(model, **how, views=3) == [[best] for best in expected]


@pytest.mark.parametrize("seed", range(10))
def test_greedy_is_a_beam_of_one_from_left_to_right(seed):
    model = RandomDecoder(seed, images=4, words=6)
    lanes = (Direction(SOS, EOS, reverse=False),)
    options = DecodingOptions(
        beam=1, max_length=12, length_power=0.8, directions="forward", rescore=False
    )
    general = decode(model, options, lanes, 4, PAD)
    quick = greedy(model, SOS, EOS, 4, PAD, max_length=12, length_power=0.8)
    assert [h.tokens for h in quick] == [pools[0][0].tokens for pools in general]
    assert [h.score for h in quick] == pytest.approx([pools[0][0].score for pools in general])
    assert [[h] for h in quick] == search(model, options, SOS, EOS, 4, PAD)


@pytest.mark.parametrize("max_length", [1, 2, 5])
def test_no_hypothesis_is_longer_than_allowed_and_every_image_has_one(max_length):
    for seed in range(5):
        model = RandomDecoder(seed, images=3, words=5)
        model.output[:, [SOS, EOS]] -= 5 * np.sign(model.output[:, [SOS, EOS]])
        for beam, directions in ((1, "forward"), (3, "forward"), (3, "both")):
            for hypotheses in run(
                model, beam=beam, directions=directions, max_length=max_length, rescore=False
            ):
                assert 0 <= len(hypotheses[0].tokens) <= max_length


def test_pad_and_start_and_end_are_never_part_of_a_hypothesis():
    model = RandomDecoder(1, images=3, words=4)
    model.output[:, PAD] = 3.0
    for hypotheses in run(model, beam=6, max_length=6, top_k=12):
        assert hypotheses
        assert all(token >= FIRST_WORD for h in hypotheses for token in h.tokens)


def test_hypotheses_are_distinct_and_best_first():
    for hypotheses in run(RandomDecoder(4, 4, 5), beam=5, max_length=8, top_k=10):
        assert len({h.tokens for h in hypotheses}) == len(hypotheses)
        scores = [h.score for h in hypotheses]
        assert scores == sorted(scores, reverse=True)


def test_ties_are_broken_by_the_smaller_token():
    model = RandomDecoder(0, images=2, words=4)
    model.output[:] = 0.0
    found = run(model, beam=3, max_length=2, directions="forward", top_k=3, rescore=False)
    assert found[0] == found[1]
    assert found == run(model, beam=3, max_length=2, directions="forward", top_k=3, rescore=False)
    tokens = [h.tokens for h in found[0]]
    assert tokens == sorted(tokens)
    assert greedy(model, SOS, EOS, 2, max_length=4)[0].tokens == ()


def test_unknown_scores_are_said_to_be_unknown():
    model = RandomDecoder(2, images=1, words=5)
    best = run(model, beam=3, directions="forward", rescore=False, max_length=6)[0][0]
    assert best.backward is None
    assert best.score == best.forward


def test_the_two_directions_share_one_call_and_done_images_leave():
    model = RandomDecoder(5, images=6, words=5, sharpness=4)
    run(model, beam=4, max_length=30)
    decoding = [shape for shape in model.calls if shape[2] == 1]
    assert decoding[0] == (6, 2, 1)
    assert decoding[1] == (6, 8, 1)
    images = [shape[0] for shape in decoding]
    assert images == sorted(images, reverse=True)
    assert images[-1] < 6
    rows = [shape[1] for shape in decoding[1:]]
    assert rows == sorted(rows, reverse=True)
    assert sum(shape[2] > 1 for shape in model.calls) <= 1


def test_fewer_finished_hypotheses_stop_earlier():
    steps = {}
    for finished in (1, 5):
        models = [RandomDecoder(seed, images=1, words=4) for seed in range(10)]
        for model in models:
            run(model, beam=5, max_length=40, finished=finished)
        steps[finished] = sum(len(model.calls) for model in models)
    assert steps[1] < steps[5]


def test_no_images_give_no_hypotheses():
    assert run(RandomDecoder(0, 1, 3), images=0) == []


@pytest.mark.parametrize(
    "wrong",
    [
        {"beam": 0},
        {"max_length": 0},
        {"top_k": 0},
        {"finished": 0},
        {"length_power": -1.0},
        {"directions": "backward"},
        {"stopping": "never"},
    ],
)
def test_options_that_make_no_sense_are_refused_by_name(wrong):
    with pytest.raises(ValueError, match=next(iter(wrong))):
        DecodingOptions(**wrong)
