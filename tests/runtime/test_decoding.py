"""Decoding images of any size with one model."""

import inspect
from dataclasses import replace

import numpy as np
import pytest
import torch

from posformer import DecodingOptions, cli
from posformer.cli import shared_options
from posformer.data import load_ink
from posformer.image.sizing import at_working_size
from posformer.ink.render import render
from posformer.latex import is_valid
from posformer.models.model_folder import open_folder
from posformer.models.posformer import PosFormer
from posformer.runtime import Thresholds, decode_images, load_runtime
from posformer.runtime.decoding import decode_at_all_scales, length_limit
from posformer.runtime.engine import model_path
from posformer.runtime.pytorch_runtime import PyTorchRuntime
from posformer.search import adaptive_result
from posformer.search.decoding_options import SCALE_FACTORS
from tiny import random_images, tiny_model


def undecided_model() -> PosFormer:
    """A small model whose hypotheses are short, some well-formed and some not."""
    model = tiny_model(0)
    vocabulary = model.vocabulary
    with torch.no_grad():
        model.decoder.head.bias[[vocabulary.sos, vocabulary.eos]] += 2
        model.decoder.head.bias[vocabulary.encode(["_", "^", r"\frac", r"\sqrt"])] -= 2
    return model


def test_well_formed_hypotheses_rank_first():
    runtime = PyTorchRuntime(undecided_model())
    images = random_images(0, [(40, 60 + 8 * number) for number in range(4)])
    options = DecodingOptions(beam=6, top_k=6, scales=1, constrained=False)
    for hypotheses in decode_images(runtime, images, options):
        tokens = [runtime.vocabulary.decode(one.tokens) for one in hypotheses]
        valid = [bool(reading) and is_valid(reading) for reading in tokens]
        assert valid == sorted(valid, reverse=True)
        assert set(valid) == {True, False}


def test_cli_defaults_match_decoding_options():
    defaults = DecodingOptions()
    for command in (cli.recognize, cli.explain, cli.calibrate, cli.serve):
        assert inspect.signature(command).parameters["beam"].default == defaults.beam
    for command in (cli.recognize, cli.calibrate, cli.serve):
        assert inspect.signature(command).parameters["scales"].default == defaults.scales
    for command in (cli.recognize, cli.serve):
        parameters = inspect.signature(command).parameters
        assert parameters["adaptive"].default == defaults.adaptive
        assert parameters["constrained"].default == defaults.constrained
    assert len(SCALE_FACTORS) == shared_options.MAX_SCALES


def test_evaluation_uses_the_beam_of_the_paper_at_one_scale():
    for command in (cli.evaluate, cli.compare):
        assert inspect.signature(command).parameters["beam"].default == 10
    assert inspect.signature(cli.evaluate).parameters["scales"].default == 1
    assert inspect.signature(cli.evaluate).parameters["adaptive"].default is False


@pytest.mark.parametrize(
    "how", [{"greedy": True}, {"beam": 2, "scales": 3}, {"beam": 3, "scales": 3, "top_k": 3}]
)
def test_batching_does_not_change_results(how):
    runtime = PyTorchRuntime(undecided_model())
    images = random_images(0, [(40, 60 + 8 * number) for number in range(4)])
    options = DecodingOptions(**how)
    together = decode_images(runtime, images, options)
    for image, expected in zip(images, together, strict=True):
        (alone,) = decode_images(runtime, [image], options)
        assert [one.tokens for one in alone] == [one.tokens for one in expected]
        scores = [one.score for one in expected]
        assert [one.score for one in alone] == pytest.approx(scores, abs=1e-4)


def test_every_scale_is_encoded():
    class Recording(PyTorchRuntime):
        def encode(self, images):
            self.shapes = [image.shape for image in images]
            return super().encode(images)

    runtime = Recording(undecided_model())
    (image,) = random_images(0, [(40, 60)])
    for scales in (1, 2, 3):
        decode_images(runtime, [image], DecodingOptions(beam=1, scales=scales))
        assert len(runtime.shapes) == scales
    first, larger, smaller = runtime.shapes
    assert larger > first > smaller


_SLOW = [pytest.param(name, marks=pytest.mark.slow) for name in ("train", "2014", "2016")]


@pytest.mark.parametrize("split", ["2013", *_SLOW])
def test_no_expression_needs_half_of_the_length_limit(crohme_ink_zip, split):
    size = open_folder(model_path(None)).config.image
    for ink in load_ink(crohme_ink_zip, split):
        image = at_working_size(render(ink.strokes), size.scale, size.margin, size.max_pixels)
        assert 2 * len(ink.tokens) < length_limit(image), ink.name


