"""Training examples from texts."""

from collections import Counter

import numpy as np
import pytest
from typer.testing import CliRunner

from posformer.cli import app
from posformer.data import open_images
from posformer.data.ink_dataset import InkSampler
from posformer.errors import DataError
from posformer.ink import RenderStyle
from posformer.latex.tree import parse
from posformer.synthesis.bank import SymbolBank
from posformer.synthesis.fonts import _outlined
from posformer.synthesis.glyphs import own_bank
from posformer.synthesis.sources import (
    HAND_KINDS,
    PRINT_KINDS,
    CameraSampler,
    InkWriter,
    PrintWriter,
    TextSampler,
    WeightedSampler,
    compose_lines,
)
from posformer.synthesis.texts import load_texts

TEXTS = ["x + y = 1", "\\frac { a } { b }", "x ^ { 2 }", "\\mathcal { A }", "y", "a = b + c"]


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    path = tmp_path_factory.mktemp("texts") / "texts.txt"
    path.write_text("\n".join(TEXTS))
    return load_texts([path], {token for text in TEXTS for token in text.split()})


@pytest.fixture(scope="module")
def contours():
    bank = own_bank(2, 1)
    return SymbolBank.from_samples(
        _outlined(sample) for token in sorted(bank.tokens) for sample in bank.samples(token)
    )


@pytest.fixture(params=["hands", "print", "handwriting fonts"])
def samplers(request, corpus, contours):
    """Plain examples, and subjects of the camera."""

    def open_sampler(style):
        if request.param == "hands":
            writer = InkWriter(own_bank(), InkSampler((), style))
        else:
            handwriting = request.param != "print"
            scale, margin = style.scale, style.margin[0]
            writer = PrintWriter(contours, (0.7, 1.2), scale, margin, handwriting=handwriting)
        return TextSampler(corpus.sample, writer, 10)

    return open_sampler(RenderStyle(scale=0.7)), open_sampler(RenderStyle(margin=(2, 2)))


@pytest.mark.parametrize("share", [0.0, 1.0])
def test_examples_depend_on_the_generator_only_and_have_the_promised_size(samplers, share):
    sampler = CameraSampler(*samplers, share, {**HAND_KINDS, **PRINT_KINDS}, 0.7, 20_000)
    assert len(sampler) == 10
    for index in range(12):
        first, second = (sampler.sample(index, np.random.default_rng(index)) for _ in range(2))
        image, boxes = first.render()
        assert image.shape == (first.height, first.width)
        assert image.dtype == np.uint8
        assert len(boxes) == len(first.tokens)
        assert first.tokens == second.tokens
        assert (image == second.render()[0]).all()
        if share:
            assert image.size <= 20_000
        inked = boxes[~np.isnan(boxes[:, 0])]
        assert (inked[:, 0] < inked[:, 2]).all()
        assert (inked[:, :2] >= -2).all()
        assert (inked[:, 2:] <= np.array([first.width, first.height]) + 2).all()


def test_boxes_of_photographs_follow_the_ink(corpus, contours):
    subject = TextSampler(lambda rng: ("x",), PrintWriter(contours, (1, 1), margin=2), 1)
    sampler = CameraSampler(subject, subject, 1.0, {"scan": 1.0}, 0.5)
    hits = 0
    for seed in range(10):
        image, boxes = sampler.sample(0, np.random.default_rng(seed)).render()
        left, top, right, bottom = np.rint(boxes[0]).astype(int)
        rows, columns = np.nonzero(image[top:bottom, left:right] > 100)
        # The letter fills its box, whatever rules and borders the scan shows around it.
        spans = np.ptp(rows) + 1, np.ptp(columns) + 1
        hits += spans[0] > 0.7 * (bottom - top) and spans[1] > 0.7 * (right - left)
    assert hits >= 9


def test_texts_that_cannot_be_written_are_replaced(corpus):
    writer = InkWriter(own_bank(), InkSampler(()))
    sampler = TextSampler(corpus.sample, writer, 1)
    found = {sampler.sample(0, np.random.default_rng(seed)).tokens for seed in range(40)}
    assert len(found) > 3
    assert not any("\\mathcal" in tokens for tokens in found)
    hopeless = TextSampler(lambda rng: ("\\mathcal", "{", "A", "}"), writer, 1)
    with pytest.raises(DataError, match="mathcal"):
        hopeless.sample(0, np.random.default_rng(0))


@pytest.mark.parametrize("environment", ["cases", "aligned", "pmatrix"])
def test_lines_are_composed_of_texts(environment, corpus):
    for seed in range(10):
        tokens = compose_lines(corpus, (environment,), np.random.default_rng(seed))
        nodes = parse(tokens).root.nodes
        (node,) = (node for node in nodes if node.is_environment)
        lines = node.arguments[0].lines
        assert 2 <= len(lines) <= 4
        if environment != "cases":
            assert len({len(line) for line in lines}) == 1


def test_sources_are_mixed_by_weight():
    class Named:
        def __init__(self, name):
            self.name = name

        def __len__(self):
            return 3

        def sample(self, index, rng):
            assert index < 3
            return self.name

    sampler = WeightedSampler([Named("a"), Named("b"), Named("c")], [3, 1, 0], 100)
    counts = Counter(sampler.sample(n, np.random.default_rng(n)) for n in range(400))
    assert len(sampler) == 100
    assert 260 < counts["a"] < 340
    assert counts["c"] == 0
    with pytest.raises(DataError, match="weights"):
        WeightedSampler([Named("a")], [0.0], 1)


@pytest.mark.parametrize("lines", ["1", "2-3"])
def test_command_writes_photographs_of_texts(lines, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "texts.txt").write_text("\n".join(TEXTS))
    arguments = ["synthesize", "--texts", "texts.txt", "--count", "4", "--camera", "0.5"]
    archives = [tmp_path / name for name in ("first.zip", "second.zip")]
    for archive in archives:
        result = CliRunner().invoke(app, [*arguments, "--lines", lines, "--output", str(archive)])
        assert result.exit_code == 0, result.output
    assert archives[0].read_bytes() == archives[1].read_bytes()
    images = open_images(archives[0], "synthetic")
    assert len(images) == 4
    assert all(("\\\\" in example.tokens) == (lines != "1") for example in images)


def test_command_falls_back_to_own_formulas_and_hand(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    arguments = ["synthesize", "--camera", "1", "--count", "3", "--lines", "2", "--output", "a.zip"]
    result = CliRunner().invoke(app, [*arguments, "--environments", "cases"])
    assert result.exit_code == 0, result.output
    for example in open_images(tmp_path / "a.zip", "synthetic"):
        assert "\\begin{cases}" in example.tokens
        assert example.tokens.count("\\\\") == 1


def test_options_of_the_grammar_are_refused_with_cameras(tmp_path):
    arguments = ["synthesize", "--camera", "0.5", "--count", "1", "--output", str(tmp_path / "a")]
    result = CliRunner().invoke(app, [*arguments, "--levels", "1-2"])
    assert result.exit_code == 2
    assert "--levels" in result.output
