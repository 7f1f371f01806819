"""Where a model looked: the numbers, and the folder that shows them."""

import re
from dataclasses import replace
from pathlib import Path

import cv2
import numpy as np
import onnx
import pytest
import torch
from PIL import Image
from typer.testing import CliRunner

from posformer.cli import app
from posformer.errors import PosformerError
from posformer.explain import coverage, explain, look
from posformer.explain.heatmap import colour_bar, heat_over
from posformer.explain.lettering import Word, line_height, text_width, words_height
from posformer.latex import tokenize
from posformer.models import ModelConfig, RefinementConfig
from posformer.models.checkpoint import load_model
from posformer.models.model_folder import DECODER, ENCODER, ModelFolder, open_folder, write_folder
from posformer.runtime import load_runtime
from posformer.runtime.model_export import export_model
from posformer.runtime.pytorch_runtime import PyTorchRuntime
from tiny import random_images, tiny_config, tiny_model

TOKENS = tuple(tokenize(r"x^{2}+\frac{a}{1}"))
STRUCTURE = tuple(token in "^{}" for token in TOKENS)


def with_refinement(refinement: RefinementConfig | None) -> ModelConfig:
    config = tiny_config()
    return replace(config, decoder=replace(config.decoder, refinement=refinement))


def image() -> np.ndarray:
    return random_images(1, [(60, 130)])[0]


# Numbers


def test_coverage_is_the_sum_of_what_was_looked_at_before_and_counts():
    # One head and two cells; the second of four steps does not count.
    below = np.array([[1, 0], [0, 1], [0.5, 0.5], [0, 1]], np.float32).reshape(4, 1, 1, 2)
    own = np.array([[0.75, 0.25], [1, 0], [0, 1], [1, 0]], np.float32).reshape(4, 1, 1, 2)
    found = coverage(below, own, np.array([True, False, True, True]))
    assert found.shape == (4, 2, 1, 2)
    assert found[:, 0, 0].tolist() == [[0, 0], [1, 0], [1, 0], [1.5, 0.5]]
    assert found[:, 1, 0].tolist() == [[0, 0], [0.75, 0.25], [0.75, 0.25], [0.75, 1.25]]


@pytest.mark.parametrize(
    ("refinement", "left_out"),
    [
        (RefinementConfig(6), STRUCTURE),
        (RefinementConfig(6, structure=()), (False,) * len(TOKENS)),
        (RefinementConfig(6, structure=("{",)), tuple(token == "{" for token in TOKENS)),
        # There the step that takes a structure token in is left out, not the one that writes it.
        (RefinementConfig(6, masked_by="fed"), (False, *STRUCTURE[:-1])),
    ],
    ids=["posformer", "comer", "own choice", "masked by what is fed"],
)
def test_what_is_told_is_what_the_refinement_computed(refinement, left_out):
    runtime = PyTorchRuntime(tiny_model(1, with_refinement(refinement)))
    looking = look(runtime, image(), TOKENS)
    assert looking.left_out == left_out
    phi = runtime.model.decoder.stack.refinement
    for layer in looking.layers[1:]:
        steps, heads, rows, columns = layer.after.shape
        seen = torch.from_numpy(layer.coverage).reshape(1, 1, steps, 2 * heads, rows * columns)
        with torch.no_grad():
            taken_off = phi(seen, torch.zeros(1, rows, columns, dtype=torch.bool))
        np.testing.assert_allclose(
            layer.correction.ravel(), taken_off.numpy().ravel(), atol=1e-4, rtol=1e-4
        )
        expected = layer.before * np.exp(-layer.correction)
        expected /= expected.sum(axis=(2, 3), keepdims=True)
        np.testing.assert_allclose(layer.after, expected, atol=1e-5)
    first = looking.layers[0]
    assert (first.is_refined, first.coverage, first.correction) == (False, None, None)
    np.testing.assert_array_equal(first.before, first.after)


def test_both_engines_tell_the_same(tiny_folder):
    one, other = (
        look(load_runtime(tiny_folder, engine), image(), TOKENS) for engine in ("onnx", "pytorch")
    )
    np.testing.assert_allclose(one.probability, other.probability, atol=1e-4)
    assert (one.tokens, one.preferred) == (other.tokens, other.preferred)
    for ours, theirs in zip(one.layers, other.layers, strict=True):
        for kind in ("before", "after", "coverage", "correction"):
            a, b = getattr(ours, kind), getattr(theirs, kind)
            assert (a is None) == (b is None), kind
            if a is not None:
                np.testing.assert_allclose(a, b, atol=1e-3, err_msg=kind)