def test_length_limit_counts_ink_not_area():
    image = np.zeros((32, 64), np.uint8)
    image[8:24, 10:20] = 255
    margin = np.pad(image, ((32, 320), (64, 640)))
    assert length_limit(margin) == length_limit(image) < length_limit(255 - image)


@pytest.fixture(scope="module")
def noise():
    """Images that show nothing: noise, bars, a scribble."""
    rng = np.random.default_rng(0)
    speckles = random_images(1, [(48, 96), (64, 64)])
    blocks = np.kron(rng.random((8, 12)) < 0.4, np.ones((8, 8))).astype(np.uint8) * np.uint8(255)
    bars = np.zeros((64, 96), np.uint8)
    bars[::6] = 255
    walk = (np.cumsum(rng.normal(0, 4, (400, 2)), axis=0) % (64, 96)).astype(int)
    scribble = np.zeros((64, 96), np.uint8)
    scribble[walk[:, 0], walk[:, 1]] = 255
    return [*speckles, blocks, bars, scribble]


@pytest.mark.parametrize(
    "how",
    [
        {},  # adaptive
        {"greedy": True},
        {"adaptive": False},
        {"scales": 1, "top_k": 3},
        {"directions": "forward", "rescore": False, "scales": 1},
    ],
)
def test_noise_is_decoded_to_well_formed_latex(noise, how):
    runtime = load_runtime(threads=1)
    assert Thresholds.from_info(runtime.info).margin is not None  # or nothing is adaptive
    for image, hypotheses in zip(
        noise, decode_images(runtime, noise, DecodingOptions(**how)), strict=True
    ):
        assert hypotheses
        for hypothesis in hypotheses:
            tokens = runtime.vocabulary.decode(hypothesis.tokens)
            assert tokens
            assert is_valid(tokens)
            assert len(tokens) <= length_limit(image)


def test_a_limit_closes_what_is_open(noise):
    runtime = load_runtime(threads=1)
    for max_length in (1, 2, 5, 9):
        for greedy in (True, False):
            options = DecodingOptions(greedy=greedy, scales=1, max_length=max_length)
            for (best,) in decode_images(runtime, noise[:2], options):
                tokens = runtime.vocabulary.decode(best.tokens)
                assert 1 <= len(tokens) <= max_length
                assert is_valid(tokens)


@pytest.mark.parametrize("scales", [1, 2, 3])
def test_adaptive_search_with_a_large_margin_scores_everything_at_all_scales(scales):
    runtime = PyTorchRuntime(undecided_model(), {"thresholds": {"margin": 3.0}})
    images = random_images(0, [(40, 60 + 8 * number) for number in range(7)])
    options = DecodingOptions(scales=scales)
    every = decode_at_all_scales(runtime, images, options)
    for (best,), scores in zip(decode_images(runtime, images, options), every, strict=True):
        assert {table.shape for table in scores.values()} <= {(scales, 2), (1, 2)}
        (expected,) = adaptive_result(scores, 3.0, options)
        assert best.tokens == expected.tokens
        assert best.score == pytest.approx(expected.score, abs=1e-4)
        assert is_valid(runtime.vocabulary.decode(best.tokens))


def test_adaptive_search_encodes_further_scales_of_doubtful_images_only():
    class Recording(PyTorchRuntime):
        encoded = 0

        def encode(self, images):
            self.encoded += len(images)
            return super().encode(images)

    images = random_images(0, [(40, 60 + 8 * number) for number in range(7)])
    counts = []
    for margin in (1e-9, 3.0, 1000.0):
        runtime = Recording(undecided_model(), {"thresholds": {"margin": margin}})
        decode_images(runtime, images, DecodingOptions())
        counts.append(runtime.encoded)
    assert counts == sorted(counts)
    assert counts[0] == len(images) and counts[-1] == 2 * len(images)


def test_adaptive_search_needs_a_threshold_one_result_and_the_constraint():
    (image,) = random_images(0, [(40, 60)])
    model = undecided_model()
    adaptive = PyTorchRuntime(model, {"thresholds": {"margin": 0.1}})
    for how in (
        {"top_k": 2},
        {"constrained": False},
        {"greedy": True},
        {"directions": "forward", "rescore": False},
    ):
        options = DecodingOptions(**how)
        expected = decode_images(PyTorchRuntime(model), [image], options)
        assert decode_images(adaptive, [image], options) == expected


def test_imported_models_decode_without_constraint():
    model, images = undecided_model(), random_images(0, [(40, 60 + 8 * n) for n in range(4)])
    options = DecodingOptions(beam=6, top_k=6, scales=1)
    free = decode_images(PyTorchRuntime(model), images, replace(options, constrained=False))
    imported = PyTorchRuntime(model, {"constrained": False})
    assert decode_images(imported, images, options) == free
    assert decode_images(PyTorchRuntime(model), images, options) != free
