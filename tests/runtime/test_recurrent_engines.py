"""DWAP, ABM and CAN run in ONNX Runtime as they do in PyTorch, and through the same commands."""

from pathlib import Path

import numpy as np
import onnxruntime
import pytest

from posformer.models.checkpoint import load_model
from posformer.runtime import decode_images, load_runtime
from posformer.runtime.model_export import export_model, largest_difference
from posformer.runtime.onnx_runtime import OnnxRuntime
from posformer.runtime.pytorch_runtime import PyTorchRuntime
from posformer.search import DecodingOptions, search
from tiny import VOCABULARY, random_images, tiny_recurrent

SIZES = [(40, 90), (33, 120), (70, 50), (16, 16), (90, 200)]

Engines = tuple[PyTorchRuntime, OnnxRuntime]


@pytest.fixture(scope="module", params=["dwap", "abm", "can"])
def folder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("model") / "tiny"
    _, difference = export_model(tiny_recurrent(request.param, position="heads"), path)
    assert difference is not None and difference < 1e-4
    return path


@pytest.fixture(scope="module")
def engines(folder: Path) -> Engines:
    return PyTorchRuntime(load_model(folder)), OnnxRuntime.load(folder)


@pytest.mark.parametrize("how", [{"greedy": True}, {"beam": 4, "top_k": 3}], ids=str)
def test_both_find_the_same(engines: Engines, how: dict) -> None:
    images = random_images(2, SIZES)
    options = DecodingOptions(**{"scales": 1, **how})
    one, other = (decode_images(runtime, images, options) for runtime in engines)
    for ours, theirs in zip(one, other, strict=True):
        assert [best.tokens for best in ours] == [best.tokens for best in theirs]
        scores = [best.score for best in theirs]
        assert [best.score for best in ours] == pytest.approx(scores, abs=1e-3)


def test_search_goes_from_left_to_right_alone(engines: Engines) -> None:
    options = DecodingOptions().resolve(engines[1].config.decoder.directions)
    assert (options.directions, options.rescore) == ("forward", False)


def test_a_image_alone_and_among_others_reads_the_same(engines: Engines) -> None:
    images = random_images(3, SIZES)
    words = VOCABULARY
    for runtime in engines:
        options = DecodingOptions(beam=3, scales=1, directions="forward", rescore=False)
        together = search(runtime.encode(images), options, words.sos, words.eos, len(images))
        for image, among in zip(images, together, strict=True):
            (alone,) = search(runtime.encode([image]), options, words.sos, words.eos, 1)
            assert [best.tokens for best in alone] == [best.tokens for best in among]


def test_both_look_at_the_same_places(engines: Engines) -> None:
    images = random_images(4, SIZES[:2])
    tokens = np.random.default_rng(0).integers(1, len(VOCABULARY), (2, 3, 7))
    (one,), (other,) = (runtime.encode(images).attention(tokens) for runtime in engines)
    assert one.weights.shape[:4] == (2, 3, 7, 1)
    np.testing.assert_allclose(one.weights, other.weights, atol=1e-4)
    assert other.raw is not None and other.correction is None
    np.testing.assert_allclose(other.raw, other.weights)


def test_images_can_be_chosen_before_the_first_token(engines: Engines) -> None:
    images = random_images(6, SIZES[:3])
    tokens = np.full((1, 2, 3), 5)
    for runtime in engines:
        model = runtime.encode(images)
        state = model.select(model.start(), np.array([2]), np.array([[0]]))
        chosen, _ = model.step(tokens, state)
        alone = runtime.encode(images[2:])
        expected, _ = alone.step(tokens, alone.start())
        np.testing.assert_allclose(chosen, expected, atol=1e-4)


def test_the_graph_tells_what_it_takes(folder: Path) -> None:
    session = onnxruntime.InferenceSession(folder / "decoder.onnx")
    shapes = {given.name: given.shape for given in session.get_inputs()}
    assert shapes["tokens"] == ["images", "rows", 1]
    assert shapes["hidden"] == ["old rows", 24]
    assert not any("position" in name for name in shapes)


def test_half_precision(folder: Path, tmp_path: Path) -> None:
    half, difference = export_model(load_model(folder), tmp_path / "half", half=True)
    assert difference is not None and difference < 1e-4
    assert largest_difference(PyTorchRuntime(load_model(half.path)), OnnxRuntime(half)) < 1e-4


def test_recognition_takes_onnx_runtime(folder: Path) -> None:
    assert isinstance(load_runtime(folder), OnnxRuntime)
