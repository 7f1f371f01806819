"""Forced decoding, attention figures, and the folder that `explain` writes."""

import re
from dataclasses import replace
from pathlib import Path

import cv2
import numpy as np
import pytest
import torch
from PIL import Image
from typer.testing import CliRunner

from posformer.cli import app
from posformer.errors import ModelError, PosformerError
from posformer.explain import coverage, explain, explain_image, force_decode
from posformer.explain.figures import overlay
from posformer.latex import tokenize
from posformer.models import ModelConfig, RefinementConfig
from posformer.models.checkpoint import load_model, save_model
from posformer.plotting import ColoredToken, token_lines
from posformer.runtime import load_runtime
from posformer.runtime.attention_map import AttentionMap
from posformer.runtime.pytorch_runtime import PyTorchRuntime
from tiny import random_images, tiny_config, tiny_model, tiny_recurrent

TOKENS = tuple(tokenize(r"x^{2}+\frac{a}{1}"))
STRUCTURE = tuple(token in "^{}" for token in TOKENS)


def with_refinement(refinement: RefinementConfig | None) -> ModelConfig:
    config = tiny_config()
    return replace(config, decoder=replace(config.decoder, refinement=refinement))


def image() -> np.ndarray:
    return random_images(1, [(60, 130)])[0]


# Forced decoding


def test_coverage_is_the_sum_of_the_counted_past_attention():
    # One head and two cells; the second of four steps is excluded.
    below = np.array([[1, 0], [0, 1], [0.5, 0.5], [0, 1]], np.float32).reshape(4, 1, 1, 2)
    own = np.array([[0.75, 0.25], [1, 0], [0, 1], [1, 0]], np.float32).reshape(4, 1, 1, 2)
    found = coverage(below, own, np.array([True, False, True, True]))
    assert found.shape == (4, 2, 1, 2)
    assert found[:, 0, 0].tolist() == [[0, 0], [1, 0], [1, 0], [1.5, 0.5]]
    assert found[:, 1, 0].tolist() == [[0, 0], [0.75, 0.25], [0.75, 0.25], [0.75, 1.25]]


@pytest.mark.parametrize(
    ("refinement", "excluded"),
    [
        (RefinementConfig(6), STRUCTURE),
        (RefinementConfig(6, structure=()), (False,) * len(TOKENS)),
        (RefinementConfig(6, structure=("{",)), tuple(token == "{" for token in TOKENS)),
        # Here the step whose input is a structure token is excluded, not the one that predicts it.
        (RefinementConfig(6, masked_by="input"), (False, *STRUCTURE[:-1])),
    ],
    ids=["posformer", "comer", "custom", "masked by input"],
)
def test_attention_maps_are_those_of_the_refinement(refinement, excluded):
    runtime = PyTorchRuntime(tiny_model(1, with_refinement(refinement)))
    decoding = force_decode(runtime, image(), TOKENS)
    assert decoding.excluded == excluded
    phi = runtime.model.decoder.stack.refinement
    for number, layer in enumerate(decoding.attention[1:], start=1):
        with torch.no_grad():
            hidden = phi.project(torch.relu(phi.look(torch.from_numpy(decoding.coverage(number)))))
            norm = phi.norm
            term = torch.nn.functional.batch_norm(
                hidden, norm.running_mean, norm.running_var, norm.weight, norm.bias, eps=norm.eps
            )
        np.testing.assert_allclose(layer.refinement[0, 0], term.numpy(), atol=1e-4, rtol=1e-4)
        expected = layer.raw_weights * np.exp(-layer.refinement)
        expected /= expected.sum(axis=(-2, -1), keepdims=True)
        np.testing.assert_allclose(layer.weights, expected, atol=1e-5)
    first = decoding.attention[0]
    assert (first.is_refined, decoding.coverage(0)) == (False, None)
    np.testing.assert_array_equal(first.raw_weights, first.weights)


def test_runtimes_agree(tiny_folder):
    one, other = (
        force_decode(load_runtime(tiny_folder, engine), image(), TOKENS)
        for engine in ("onnx", "pytorch")
    )
    np.testing.assert_allclose(one.probability, other.probability, atol=1e-4)
    assert (one.tokens, one.preferred) == (other.tokens, other.preferred)
    for ours, theirs in zip(one.attention, other.attention, strict=True):
        for kind in ("weights", "raw_weights", "refinement"):
            a, b = getattr(ours, kind), getattr(theirs, kind)
            assert (a is None) == (b is None), kind
            if a is not None:
                np.testing.assert_allclose(a, b, atol=1e-3, err_msg=kind)


