"""Decoding images of any size with one model."""

import inspect

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
from posformer.runtime import decode_images
from posformer.runtime.decoding import length_limit
from posformer.runtime.engine import model_path
from posformer.runtime.pytorch_runtime import PyTorchRuntime
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
    options = DecodingOptions(beam=6, top_k=6, scales=1)
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
    assert len(SCALE_FACTORS) == shared_options.MAX_SCALES


def test_evaluation_uses_the_beam_of_the_paper_at_one_scale():
    for command in (cli.evaluate, cli.compare):
        assert inspect.signature(command).parameters["beam"].default == 10
    assert inspect.signature(cli.evaluate).parameters["scales"].default == 1


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


@pytest.mark.parametrize("split", ["2013", pytest.param("train", marks=pytest.mark.slow)])
def test_length_limit_exceeds_every_real_expression(crohme_ink_zip, split):
    size = open_folder(model_path(None)).config.image
    ratios = []
    for ink in load_ink(crohme_ink_zip, split):
        image = at_working_size(render(ink.strokes), size.scale, size.margin, size.max_pixels)
        ratios.append(length_limit([image]) / len(ink.tokens))
    assert np.min(ratios) > 1.5
