"""Synthetic datasets."""

import json
import pickle
import zipfile
from dataclasses import replace

import numpy as np
import pytest
from typer.testing import CliRunner

from posformer.cli import app
from posformer.data import open_images
from posformer.data.ink_dataset import InkSampler, load_ink
from posformer.errors import DataError
from posformer.ink.alignment import inked_places
from posformer.ink.inkml import read_inkml
from posformer.ink.render import render, strokes_in_pixels
from posformer.latex import Vocabulary, complexity
from posformer.synthesis.synthesizer import (
    SynthesisSampler,
    Synthesizer,
    open_synthesizer,
    read_range,
    write_set,
)


@pytest.fixture(scope="module")
def synthesizer() -> Synthesizer:
    return Synthesizer.own()


@pytest.fixture(scope="module")
def archive(synthesizer, tmp_path_factory):
    path = tmp_path_factory.mktemp("synthetic") / "set.zip"
    list(write_set(path, replace(synthesizer, levels=(1, 2, 3)), 12, seed=7))
    return path


def test_archive_opens_like_crohme(archive):
    images = open_images(archive, "synthetic")
    assert len(images) == 12
    assert images.image(0).max() == 255


def test_nested_levels_alternate(archive):
    levels = [complexity(example.tokens) for example in open_images(archive, "synthetic")]
    assert levels == [1, 2, 3] * 4


def test_ink_reproduces_texts_and_images(archive):
    images = open_images(archive, "synthetic")
    by_name = {example.name: index for index, example in enumerate(images)}
    for ink in load_ink(archive, "synthetic", cache=None):
        assert ink.tokens == images[by_name[ink.name]].tokens
    with zipfile.ZipFile(archive) as files:
        for name, index in by_name.items():
            ink = read_inkml(files.read(f"data/synthetic/inkml/{name}.inkml"))
            assert np.array_equal(render(strokes_in_pixels(ink.strokes)), images.image(index))


def test_boxes_contain_ink_or_are_null(archive):
    images = open_images(archive, "synthetic")
    with zipfile.ZipFile(archive) as files:
        boxes = json.loads(files.read("data/synthetic/boxes.json"))
    for index, example in enumerate(images):
        entry = boxes[example.name]
        assert tuple(entry["tokens"]) == example.tokens
        assert entry["level"] == complexity(example.tokens)
        image = images.image(index)
        for token, box in zip(example.tokens, entry["boxes"], strict=True):
            if token in ("^", "_", "{", "}", "\\limits"):
                assert box is None
            elif box is not None:
                left, top, right, bottom = map(int, box)
                assert image[top:bottom, left:right].any()


def test_archive_is_reproducible_byte_for_byte(synthesizer, tmp_path):
    for name, seed in (("one", 3), ("two", 3), ("other", 4)):
        list(write_set(tmp_path / name, synthesizer, 5, seed))
    one, two, other = ((tmp_path / name).read_bytes() for name in ("one", "two", "other"))
    assert one == two != other


def test_longer_dataset_begins_with_the_shorter_one(synthesizer, tmp_path):
    short = [ink.tokens for ink in write_set(tmp_path / "a", synthesizer, 4, 1)]
    long = [ink.tokens for ink in write_set(tmp_path / "b", synthesizer, 8, 1)]
    assert long[:4] == short


def test_known_texts_are_avoided(synthesizer):
    rng = np.random.default_rng(0)
    first = synthesizer.make(rng, level=2).tokens
    known = replace(synthesizer, known=frozenset({first}))
    assert known.make(np.random.default_rng(0), level=2).tokens != first


def test_rendered_size_matches_the_sample(synthesizer):
    sampler = SynthesisSampler(replace(synthesizer, levels=(2,)), length=3)
    assert len(sampler) == 3
    for index in range(3):
        sample = sampler.sample(index, np.random.default_rng(index))
        image, boxes = sample.render()
        assert image.shape == (sample.height, sample.width)
        assert boxes.shape == (len(sample.tokens), 4)
        assert complexity(sample.tokens) == 2


def test_sampler_uses_the_scale_of_its_template(synthesizer):
    def height(template):
        sampler = SynthesisSampler(synthesizer, 1, template)
        return sampler.sample(0, np.random.default_rng(5)).height

    assert height(InkSampler((), scale_range=(2.0, 2.0))) > 1.4 * height(None)


