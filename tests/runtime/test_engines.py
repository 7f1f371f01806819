"""ONNX Runtime and PyTorch run a model alike."""

import json
import threading
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from posformer.data import open_images
from posformer.errors import ModelError
from posformer.latex import Vocabulary
from posformer.models import ModelConfig, RefinementConfig
from posformer.models.checkpoint import load_model, save_model
from posformer.models.public_checkpoint import load_public_checkpoint
from posformer.runtime import decode_images, load_runtime
from posformer.runtime import onnx_runtime as onnx_engine
from posformer.runtime.model_export import export_model
from posformer.runtime.onnx_runtime import OnnxRuntime
from posformer.runtime.pytorch_runtime import PyTorchRuntime
from posformer.search import DecodingOptions, Hypothesis, search
from tiny import VOCABULARY, random_images, tiny_config, tiny_model

SIZES = [(40, 90), (33, 120), (70, 50), (16, 16), (90, 200)]
TOLERANCE = 1e-3


def with_decoder(**changes: object) -> ModelConfig:
    config = tiny_config()
    return replace(config, decoder=replace(config.decoder, **changes))


CONFIGS = {
    "posformer": tiny_config(),
    "comer": with_decoder(refinement=RefinementConfig(6, structure=())),
    "masked by what is fed": with_decoder(refinement=RefinementConfig(6, masked_by="fed")),
    "bttr": with_decoder(refinement=None),
    "forward only": with_decoder(refinement=None, directions="forward", layers=1),
}

Engines = tuple[PyTorchRuntime, OnnxRuntime]


@pytest.fixture(scope="module", params=CONFIGS.values(), ids=CONFIGS)
def engines(request, tmp_path_factory) -> Engines:
    folder = tmp_path_factory.mktemp("model") / "tiny"
    export_model(tiny_model(1, request.param), folder)
    return PyTorchRuntime(load_model(folder)), OnnxRuntime.load(folder)


def agree(ours: list[list[Hypothesis]], theirs: list[list[Hypothesis]]) -> None:
    assert len(ours) == len(theirs)
    for one, other in zip(ours, theirs, strict=True):
        assert [best.tokens for best in one] == [best.tokens for best in other]
        scores = [best.score for best in one]
        assert scores == pytest.approx([best.score for best in other], abs=TOLERANCE)


def options_for(**changes: object) -> DecodingOptions:
    return DecodingOptions(**{"scales": 1, "max_length": 24, **changes})


@pytest.mark.parametrize("search", [{"greedy": True}, {"beam": 4, "top_k": 3}], ids=str)
def test_both_find_the_same_in_random_images(engines, search):
    images = random_images(2, SIZES)
    one, other = (decode_images(each, images, options_for(**search)) for each in engines)
    agree(one, other)


def test_both_find_the_same_in_real_images(engines, crohme_zip):
    source = open_images(crohme_zip, "2014")
    images = [source.image(number) for number in range(0, 60, 10)]
    one, other = (decode_images(each, images, options_for(beam=3)) for each in engines)
    agree(one, other)


def test_a_image_alone_and_among_others_reads_the_same(engines):
    images = random_images(3, SIZES)
    for runtime in engines:
        options = options_for(beam=3)
        words = runtime.vocabulary
        together = search(runtime.encode(images), options, words.sos, words.eos, len(images))
        alone = [
            search(runtime.encode([image]), options, words.sos, words.eos, 1)[0] for image in images
        ]
        agree(together, alone)


def test_both_look_at_the_same_places(engines):
    images = random_images(4, [(48, 80)])
    tokens = np.random.default_rng(0).integers(1, len(VOCABULARY), (1, 2, 7))
    one, other = (runtime.encode(images).attention(tokens) for runtime in engines)
    config = engines[0].config.decoder
    assert len(one) == len(other) == config.layers
    for number, (ours, theirs) in enumerate(zip(one, other, strict=True)):
        assert ours.weights.shape == (1, 2, 7, config.heads, 3 * 5)
        np.testing.assert_allclose(ours.weights, theirs.weights, atol=1e-4)
        np.testing.assert_allclose(ours.raw, theirs.raw, atol=1e-4)
        refined = config.refinement is not None and number > 0
        assert [each.correction is not None for each in (ours, theirs)] == [refined, refined]
        if refined:
            np.testing.assert_allclose(ours.correction, theirs.correction, atol=1e-3)
            taken_off = ours.raw * np.exp(-ours.correction)
            expected = taken_off / taken_off.sum(-1, keepdims=True)
            np.testing.assert_allclose(ours.weights, expected, atol=1e-5)
        else:
            np.testing.assert_array_equal(ours.weights, ours.raw)