@pytest.mark.parametrize("direction", ["forward", "backward"])
def test_probabilities_are_those_of_single_steps(tiny_folder, direction):
    runtime = load_runtime(tiny_folder)
    decoding = force_decode(runtime, image(), TOKENS, direction)
    vocabulary = runtime.vocabulary
    ordered = TOKENS if direction == "forward" else TOKENS[::-1]
    assert decoding.tokens == ordered
    step_model = runtime.encode([image()])
    state = step_model.start()
    last = vocabulary.sos if direction == "forward" else vocabulary.eos
    for token, probability, preferred in zip(
        ordered, decoding.probability, decoding.preferred, strict=True
    ):
        scores, state = step_model.step(np.array([[[last]]]), state)
        last = vocabulary.index(token)
        assert probability == pytest.approx(np.exp(scores[0, 0, 0, last]), abs=1e-4)
        best = int(scores[0, 0, 0].argmax())
        assert preferred == (vocabulary.decode([best])[0] if best > vocabulary.eos else "")


def test_maps_cover_the_image(tiny_folder):
    decoding = force_decode(load_runtime(tiny_folder), image(), TOKENS)
    for layer in decoding.attention:
        tokens, _, rows, columns = layer.weights[0, 0].shape
        assert tokens == len(TOKENS)
        assert decoding.image.shape == (16 * rows, 16 * columns)
        assert layer.weights.sum(axis=(-2, -1)) == pytest.approx(1, abs=1e-4)


def test_invalid_tokens_and_directions_raise_errors(tiny_folder):
    runtime = load_runtime(tiny_folder)
    with pytest.raises(PosformerError, match=r"mine: \\sum \(token 2\) is not in the vocabulary"):
        force_decode(runtime, image(), ["x", r"\sum"], name="mine")
    with pytest.raises(PosformerError, match="no tokens"):
        force_decode(runtime, image(), [])
    config = tiny_config()
    one_way = replace(config, decoder=replace(config.decoder, directions="forward"))
    with pytest.raises(PosformerError, match="left to right only"):
        force_decode(PyTorchRuntime(tiny_model(1, one_way)), image(), TOKENS, "backward")


# Figures


def test_overlay_colors_hot_cells_and_darkens_their_ink():
    ink = np.zeros((32, 64), np.uint8)
    ink[12:20] = 255  # a horizontal bar
    heat = np.zeros((2, 4))
    heat[:, 0] = 1
    pixels = overlay(ink, heat, (256, 128)).astype(int)
    middle = len(pixels) // 2
    red, _, blue = pixels[8, 8]
    assert red > blue + 60
    assert pixels[8, -8].tolist() == [255, 255, 255]
    assert pixels[middle, 8].mean() < pixels[middle, -8].mean() - 60


def test_hotter_cells_are_darker():
    pixels = overlay(np.zeros((16, 16 * 64), np.uint8), np.linspace(0, 1, 64)[None], (400, 20))
    light = pixels[10].astype(float) @ [0.3, 0.6, 0.1]
    assert light[0] == 255 and light[-1] < 80
    assert (np.diff(light) <= 1e-6).all()


def test_long_lines_of_tokens_are_wrapped():
    tokens = [ColoredToken(r"\frac", "black")] * 6
    for width, lines in ((10_000, 1), (220, 2), (1, 6)):
        wrapped, height = token_lines(tokens, width, 20)
        assert (len(wrapped), height) == (lines, lines * 30)
        assert [token for line in wrapped for token in line] == tokens


# The folder


@pytest.fixture
def formula() -> Path:
    """A formula of the project's own, white ink on black."""
    return Path(__file__).parents[2] / "examples" / "pythagoras.png"


def test_page_shows_all_files(tiny_folder, formula, tmp_path):
    found = explain(formula, tmp_path / "out", model=tiny_folder, latex=r"x^2+\frac{a}{1}")
    assert (found.latex, found.notes) == ((r"x^{2}+\frac{a}{1}",), ())
    text = found.page.read_text(encoding="utf-8")
    named = set(re.findall(r'(?:src|href|data-sheet)="([^"]+)"', text))
    assert {"attention.gif", "overview.png", "attention.npz", "symbols/012.png"} <= named
    assert all((tmp_path / "out" / name).is_file() for name in named)
    assert len(list((tmp_path / "out" / "symbols").iterdir())) == len(TOKENS)
    with Image.open(tmp_path / "out" / "attention.gif") as animation:
        assert animation.n_frames == len(TOKENS)
    with np.load(tmp_path / "out" / "attention.npz") as arrays:
        assert tuple(arrays["tokens"]) == TOKENS
        assert tuple(arrays["left_out"]) == STRUCTURE
        assert arrays["coverage_3"].shape[1] == 2 * arrays["after_3"].shape[1]
        assert {"before_1", "after_1", "correction_2"} <= set(arrays)
        assert "coverage_1" not in arrays


