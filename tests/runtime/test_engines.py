"""ONNX Runtime and PyTorch give the same results for every model."""

import json
import shutil
import threading
from pathlib import Path

import numpy as np
import pytest

from posformer.data import open_images
from posformer.errors import ModelError
from posformer.models.checkpoint import load_model, save_model
from posformer.runtime import decode_images, load_runtime
from posformer.runtime import onnx_runtime as onnx_engine
from posformer.runtime.onnx_runtime import OnnxRuntime
from posformer.runtime.pytorch_runtime import PyTorchRuntime
from posformer.search import DecodingOptions, Hypothesis, search
from tiny import VOCABULARY, random_images, tiny_model
from tiny_exports import MODELS

SIZES = [(40, 90), (33, 120), (70, 50), (16, 16), (90, 200)]
TOLERANCE = 1e-3


Engines = tuple[PyTorchRuntime, OnnxRuntime]


@pytest.fixture(scope="module", params=MODELS)
def engines(request, exported) -> Engines:
    folder = exported(request.param)
    return PyTorchRuntime(load_model(folder)), OnnxRuntime.load(folder)


def agree(ours: list[list[Hypothesis]], theirs: list[list[Hypothesis]]) -> None:
    assert len(ours) == len(theirs)
    for one, other in zip(ours, theirs, strict=True):
        assert [best.tokens for best in one] == [best.tokens for best in other]
        scores = [best.score for best in one]
        assert scores == pytest.approx([best.score for best in other], abs=TOLERANCE)


def options_for(**changes: object) -> DecodingOptions:
    # ONNX Runtime does not score the trees of TAMER.
    return DecodingOptions(**{"scales": 1, "max_length": 24, "tree_weight": 0.0, **changes})


@pytest.mark.parametrize("search", [{"greedy": True}, {"beam": 4, "top_k": 3}], ids=str)
def test_both_engines_decode_random_images_alike(engines, search):
    images = random_images(2, SIZES)
    one, other = (decode_images(each, images, options_for(**search)) for each in engines)
    agree(one, other)


def test_both_engines_decode_real_images_alike(engines, crohme_zip):
    source = open_images(crohme_zip, "2014")
    images = [source.image(number) for number in range(0, 60, 10)]
    one, other = (decode_images(each, images, options_for(beam=3)) for each in engines)
    agree(one, other)


def test_an_image_gives_the_same_result_alone_and_in_a_group(engines):
    images = random_images(3, SIZES)
    for runtime in engines:
        options = options_for(beam=3)
        vocabulary = runtime.vocabulary
        together = search(
            runtime.encode(images), options, vocabulary.sos, vocabulary.eos, len(images)
        )
        alone = [
            search(runtime.encode([image]), options, vocabulary.sos, vocabulary.eos, 1)[0]
            for image in images
        ]
        agree(together, alone)


def test_attention_maps_agree(engines):
    images = random_images(4, [(48, 80)])
    tokens = np.random.default_rng(0).integers(1, len(VOCABULARY), (1, 2, 7))
    one, other = (runtime.encode(images).attention(tokens) for runtime in engines)
    config = engines[0].config.decoder
    layers, heads = getattr(config, "layers", 1), getattr(config, "heads", 1)
    assert len(one) == len(other) == layers
    for number, (ours, theirs) in enumerate(zip(one, other, strict=True)):
        assert ours.weights.shape == (1, 2, 7, heads, 3, 5)
        np.testing.assert_allclose(ours.weights, theirs.weights, atol=1e-4)
        np.testing.assert_allclose(ours.raw_weights, theirs.raw_weights, atol=1e-4)
        np.testing.assert_allclose(ours.mean_weights(), ours.weights.mean(3))
        refined = config.refinement is not None and number > 0
        assert ours.is_refined == theirs.is_refined == refined
        if refined:
            np.testing.assert_allclose(ours.refinement, theirs.refinement, atol=1e-3)
        else:
            np.testing.assert_array_equal(ours.weights, ours.raw_weights)


def test_steps_in_one_call_equal_steps_one_by_one(engines):
    _, onnx = engines
    model = onnx.encode(random_images(5, SIZES[:2]))
    tokens = np.random.default_rng(1).integers(1, len(VOCABULARY), (2, 3, 9))
    whole, _ = model.step(tokens, model.start())
    state, parts = model.start(), []
    for steps in (tokens[..., :4], tokens[..., 4:5], tokens[..., 5:]):
        scores, state = model.step(steps, state)
        parts.append(scores)
    np.testing.assert_allclose(np.concatenate(parts, axis=2), whole, atol=1e-4)
    assert np.exp(whole).sum(-1) == pytest.approx(1, abs=1e-4)