def test_feeding_at_once_and_step_by_step_is_the_same(engines):
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


def test_long_sequences_go_in_pieces_that_memory_holds(engines, monkeypatch):
    _, onnx = engines
    model = onnx.encode(random_images(5, SIZES[:2]))
    tokens = np.random.default_rng(1).integers(1, len(VOCABULARY), (2, 3, 9))
    whole, _ = model.step(tokens, model.start())
    calls = []
    inner = model._step
    monkeypatch.setattr(model, "_step", lambda *given: calls.append(given[0]) or inner(*given))
    monkeypatch.setattr(onnx_engine, "_MAP_NUMBERS", 2 * 6 * 24)  # two steps of six rows
    pieces, _ = model.step(tokens, model.start())
    assert [piece.shape[-1] for piece in calls] == [2, 2, 2, 2, 1]
    np.testing.assert_allclose(pieces, whole, atol=1e-4)


def test_nonsense_cannot_go_on_for_ever(engines):
    (image,) = random_images(8, [(32, 32)])
    for runtime in engines:
        options = DecodingOptions(beam=2, scales=1)
        ((best,),) = decode_images(runtime, [image], options)
        assert len(best.tokens) <= 24 + 2 * 4


def test_rows_and_images_can_be_chosen(engines):
    _, onnx = engines
    images = random_images(6, SIZES[:3])
    model = onnx.encode(images)
    tokens = np.random.default_rng(2).integers(1, len(VOCABULARY), (3, 2, 5))
    _, state = model.step(tokens[..., :4], model.start())
    state = model.select(state, np.array([2, 0]), np.array([[1, 1, 0], [0, 1, 1]]))
    state = model.select(state, np.array([1, 0]), np.array([[1], [2]]))
    scores, _ = model.step(tokens[[0, 2], :1, 4:], state)
    for row, (image, parent) in enumerate([(0, 1), (2, 0)]):
        alone = onnx.encode([images[image]])
        sequence = np.append(tokens[image, parent, :4], tokens[image, 0, 4])
        expected, _ = alone.step(sequence[None, None], alone.start())
        np.testing.assert_allclose(scores[row, 0, 0], expected[0, 0, -1], atol=1e-4)


def test_threads_share_a_model(engines):
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


def test_the_authors_answers_come_out_of_onnx_runtime(reference: Path, tmp_path: Path):
    vocabulary = Vocabulary.load(reference / "crohme_dictionary.txt")
    model = load_public_checkpoint(reference / "posformer_reference_small.ckpt", vocabulary)
    export_model(model, tmp_path / "imported")
    runtime = OnnxRuntime.load(tmp_path / "imported")
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


# Which engine runs


def test_onnx_runtime_is_taken_where_there_are_files_for_it(tmp_path):
    export_model(tiny_model(), tmp_path / "whole")
    save_model(tiny_model(), tmp_path / "weights")
    assert isinstance(load_runtime(tmp_path / "whole"), OnnxRuntime)
    assert isinstance(load_runtime(tmp_path / "whole", "pytorch"), PyTorchRuntime)
    assert isinstance(load_runtime(tmp_path / "weights"), PyTorchRuntime)
    with pytest.raises(ModelError, match=r"has no encoder\.onnx"):
        load_runtime(tmp_path / "weights", "onnx")


def test_a_folder_that_is_no_model_is_refused(tmp_path):
    with pytest.raises(ModelError, match="no such model folder"):
        load_runtime(tmp_path / "nowhere")
    with pytest.raises(ModelError, match=r"config\.json"):
        load_runtime(tmp_path)


@pytest.mark.parametrize("name", ["encoder.onnx", "decoder.onnx", "vocabulary.txt"])
def test_missing_and_damaged_files_are_named(tmp_path, name):
    folder = tmp_path / "model"
    export_model(tiny_model(), folder)
    content = bytearray((folder / name).read_bytes())
    content[len(content) // 2] ^= 1
    (folder / name).write_bytes(content)
    with pytest.raises(ModelError, match=f"{name}: damaged"):
        load_runtime(folder)
    (folder / name).unlink()
    with pytest.raises(ModelError, match=name):
        load_runtime(folder)
