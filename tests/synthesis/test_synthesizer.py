"""Made-up sets of handwritten expressions."""

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
    path = tmp_path_factory.mktemp("made") / "set.zip"
    list(write_set(path, replace(synthesizer, levels=(1, 2, 3)), 12, seed=7))
    return path


def test_a_set_opens_like_crohme(archive):
    images = open_images(archive, "synthetic")
    assert len(images) == 12
    assert images.image(0).max() == 255


def test_levels_take_turns(archive):
    levels = [complexity(example.tokens) for example in open_images(archive, "synthetic")]
    assert levels == [1, 2, 3] * 4


def test_ink_gives_back_texts_and_images(archive):
    images = open_images(archive, "synthetic")
    by_name = {example.name: place for place, example in enumerate(images)}
    for ink in load_ink(archive, "synthetic", cache=None):
        place = by_name[ink.name]
        assert ink.tokens == images[place].tokens
    with zipfile.ZipFile(archive) as files:
        for name, place in by_name.items():
            ink = read_inkml(files.read(f"data/synthetic/inkml/{name}.inkml"))
            assert np.array_equal(render(strokes_in_pixels(ink.strokes)), images.image(place))


def test_boxes_hold_ink_and_are_null_where_there_is_none(archive):
    images = open_images(archive, "synthetic")
    with zipfile.ZipFile(archive) as files:
        boxes = json.loads(files.read("data/synthetic/boxes.json"))
    for place, example in enumerate(images):
        entry = boxes[example.name]
        assert tuple(entry["tokens"]) == example.tokens
        assert entry["level"] == complexity(example.tokens)
        image = images.image(place)
        for token, box in zip(example.tokens, entry["boxes"], strict=True):
            if token in ("^", "_", "{", "}", "\\limits"):
                assert box is None
            elif box is not None:
                left, top, right, bottom = map(int, box)
                assert image[top:bottom, left:right].any()


def test_a_seed_gives_the_same_archive_byte_for_byte(synthesizer, tmp_path):
    for name, seed in (("one", 3), ("two", 3), ("other", 4)):
        list(write_set(tmp_path / name, synthesizer, 5, seed))
    one, two, other = ((tmp_path / name).read_bytes() for name in ("one", "two", "other"))
    assert one == two != other


def test_a_longer_set_begins_with_the_shorter_one(synthesizer, tmp_path):
    short = [ink.tokens for ink in write_set(tmp_path / "a", synthesizer, 4, 1)]
    long = [ink.tokens for ink in write_set(tmp_path / "b", synthesizer, 8, 1)]
    assert long[:4] == short


def test_texts_of_a_set_are_new(synthesizer):
    rng = np.random.default_rng(0)
    first = synthesizer.make(rng, level=2).tokens
    known = replace(synthesizer, known=frozenset({first}))
    assert known.make(np.random.default_rng(0), level=2).tokens != first


def test_a_source_draws_examples_whose_size_is_known_before_they_are_rendered(synthesizer):
    source = SynthesisSampler(replace(synthesizer, levels=(2,)), length=3)
    assert len(source) == 3
    for index in range(3):
        drawing = source.sample(index, np.random.default_rng(index))
        image, boxes = drawing.render()
        assert image.shape == (drawing.height, drawing.width)
        assert boxes.shape == (len(drawing.tokens), 4)
        assert complexity(drawing.tokens) == 2


def test_a_source_takes_style_and_scale_from_its_template(synthesizer):
    def height(template):
        source = SynthesisSampler(synthesizer, 1, template)
        return source.sample(0, np.random.default_rng(5)).height

    assert height(InkSampler((), scale_range=(2.0, 2.0))) > 1.4 * height(None)


def test_symbols_and_texts_come_from_a_corpus(archive, synthesizer):
    corpus = Synthesizer.from_ink(load_ink(archive, "synthetic", cache=None))
    ink = corpus.make(np.random.default_rng(0))
    assert set(ink.tokens) <= {t for text in corpus.known for t in text}
    assert ink.writer in corpus.bank.writers