@pytest.mark.parametrize("direction", ["forward", "backward"])
def test_probabilities_are_those_of_the_search(tiny_folder, direction):
    runtime = load_runtime(tiny_folder)
    looking = look(runtime, image(), TOKENS, direction)
    words, written = runtime.vocabulary, TOKENS if direction == "forward" else TOKENS[::-1]
    assert looking.tokens == written
    step_model = runtime.encode([image()])
    state, last = step_model.start(), words.sos if direction == "forward" else words.eos
    for token, probability, preferred in zip(
        written, looking.probability, looking.preferred, strict=True
    ):
        scores, state = step_model.step(np.array([[[last]]]), state)
        last = words.index(token)
        assert probability == pytest.approx(np.exp(scores[0, 0, 0, last]), abs=1e-4)
        best = int(scores[0, 0, 0].argmax())
        assert preferred == (words.decode([best])[0] if best > words.eos else "")


def test_maps_lie_on_the_image(tiny_folder):
    looking = look(load_runtime(tiny_folder), image(), TOKENS)
    for layer in looking.layers:
        tokens, _, rows, columns = layer.after.shape
        assert tokens == len(TOKENS)
        assert looking.image.shape == (16 * rows, 16 * columns)
        assert layer.after.sum(axis=(2, 3)) == pytest.approx(1, abs=1e-4)


def test_what_a_model_cannot_write_is_refused(tiny_folder):
    runtime = load_runtime(tiny_folder)
    with pytest.raises(PosformerError, match=r"mine: \\sum \(token 2\) is not in the vocabulary"):
        look(runtime, image(), ["x", r"\sum"], name="mine")
    with pytest.raises(PosformerError, match="no symbols"):
        look(runtime, image(), [])
    config = tiny_config()
    one_way = replace(config, decoder=replace(config.decoder, directions="forward"))
    with pytest.raises(PosformerError, match="left to right only"):
        look(PyTorchRuntime(tiny_model(1, one_way)), image(), TOKENS, "backward")


# Images


def test_heat_colours_where_it_is_and_leaves_the_rest_pale():
    ink = np.zeros((32, 64), np.uint8)
    ink[12:20] = 255  # a bar all along
    heat = np.zeros((2, 4))
    heat[:, 0] = 1
    drawn = heat_over(ink, heat, (256, 128)).astype(int)
    red, _, blue = drawn[8, 8]
    assert red > blue + 60
    assert drawn[8, -8].tolist() == [255, 255, 255]
    assert drawn[64, 8].mean() < drawn[64, -8].mean() - 60, "ink is dark where it is looked at"


def test_the_colour_bar_gets_darker_all_along():
    light = colour_bar(64, 4)[0].astype(float) @ [0.3, 0.6, 0.1]
    assert light[0] == 255
    assert (np.diff(light) <= 0).all() and light[-1] < 80


def test_long_lines_are_broken():
    words = [Word(r"\frac", (0, 0, 0))] * 6
    width = 3 * text_width(r"\frac", 20) + 20
    assert words_height(words, 20, 10_000) == line_height(20)
    assert words_height(words, 20, width) == 2 * line_height(20)
    assert words_height(words, 20, 1) == 6 * line_height(20)


# The folder


@pytest.fixture
def formula() -> Path:
    """A formula of the project's own, white ink on black."""
    return Path(__file__).parents[2] / "examples" / "pythagoras.png"


def test_everything_is_written_and_shown(tiny_folder, formula, tmp_path):
    found = explain(formula, tmp_path / "out", model=tiny_folder, latex=r"x^2+\frac{a}{1}")
    assert (found.latex, found.notes) == ((r"x^{2}+\frac{a}{1}",), ())
    text = found.page.read_text(encoding="utf-8")
    named = set(re.findall(r'(?:src|href|data-sheet)="([^"]+)"', text))
    assert {"attention.gif", "overview.png", "attention.npz", "symbols/012.png"} <= named
    assert all((tmp_path / "out" / name).is_file() for name in named)
    assert len(list((tmp_path / "out" / "symbols").iterdir())) == len(TOKENS)
    with Image.open(tmp_path / "out" / "attention.gif") as moving:
        assert moving.n_frames == len(TOKENS)
    with np.load(tmp_path / "out" / "attention.npz") as numbers:
        assert tuple(numbers["tokens"]) == TOKENS
        assert tuple(numbers["left_out"]) == STRUCTURE
        assert numbers["coverage_3"].shape[1] == 2 * numbers["after_3"].shape[1]
        assert {"before_1", "after_1", "correction_2"} <= set(numbers)
        assert "coverage_1" not in numbers


def test_an_earlier_explanation_is_replaced(tiny_folder, formula, tmp_path):
    for latex in ("x+1+a", "x"):
        explain(formula, tmp_path / "out", model=tiny_folder, latex=latex)
    assert [file.name for file in (tmp_path / "out" / "symbols").iterdir()] == ["001.png"]


