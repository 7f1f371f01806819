"""Images are read in groups, by the search that was asked for."""

import inspect

import numpy as np
import pytest
import torch

from posformer import cli
from posformer.data import load_ink
from posformer.image.sizing import at_working_size
from posformer.ink.render import render
from posformer.latex import is_valid
from posformer.models.model_config import ModelConfig
from posformer.models.model_folder import open_folder
from posformer.models.posformer import PosFormer
from posformer.runtime import decode_images, search_options
from posformer.runtime.decoding import DEFAULT_BEAM, DEFAULT_VIEWS, MOST_VIEWS, most_tokens
from posformer.runtime.engine import model_path
from posformer.runtime.pytorch_runtime import PyTorchRuntime
from tiny import random_images, tiny_model


def undecided_model() -> PosFormer:
    """A small model that soon comes to an end, well-formed or not."""
    model = tiny_model(0)
    words = model.vocabulary
    with torch.no_grad():
        model.decoder.head.bias[[words.sos, words.eos]] += 2
        model.decoder.head.bias[words.encode(["_", "^", r"\frac", r"\sqrt"])] -= 2
    return model


def test_well_formed_readings_come_first():
    runtime = PyTorchRuntime(undecided_model())
    images = random_images(0, [(40, 60 + 8 * number) for number in range(4)])
    options = search_options(runtime.config, beam=6, top_k=6)
    for hypotheses in decode_images(runtime, images, options):
        tokens = [runtime.vocabulary.decode(one.tokens) for one in hypotheses]
        sound = [bool(reading) and is_valid(reading) for reading in tokens]
        assert sound == sorted(sound, reverse=True)
        assert set(sound) == {True, False}


def test_the_command_line_searches_as_wide_as_python_does():
    for command in (cli.recognize, cli.explain, cli.calibrate, cli.serve):
        assert inspect.signature(command).parameters["beam"].default == DEFAULT_BEAM
    for command in (cli.recognize, cli.calibrate, cli.serve):
        assert inspect.signature(command).parameters["views"].default == DEFAULT_VIEWS
    assert cli._MOST_VIEWS == MOST_VIEWS


def test_models_are_measured_with_the_beam_of_the_paper():
    for command in (cli.evaluate, cli.compare):
        assert inspect.signature(command).parameters["beam"].default == 10
    assert inspect.signature(cli.evaluate).parameters["views"].default == 1


@pytest.mark.parametrize("how", [{"greedy": True}, {"beam": 2}, {"beam": 3, "top_k": 3}])
def test_a_image_at_several_sizes_is_read_alike_alone_and_among_others(how):
    runtime = PyTorchRuntime(undecided_model())
    images = random_images(0, [(40, 60 + 8 * number) for number in range(4)])
    options = search_options(runtime.config, views=3, **how)
    together = decode_images(runtime, images, options)
    for image, expected in zip(images, together, strict=True):
        (alone,) = decode_images(runtime, [image], options)
        assert [one.tokens for one in alone] == [one.tokens for one in expected]
        scores = [one.score for one in expected]
        assert [one.score for one in alone] == pytest.approx(scores, abs=1e-4)


def test_no_image_is_read_at_more_sizes_than_there_are():
    runtime = PyTorchRuntime(undecided_model())
    options = search_options(runtime.config, views=MOST_VIEWS + 1)
    with pytest.raises(ValueError, match="views must be from 1 to 3, not 4"):
        decode_images(runtime, random_images(0, [(40, 60)]), options)


def test_a_beam_is_as_wide_as_readings_are_wanted():
    assert search_options(ModelConfig(), beam=2, top_k=5).beam == 5


@pytest.mark.parametrize("split", ["2013", pytest.param("train", marks=pytest.mark.slow)])
def test_every_real_expression_is_shorter_than_readings_may_be(crohme_ink_zip, split):
    size = open_folder(model_path(None)).config.image
    room = []
    for ink in load_ink(crohme_ink_zip, split):
        image = at_working_size(render(ink.strokes), size.scale, size.margin, size.max_pixels)
        room.append(most_tokens([image]) / len(ink.tokens))
    assert np.min(room) > 1.5