def test_the_command_line_makes_multi_line_sets_of_given_words(tmp_path):
    words = tmp_path / "words.txt"
    Vocabulary(["x", "y", "1", "2", "+", "=", "^", "_", "{", "}"]).save(words)
    output = tmp_path / "lines.zip"
    options = ["--count", "4", "--levels", "1", "--lines", "2-3", "--vocabulary", str(words)]
    result = CliRunner().invoke(app, ["synthesize", *options, "--output", str(output)])
    assert result.exit_code == 0, result.output
    for example in open_images(output, "synthetic"):
        assert example.tokens.count("\\\\") in (1, 2)
        assert set(example.tokens) <= {*Vocabulary.load(words).tokens, "\\\\"}
        assert complexity(example.tokens) == 1


def test_the_command_line_sets_lines_in_environments_and_leaves_texts_out(tmp_path):
    words = tmp_path / "words.txt"
    Vocabulary(["x", "1", "=", "+"]).save(words)
    options = ["--count", "12", "--lines", "2", "--environments", "cases,pmatrix"]
    options += ["--max-tokens", "6", "--max-symbols", "9", "--vocabulary", str(words)]
    texts = []
    for name, further in (("one", []), ("other", ["--leave-out", str(tmp_path / "one.zip")])):
        output = ["--output", str(tmp_path / f"{name}.zip")]
        result = CliRunner().invoke(app, ["synthesize", *options, *further, *output])
        assert result.exit_code == 0, result.output
        texts.append({example.tokens for example in open_images(output[1], "synthetic")})
    assert {tokens[0] for tokens in texts[0]} == {"\\begin{cases}", "\\begin{pmatrix}"}
    assert all(len(inked_places(tokens)) <= 9 for tokens in texts[0])
    assert not texts[0] & texts[1]


@pytest.mark.parametrize(("text", "found"), [("3", (3, 3)), ("1-4", (1, 4)), ("0-12", (0, 12))])
def test_ranges(text, found):
    assert read_range(text) == found


@pytest.mark.parametrize("text", ["4-1", "a", "1-", "-3", "1-2-3", ""])
def test_what_is_no_range_is_told(text):
    with pytest.raises(DataError, match="not a range"):
        read_range(text)


@pytest.mark.parametrize(("name", "split"), [("no/folder.zip", "a"), ("a.zip", "../a")])
def test_where_nothing_can_be_written_is_told(synthesizer, tmp_path, name, split):
    with pytest.raises(DataError, match=name if split == "a" else "no name"):
        list(write_set(tmp_path / name, synthesizer, 1, split=split))
    assert not list(tmp_path.iterdir())


def test_an_unfinished_set_leaves_nothing_behind(synthesizer, tmp_path):
    writing = write_set(tmp_path / "set.zip", synthesizer, 5)
    next(writing)
    writing.close()
    assert not list(tmp_path.iterdir())


def test_a_synthesizer_can_be_sent_to_another_process(synthesizer):
    again = pickle.loads(pickle.dumps(synthesizer))
    one, two = (made.make(np.random.default_rng(1)) for made in (synthesizer, again))
    assert one.tokens == two.tokens
    assert all(np.array_equal(a, b) for a, b in zip(one.strokes, two.strokes, strict=True))


def test_no_lines_at_all_is_a_mistake():
    with pytest.raises(DataError, match="lines"):
        open_synthesizer(lines="0")


@pytest.mark.slow
def test_expressions_in_real_handwriting(crohme_ink_zip):
    corpus = Synthesizer.from_ink(load_ink(crohme_ink_zip, "2013", cache=None))
    rng = np.random.default_rng(0)
    for level in (1, 2, 3, 4):
        ink = corpus.make(rng, level)
        assert complexity(ink.tokens) == level
        assert all(np.isfinite(stroke).all() for stroke in ink.strokes)