def test_files_of_an_earlier_call_are_replaced(tiny_folder, formula, tmp_path):
    for latex in ("x+1+a", "x"):
        explain(formula, tmp_path / "out", model=tiny_folder, latex=latex)
    assert [file.name for file in (tmp_path / "out" / "symbols").iterdir()] == ["001.png"]


def test_two_models_decode_the_same_tokens(tiny_folder, formula, tmp_path):
    config = with_refinement(None)
    other = replace(config, image=replace(config.image, scale=0.5))
    save_model(tiny_model(5, other), tmp_path / "bttr")
    found = explain(formula, tmp_path / "out", model=tiny_folder, against=tmp_path / "bttr")
    (formula_files,) = found.formulas
    one, two = formula_files.decodings
    assert one.tokens == two.tokens
    assert one.image.size > two.image.size
    assert (one.model, two.model) == ("tiny", "bttr")
    assert formula_files.predictions[0] == formula_files.latex
    names = {file.name for file in (tmp_path / "out").iterdir()}
    assert {"overview-against.png", "attention-against.npz"} <= names


def test_each_line_of_a_page_has_its_own_folder(tiny_folder, formula, tmp_path):
    line = cv2.imread(str(formula), 0)
    page = np.concatenate([line, np.zeros((80, line.shape[1]), np.uint8), line])
    cv2.imwrite(str(tmp_path / "two.png"), page)
    found = explain(tmp_path / "two.png", tmp_path / "out", model=tiny_folder)
    assert [one.folder for one in found.formulas] == ["formula-1/", "formula-2/"]
    assert (tmp_path / "out" / "formula-2" / "attention.gif").is_file()


def limit_onnx_attention(monkeypatch: pytest.MonkeyPatch, *, weights: bool) -> None:
    """Make ONNX models return the final weights only, as older model folders do, or nothing."""

    def limited(runtime, *arguments):
        decoding = force_decode(runtime, *arguments)
        if isinstance(runtime, PyTorchRuntime):
            return decoding
        layers = tuple(AttentionMap(layer.weights) for layer in decoding.attention)
        return replace(decoding, attention=layers if weights else ())

    monkeypatch.setattr(explain_image, "force_decode", limited)


def test_pytorch_is_used_for_older_model_folders(tiny_folder, formula, tmp_path, monkeypatch):
    limit_onnx_attention(monkeypatch, weights=True)
    found = explain(formula, tmp_path / "out", model=tiny_folder, latex="x+1")
    assert found.notes == ()
    assert found.formulas[0].decodings[0].has_raw_weights


def test_older_model_folders_without_pytorch_show_the_final_attention(
    tiny_folder, formula, tmp_path, monkeypatch
):
    def load_onnx_only(path, engine="auto", threads=None, allow_code=False):
        if engine == "pytorch":
            raise ModelError("PyTorch is not installed")
        return load_runtime(path, engine, threads, allow_code)

    monkeypatch.setattr(explain_image, "load_runtime", load_onnx_only)
    limit_onnx_attention(monkeypatch, weights=True)
    found = explain(formula, tmp_path / "out", model=tiny_folder, latex="x+1")
    (note,) = found.notes
    assert note.startswith("tiny: its decoder.onnx has attention weights after refinement only")
    assert note in found.page.read_text(encoding="utf-8")
    assert (tmp_path / "out" / "attention.gif").is_file()


def test_model_without_attention_maps_shows_its_prediction(
    tiny_folder, formula, tmp_path, monkeypatch
):
    limit_onnx_attention(monkeypatch, weights=False)
    found = explain(formula, tmp_path / "out", model=tiny_folder, latex="x+1")
    assert "no attention maps" in found.notes[0]
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
    with np.load(tmp_path / "out" / "attention.npz") as arrays:
        assert list(arrays["tokens"]) == ["}", "2", "{", "^", "x"]


def test_explain_a_checkpoint(tiny_folder, formula, tmp_path):
    model = load_model(tiny_folder)
    config = {"name": "tiny", "model": model.config.to_dict()}
    tokens = list(model.vocabulary.tokens)
    state = {f"model.{name}": value for name, value in model.state_dict().items()}
    torch.save(
        {"state_dict": state, "posformer": {"config": config, "tokens": tokens}},
        tmp_path / "last.ckpt",
    )
    found = explain(formula, tmp_path / "out", model=tmp_path / "last.ckpt", latex="x")
    assert found.formulas[0].decodings[0].has_raw_weights


def test_tree_models_are_not_explained() -> None:
    runtime = PyTorchRuntime(tiny_recurrent("san"))
    with pytest.raises(PosformerError, match="san decodes a tree"):
        force_decode(runtime, np.zeros((16, 16), np.uint8), ["x"])
