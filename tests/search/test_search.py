"""Search: exact on small spaces, and independent of caching, batching and stopping."""

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest
from random_decoders import (
    EOS,
    FIRST_TOKEN,
    PAD,
    SOS,
    RandomDecoder,
    UncachedDecoder,
    all_sequences,
    reference_beam_search,
    score,
)

from posformer import PosformerError
from posformer.errors import ConfigError
from posformer.search import DecodingOptions, Hypothesis, greedy_search, search
from posformer.search.beam import Direction, beam_search

FORWARD = Direction(SOS, EOS, reverse=False)
BACKWARD = Direction(EOS, SOS, reverse=True)


def run(model, batch=None, **options):
    batch = model.batch if batch is None else batch
    return search(model, DecodingOptions(**{"scales": 1, **options}), SOS, EOS, batch, PAD)


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
def test_exhaustive_beam_finds_true_ranking(seed, power):
    vocab_size, max_length = 3, 3
    model = RandomDecoder(seed, 2, vocab_size)
    sequences = list(all_sequences(vocab_size, max_length))
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
def test_beam_search_matches_reference(seed, stopping, beam):
    model = RandomDecoder(seed, 3, 6)
    options = DecodingOptions(beam=beam, finished=beam, max_length=9, stopping=stopping)
    found = beam_search(model, options, (FORWARD, BACKWARD), 3, PAD)
    for image, backward in itertools.product(range(3), (False, True)):
        horizon = None if stopping == "likely" else 10
        reference = reference_beam_search(model, image, backward, beam, 9, 1.0, horizon)
        finished = found[image][backward]
        assert {h.tokens: h.score for h in finished} == pytest.approx(reference, abs=1e-5)
        assert finished == sorted(finished, key=lambda h: -h.score)


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("power", [0.0, 0.5, 1.0])
def test_certain_stopping_loses_nothing(seed, power):
    model = RandomDecoder(seed, 2, 5, sharpness=4)
    found = run(
        model,
        beam=8,
        finished=8,
        max_length=12,
        length_power=power,
        stopping="certain",
        top_k=8,
        rescore=False,
    )
    for image in range(2):
        reference: dict = {}
        for backward in (False, True):
            one_way = reference_beam_search(model, image, backward, 8, 12, power, horizon=10**9)
            for tokens, value in one_way.items():
                reference[tokens] = max(value, reference.get(tokens, -math.inf))
        best = sorted(reference.items(), key=lambda item: -item[1])[:8]
        assert {h.tokens: h.score for h in found[image]} == pytest.approx(dict(best), abs=1e-5)


def test_certain_stopping_saves_steps_with_sums():
    model = RandomDecoder(3, 2, 4, sharpness=4)
    run(model, beam=2, max_length=60, length_power=0.0, stopping="certain")
    assert sum(steps == 1 for _, _, steps in model.calls) < 40


@pytest.mark.parametrize("seed", range(8))
def test_cached_and_uncached_decoding_agree(seed):
    model = RandomDecoder(seed, 1 + seed % 4, 3 + seed)
    options = {"beam": 1 + seed, "max_length": 8 + seed, "top_k": 4}
    assert_same(run(model, **options), run(UncachedDecoder(model), model.batch, **options))


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("directions", ["both", "forward"])
def test_batching_does_not_change_results(seed, directions):
    model = RandomDecoder(seed, 5, 8)
    options = {"beam": 4, "max_length": 14, "top_k": 3, "directions": directions}
    together = run(model, **options)
    alone = [run(model.only(image), **options)[0] for image in range(5)]
    assert_same(together, alone)


@pytest.mark.parametrize("seed", range(5))
def test_scores_match_definition(seed):
    model = RandomDecoder(seed, 2, 7)
    for image, hypotheses in enumerate(run(model, beam=5, max_length=10, top_k=10)):
        for h in hypotheses:
            assert h.forward == pytest.approx(score(model, image, h.tokens, False), abs=1e-5)
            assert h.backward == pytest.approx(score(model, image, h.tokens, True), abs=1e-5)
            assert h.score == pytest.approx(h.forward + h.backward)


def test_pruning_before_rescoring_keeps_the_best():
    for seed in range(20):
        model = RandomDecoder(seed, 2, 4, sharpness=4)
        options = {"beam": 12, "finished": 12, "max_length": 6}
        many = run(model, **options, top_k=12)
        for top_k in (1, 2, 3):
            few = run(model, **options, top_k=top_k)
            assert_same(few, [hypotheses[:top_k] for hypotheses in many])