def test_symbols_and_texts_of_a_corpus(archive, synthesizer):
    corpus = Synthesizer.from_ink(load_ink(archive, "synthetic", cache=None))
    ink = corpus.make(np.random.default_rng(0))
    assert set(ink.tokens) <= {t for text in corpus.known for t in text}
    assert ink.writer in corpus.bank.writers


def test_synthesize_command_with_lines_and_vocabulary(tmp_path):
    vocabulary = tmp_path / "vocabulary.txt"
    Vocabulary(["x", "y", "1", "2", "+", "=", "^", "_", "{", "}"]).save(vocabulary)
    output = tmp_path / "lines.zip"
    options = ["--count", "4", "--levels", "1", "--lines", "2-3", "--vocabulary", str(vocabulary)]
    result = CliRunner().invoke(app, ["synthesize", *options, "--output", str(output)])
    assert result.exit_code == 0, result.output
    for example in open_images(output, "synthetic"):
        assert example.tokens.count("\\\\") in (1, 2)
        assert set(example.tokens) <= {*Vocabulary.load(vocabulary).tokens, "\\\\"}
        assert complexity(example.tokens) == 1


def test_synthesize_command_with_environments_and_leave_out(tmp_path):
    vocabulary = tmp_path / "vocabulary.txt"
    Vocabulary(["x", "1", "=", "+"]).save(vocabulary)
    options = ["--count", "12", "--lines", "2", "--environments", "cases,pmatrix"]
    options += ["--max-tokens", "6", "--max-symbols", "9", "--vocabulary", str(vocabulary)]
    texts = []
    for name, further in (("one", []), ("other", ["--leave-out", str(tmp_path / "one.zip")])):
        output = ["--output", str(tmp_path / f"{name}.zip")]
        result = CliRunner().invoke(app, ["synthesize", *options, *further, *output])
        assert result.exit_code == 0, result.output
        texts.append({example.tokens for example in open_images(output[1], "synthetic")})
    assert {tokens[0] for tokens in texts[0]} == {"\\begin{cases}", "\\begin{pmatrix}"}
    assert all(len(inked_places(tokens)) <= 9 for tokens in texts[0])
    assert not texts[0] & texts[1]


@pytest.mark.parametrize(("text", "expected"), [("3", (3, 3)), ("1-4", (1, 4)), ("0-12", (0, 12))])
def test_read_range(text, expected):
    assert read_range(text) == expected


@pytest.mark.parametrize("text", ["4-1", "a", "1-", "-3", "1-2-3", ""])
def test_invalid_range_is_an_error(text):
    with pytest.raises(DataError, match="not a range"):
        read_range(text)


@pytest.mark.parametrize(("name", "split"), [("no/folder.zip", "a"), ("a.zip", "../a")])
def test_unwritable_archive_is_an_error(synthesizer, tmp_path, name, split):
    with pytest.raises(DataError, match=name if split == "a" else "invalid split name"):
        list(write_set(tmp_path / name, synthesizer, 1, split=split))
    assert not list(tmp_path.iterdir())


def test_unfinished_archive_leaves_no_files(synthesizer, tmp_path):
    writing = write_set(tmp_path / "set.zip", synthesizer, 5)
    next(writing)
    writing.close()
    assert not list(tmp_path.iterdir())


def test_synthesizer_can_be_pickled(synthesizer):
    again = pickle.loads(pickle.dumps(synthesizer))
    one, two = (each.make(np.random.default_rng(1)) for each in (synthesizer, again))
    assert one.tokens == two.tokens
    assert all(np.array_equal(a, b) for a, b in zip(one.strokes, two.strokes, strict=True))


def test_zero_lines_is_an_error():
    with pytest.raises(DataError, match="lines"):
        open_synthesizer(lines="0")


@pytest.mark.slow
def test_expressions_in_crohme_handwriting(crohme_ink_zip):
    corpus = Synthesizer.from_ink(load_ink(crohme_ink_zip, "2013", cache=None))
    rng = np.random.default_rng(0)
    for level in (1, 2, 3, 4):
        ink = corpus.make(rng, level)
        assert complexity(ink.tokens) == level
        assert all(np.isfinite(stroke).all() for stroke in ink.strokes)