def test_two_models_write_the_same_side_by_side(tiny_folder, formula, tmp_path):
    config = with_refinement(None)
    other = replace(config, image=replace(config.image, scale=0.5))
    export_model(tiny_model(5, other), tmp_path / "bttr")
    found = explain(formula, tmp_path / "out", model=tiny_folder, against=tmp_path / "bttr")
    (section,) = found.sections
    one, two = section.lookings
    assert one.tokens == two.tokens
    assert one.image.size > two.image.size
    assert (one.model, two.model) == ("tiny", "bttr")
    assert section.readings[0] == section.written
    names = {file.name for file in (tmp_path / "out").iterdir()}
    assert {"overview-against.png", "attention-against.npz"} <= names


def test_formulas_below_each_other_are_shown_one_by_one(tiny_folder, formula, tmp_path):
    line = cv2.imread(str(formula), 0)
    page = np.concatenate([line, np.zeros((80, line.shape[1]), np.uint8), line])
    cv2.imwrite(str(tmp_path / "two.png"), page)
    found = explain(tmp_path / "two.png", tmp_path / "out", model=tiny_folder)
    assert [section.place for section in found.sections] == ["formula-1/", "formula-2/"]
    assert (tmp_path / "out" / "formula-2" / "attention.gif").is_file()


def stripped(folder: Path, output: Path, kinds: tuple[str, ...], weights: bool) -> ModelFolder:
    """A model folder whose decoder does not give some kinds of outputs."""
    known = open_folder(folder)
    decoder = onnx.load(folder / DECODER)
    for value in list(decoder.graph.output):
        if value.name.partition(".")[0] in kinds:
            decoder.graph.output.remove(value)
    files = {ENCODER: folder / ENCODER, DECODER: output.with_suffix(".onnx")}
    onnx.save(decoder, files[DECODER])
    if weights:
        files["model.safetensors"] = folder / "model.safetensors"
    return write_folder(output, known.config, known.vocabulary, files, {})


def test_older_folders_are_looked_into_with_pytorch(tiny_folder, formula, tmp_path):
    old = stripped(tiny_folder, tmp_path / "old", ("raw_attention", "correction"), weights=True)
    found = explain(formula, tmp_path / "out", model=old.path, latex="x+1")
    assert found.notes == ()
    assert found.sections[0].lookings[0].knows_before


def test_what_older_folders_tell_is_shown_where_there_is_nothing_more(
    tiny_folder, formula, tmp_path
):
    old = stripped(tiny_folder, tmp_path / "old", ("raw_attention", "correction"), weights=False)
    found = explain(formula, tmp_path / "out", model=old.path, latex="x+1")
    (note,) = found.notes
    assert note.startswith("old: its decoder.onnx tells attention after correction only")
    assert note in found.page.read_text(encoding="utf-8")
    assert (tmp_path / "out" / "attention.gif").is_file()


def test_a_model_that_does_not_tell_still_shows_what_it_read(tiny_folder, formula, tmp_path):
    kinds = ("attention", "raw_attention", "correction")
    silent = stripped(tiny_folder, tmp_path / "silent", kinds, weights=False)
    found = explain(formula, tmp_path / "out", model=silent.path, latex="x+1")
    assert "does not tell where it looks" in found.notes[0]
    names = {file.name for file in (tmp_path / "out").iterdir()}
    assert "image.png" in names and "attention.gif" not in names
    assert "<td><code>x</code>" in found.page.read_text(encoding="utf-8")


# The command


def run(*arguments: object) -> tuple[int, str]:
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result.exit_code, result.stdout


def test_explain_command(tiny_folder, formula, tmp_path):
    code, output = run(
        "explain", formula, "-o", tmp_path / "out", "--model", tiny_folder,
        "--latex", "x^2", "--direction", "backward",
    )  # fmt: skip
    assert (code, output) == (0, "x^{2}\n")
    with np.load(tmp_path / "out" / "attention.npz") as numbers:
        assert list(numbers["tokens"]) == ["}", "2", "{", "^", "x"]


def test_a_checkpoint_can_be_looked_into_as_well(tiny_folder, formula, tmp_path):
    model = load_model(tiny_folder)
    config = {"name": "tiny", "model": model.config.to_dict()}
    words = list(model.vocabulary.tokens)
    state = {f"model.{name}": value for name, value in model.state_dict().items()}
    torch.save(
        {"state_dict": state, "posformer": {"config": config, "tokens": words}},
        tmp_path / "last.ckpt",
    )
    found = explain(formula, tmp_path / "out", model=tmp_path / "last.ckpt", latex="x")
    assert found.sections[0].lookings[0].knows_before