def test_malformed_hypotheses_rank_last():
    def is_well_formed(tokens: tuple[int, ...]) -> bool:
        return FIRST_TOKEN not in tokens

    options = {"beam": 12, "finished": 6, "max_length": 6, "scales": 1}
    for seed in range(20):
        model = RandomDecoder(seed, 2, 4)
        plain = search(model, DecodingOptions(**options, top_k=12), SOS, EOS, 2, PAD)
        expected = [sorted(best, key=lambda h: not is_well_formed(h.tokens)) for best in plain]
        for top_k in (1, 3, 12):
            how = DecodingOptions(**options, top_k=top_k)
            found = search(model, how, SOS, EOS, 2, PAD, is_well_formed)
            assert_same(found, [best[:top_k] for best in expected])


@pytest.mark.parametrize("seed", range(10))
def test_hypotheses_of_any_scale_are_scored_at_all_scales(seed):
    model = RandomDecoder(seed, 6, 4)
    options = {"beam": 24, "finished": 6, "max_length": 6, "top_k": 24}
    by_scale = run(model, **options)
    for expression, best in enumerate(run(model, **options, scales=2)):
        scales = [2 * expression, 2 * expression + 1]
        assert {h.tokens for h in best} == {h.tokens for s in scales for h in by_scale[s]}
        for hypothesis in best:
            means = [
                np.mean([score(model, image, hypothesis.tokens, reverse) for image in scales])
                for reverse in (False, True)
            ]
            assert (hypothesis.forward, hypothesis.backward) == pytest.approx(means, abs=1e-5)
            assert hypothesis.score == pytest.approx(sum(means), abs=1e-5)


@pytest.mark.parametrize("seed", range(10))
def test_greedy_search_equals_forward_beam_of_one(seed):
    model = RandomDecoder(seed, 4, 6)
    how = {"max_length": 12, "length_power": 0.8, "scales": 1}
    one_beam = DecodingOptions(beam=1, finished=1, directions="forward", rescore=False, **how)
    general = beam_search(model, one_beam, (FORWARD,), 4, PAD)
    greedy = greedy_search(model, SOS, EOS, 4, PAD, max_length=12, length_power=0.8)
    assert [h.tokens for h in greedy] == [finished[0][0].tokens for finished in general]
    assert [h.score for h in greedy] == pytest.approx([found[0][0].score for found in general])
    for found in (search(model, one_beam, SOS, EOS, 4, PAD), run(model, greedy=True, **how)):
        assert [[h.tokens] for h in greedy] == [[h.tokens for h in one] for one in found]
        # NumPy adds in another order for another number of beams.
        assert [h.forward for h in greedy] == pytest.approx([one[0].forward for one in found])


@pytest.mark.parametrize("max_length", [1, 2, 5])
def test_max_length_is_respected(max_length):
    for seed in range(5):
        model = RandomDecoder(seed, 3, 5)
        model.output[:, [SOS, EOS]] -= 5 * np.sign(model.output[:, [SOS, EOS]])
        for beam, directions in ((1, "forward"), (3, "forward"), (3, "both")):
            for hypotheses in run(
                model, beam=beam, directions=directions, max_length=max_length, rescore=False
            ):
                assert 0 <= len(hypotheses[0].tokens) <= max_length


def test_special_tokens_are_never_decoded():
    model = RandomDecoder(1, 3, 4)
    model.output[:, PAD] = 3.0
    for hypotheses in run(model, beam=6, max_length=6, top_k=12):
        assert hypotheses
        assert all(token >= FIRST_TOKEN for h in hypotheses for token in h.tokens)


def test_hypotheses_are_distinct_and_sorted():
    for hypotheses in run(RandomDecoder(4, 4, 5), beam=5, max_length=8, top_k=10):
        assert len({h.tokens for h in hypotheses}) == len(hypotheses)
        scores = [h.score for h in hypotheses]
        assert scores == sorted(scores, reverse=True)


def test_ties_go_to_the_smaller_token():
    model = RandomDecoder(0, 2, 4)
    model.output[:] = 0.0
    options = {"beam": 3, "max_length": 2, "directions": "forward", "top_k": 3, "rescore": False}
    found = run(model, **options)
    assert found[0] == found[1]
    assert found == run(model, **options)
    tokens = [h.tokens for h in found[0]]
    assert tokens == sorted(tokens)
    assert greedy_search(model, SOS, EOS, 2, max_length=4)[0].tokens == ()