def test_long_sequences_are_split_to_limit_memory(engines, monkeypatch):
    _, onnx = engines
    model = onnx.encode(random_images(5, SIZES[:2]))
    tokens = np.random.default_rng(1).integers(1, len(VOCABULARY), (2, 3, 9))
    whole, _ = model.step(tokens, model.start())
    calls = []
    inner = model._step
    monkeypatch.setattr(model, "_step", lambda *given: calls.append(given[0]) or inner(*given))
    monkeypatch.setattr(onnx_engine, "_MAX_CELLS", 2 * 6 * 24)  # two steps of six beams
    pieces, _ = model.step(tokens, model.start())
    lengths = [2, 2, 2, 2, 1] if onnx._decoder.inputs["input_ids"][2] == "steps" else [1] * 9
    assert [piece.shape[-1] for piece in calls] == lengths
    np.testing.assert_allclose(pieces, whole, atol=1e-4)


def test_the_length_of_a_result_is_limited(engines):
    (image,) = random_images(8, [(32, 32)])
    for runtime in engines:
        options = DecodingOptions(beam=2, scales=1)
        ((best,),) = decode_images(runtime, [image], options)
        assert len(best.tokens) <= 24 + 2 * 4


def test_beams_and_images_can_be_selected(engines):
    _, onnx = engines
    images = random_images(6, SIZES[:3])
    model = onnx.encode(images)
    tokens = np.random.default_rng(2).integers(1, len(VOCABULARY), (3, 2, 5))
    _, state = model.step(tokens[..., :4], model.start())
    state = model.select(state, np.array([2, 0]), np.array([[1, 1, 0], [0, 1, 1]]))
    state = model.select(state, np.array([1, 0]), np.array([[1], [2]]))
    scores, _ = model.step(tokens[[0, 2], :1, 4:], state)
    for number, (image, parent) in enumerate([(0, 1), (2, 0)]):
        alone = onnx.encode([images[image]])
        sequence = np.append(tokens[image, parent, :4], tokens[image, 0, 4])
        expected, _ = alone.step(sequence[None, None], alone.start())
        np.testing.assert_allclose(scores[number, 0, 0], expected[0, 0, -1], atol=1e-4)


def test_several_threads_can_use_a_model(engines):
    _, onnx = engines
    images = random_images(7, SIZES)
    options = options_for(beam=3)
    expected = [decode_images(onnx, [image], options) for image in images]
    found: dict[int, list] = {}

    def work(number: int) -> None:
        found[number] = [decode_images(onnx, [image], options) for image in images]

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 4
    for results in found.values():
        for one, other in zip(results, expected, strict=True):
            agree(one, other)


def test_onnx_runtime_reproduces_the_authors_results(reference: Path, imported: Path):
    runtime = OnnxRuntime.load(imported)
    answers = json.loads((reference / "posformer_reference_small.json").read_text())
    with np.load(reference / "posformer_reference_small.npz") as stored:
        images, masks = stored["img"], stored["mask"]
    for image, mask, answer in zip(images, masks, answers["beam_single_size10"], strict=True):
        inside = image[0][: (~mask).any(1).sum(), : (~mask).any(0).sum()]
        image = np.round(inside * 255).astype(np.uint8)
        options = DecodingOptions(beam=10, finished=10, scales=1, max_length=40)
        ((best,),) = search(runtime.encode([image]), options, 1, 2, 1)
        assert list(best.tokens) == answer["seq"]
        assert best.score == pytest.approx(answer["score"], abs=TOLERANCE)


def test_images_can_be_selected_before_the_first_token(engines):
    images = random_images(6, SIZES[:3])
    tokens = np.full((1, 2, 3), 5)
    for runtime in engines:
        model = runtime.encode(images)
        state = model.select(model.start(), np.array([2]), np.array([[0]]))
        chosen, _ = model.step(tokens, state)
        alone = runtime.encode(images[2:])
        expected, _ = alone.step(tokens, alone.start())
        np.testing.assert_allclose(chosen, expected, atol=1e-4)


# Selection of the engine


def test_onnx_runtime_is_the_default_if_there_are_onnx_files(exported, tmp_path):
    complete = exported("tiny")
    save_model(tiny_model(), tmp_path / "weights")
    assert isinstance(load_runtime(complete), OnnxRuntime)
    assert isinstance(load_runtime(complete, "pytorch"), PyTorchRuntime)
    assert isinstance(load_runtime(tmp_path / "weights"), PyTorchRuntime)
    with pytest.raises(ModelError, match=r"has no encoder\.onnx"):
        load_runtime(tmp_path / "weights", "onnx")


def test_a_folder_without_a_model_is_an_error(tmp_path):
    with pytest.raises(ModelError, match="no such model folder"):
        load_runtime(tmp_path / "nowhere")
    with pytest.raises(ModelError, match=r"config\.json"):
        load_runtime(tmp_path)


FILES = ["encoder.onnx", "decoder.onnx", "model.safetensors", "vocabulary.txt"]


@pytest.mark.parametrize("name", FILES)
def test_missing_and_damaged_files_are_named(exported, tmp_path, name):
    folder = tmp_path / "model"
    shutil.copytree(exported("tiny"), folder)
    content = bytearray((folder / name).read_bytes())
    content[len(content) // 2] ^= 1
    (folder / name).write_bytes(content)
    with pytest.raises(ModelError, match=f"{name}: damaged"):
        load_runtime(folder)
    (folder / name).unlink()
    with pytest.raises(ModelError, match=name):
        load_runtime(folder)