def test_scores_that_were_not_computed_are_none():
    model = RandomDecoder(2, 1, 5)
    best = run(model, beam=3, directions="forward", rescore=False, max_length=6)[0][0]
    assert best.backward is None
    assert best.score == best.forward


def test_directions_share_calls_and_finished_images_leave_the_batch():
    model = RandomDecoder(5, 6, 5, sharpness=4)
    run(model, beam=4, finished=4, max_length=30)
    decoding = [shape for shape in model.calls if shape[2] == 1]
    assert decoding[0] == (6, 2, 1)
    assert decoding[1] == (6, 8, 1)
    batch = [shape[0] for shape in decoding]
    assert batch == sorted(batch, reverse=True)
    assert batch[-1] < 6
    beams = [shape[1] for shape in decoding[1:]]
    assert beams == sorted(beams, reverse=True)
    rescoring = [shape for shape in model.calls if shape[2] > 1]
    assert all(shape[0] == 1 for shape in rescoring)  # each image on its own, without padding


def test_only_open_beams_are_decoded():
    model = RandomDecoder(5, 2, 5, sharpness=4)
    options = DecodingOptions(beam=4, max_length=10).resolve()
    searched = [FORWARD, replace(BACKWARD, greedy=True)]
    found = beam_search(model, options, searched, 2, PAD)
    assert max(shape[1] for shape in model.calls) == 5
    for direction, beam in ((0, 4), (1, 1)):
        alone = replace(options, beam=beam, finished=min(beam, options.finished))
        direct = beam_search(model, alone, [(FORWARD, BACKWARD)[direction]], 2, PAD)
        for image in range(2):
            expected, got = direct[image][0], found[image][direction]
            assert [one.tokens for one in got] == [one.tokens for one in expected]
            assert [one.score for one in got] == pytest.approx([one.score for one in expected])


def test_fewer_finished_hypotheses_stop_earlier():
    steps = {}
    for finished in (1, 5):
        models = [RandomDecoder(seed, 1, 4) for seed in range(10)]
        for model in models:
            run(model, beam=5, max_length=40, finished=finished)
        steps[finished] = sum(len(model.calls) for model in models)
    assert steps[1] < steps[5]


def test_empty_batch_has_no_hypotheses():
    assert run(RandomDecoder(0, 1, 3), batch=0) == []


# Options


@pytest.mark.parametrize(
    "invalid",
    [
        {"beam": 0},
        {"beam": "3"},
        {"beam": 2.5},
        {"scales": 0},
        {"scales": 4},
        {"max_length": 0},
        {"top_k": 0},
        {"top_k": None},
        {"finished": 0},
        {"length_power": -1.0},
        {"length_power": math.nan},
        {"directions": "backward"},
        {"stopping": "never"},
    ],
)
def test_invalid_options_are_named(invalid):
    with pytest.raises(ConfigError, match=next(iter(invalid))):
        DecodingOptions(**invalid)


def test_greedy_with_top_k_is_an_error():
    with pytest.raises(PosformerError, match="top_k must be 1, not 2"):
        DecodingOptions(greedy=True, top_k=2)


def test_options_resolve_for_a_model():
    assert DecodingOptions(beam=2, top_k=5).resolve().beam == 5
    assert DecodingOptions(beam=10).resolve().finished == 3
    assert DecodingOptions(beam=10, top_k=5).resolve().finished == 5
    assert DecodingOptions(beam=2).resolve().finished == 2
    assert DecodingOptions(beam=10, finished=7).resolve().finished == 7
    forward = DecodingOptions().resolve("forward")
    assert (forward.directions, forward.rescore) == ("forward", False)
    greedy = DecodingOptions(greedy=True, scales=3).resolve()
    assert (greedy.beam, greedy.scales, greedy.directions) == (1, 1, "forward")
    for options in (DecodingOptions(), forward, greedy, DecodingOptions(top_k=9)):
        assert options.resolve().resolve() == options.resolve()


def test_options_override_single_fields():
    options = DecodingOptions(beam=7)
    assert DecodingOptions.override(options, top_k=2) == DecodingOptions(beam=7, top_k=2)
    assert DecodingOptions.override(None) == DecodingOptions()
    with pytest.warns(DeprecationWarning, match="scales"):
        assert DecodingOptions.override(None, views=1) == DecodingOptions(scales=1)
    with pytest.raises(ConfigError, match="not int"):
        DecodingOptions.override(3)
