"""Several sources of training examples in one config."""

from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from posformer.data.ink_dataset import InkSampler
from posformer.errors import ConfigError
from posformer.ink.alignment import in_pixels
from posformer.latex import Vocabulary
from posformer.models.model_config import ImageConfig, from_dict
from posformer.synthesis.glyphs import own_bank
from posformer.synthesis.layout import lay_out
from posformer.training.data_mix import held_out_texts, mix_sources
from posformer.training.datasets import photo_validation
from posformer.training.training_config import DataConfig, SourceConfig

TEXTS = ["x + y = 1", "\\frac { a } { b }", "x ^ { 2 }", "y", "a = b", "\\hat { x }"]
LINES = ["\\\\", "&", "\\begin{cases}", "\\end{cases}"]
IMAGE = ImageConfig(scale=0.7, margin=4, max_pixels=30_000)


@pytest.fixture
def config(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "texts.txt").write_text("\n".join(TEXTS))
    sources = [
        {"kind": "ink", "weight": 1, "camera": 0.5},
        {"kind": "hands", "weight": 2, "camera": 0.5},
        {"kind": "lines", "weight": 1},
    ]
    return from_dict(DataConfig, {"sources": sources, "texts": ["texts.txt"], "distortion": 0.5})


@pytest.fixture
def inks():
    texts = ["\\{ x + 1 = y - 2 \\}", "\\frac { a } { b }"]
    rng = np.random.default_rng(0)
    return [in_pixels(lay_out(text.split(), own_bank(), rng, name="ink")) for text in texts]


def _open(config, inks, extra=LINES):
    vocabulary = Vocabulary(sorted({token for text in TEXTS for token in text.split()} | {*extra}))
    return mix_sources(config, inks, IMAGE, InkSampler(inks), vocabulary)


def test_examples_come_from_all_sources(config, inks):
    sampler = _open(config, inks)
    assert len(sampler) == 2
    kinds = Counter()
    for seed in range(60):
        sample = sampler.sample(seed % 2, np.random.default_rng(seed))
        image, boxes = sample.render()
        assert image.shape == (sample.height, sample.width)
        assert len(boxes) == len(sample.tokens)
        lines = "\\begin{cases}" in sample.tokens
        kinds["lines" if lines else "ink" if sample.name == "ink" else "hands"] += 1
    assert min(kinds[kind] for kind in ("ink", "hands", "lines")) > 5


def _sampled_texts(texts):
    Path("texts.txt").write_text("\n".join(texts))
    source = from_dict(
        DataConfig, {"sources": [{"kind": "hands"}], "texts": ["texts.txt"], "examples": 1}
    )
    vocabulary = Vocabulary(sorted({token for text in texts for token in text.split()} | {*"xz"}))
    sampler = mix_sources(source, [], IMAGE, InkSampler([]), vocabulary)
    return Counter(
        " ".join(sampler.sample(0, np.random.default_rng(seed)).tokens) for seed in range(200)
    )


def test_letters_that_do_not_show_their_case_are_mostly_lower_case(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    found = _sampled_texts(["X ^ { 2 }", "A + Z"])
    assert found["x ^ { 2 }"] > 2 * found["X ^ { 2 }"] > 0
    assert found["A + Z"] and not found["A + z"]  # the A shows how tall a capital is


def test_examples_are_reproducible(config, inks):
    first, second = _open(config, inks), _open(config, inks)
    for seed in range(10):
        images = [one.sample(0, np.random.default_rng(seed)).render()[0] for one in (first, second)]
        assert (images[0] == images[1]).all()


@pytest.mark.parametrize(
    ("source", "extra", "message"),
    [("print", LINES, "data.fonts"), ("lines", (), "data.vocabulary")],
)
def test_missing_data_are_reported(config, inks, source, extra, message):
    only = from_dict(DataConfig, {"sources": [{"kind": source}], "texts": list(config.texts)})
    with pytest.raises(ConfigError, match=message):
        _open(only, inks, extra)
    without = DataConfig(sources=(SourceConfig("hands"),))
    with pytest.raises(ConfigError, match=r"data\.texts"):
        _open(without, inks)


def test_texts_of_further_sets_are_held_out(config, tmp_path):
    (tmp_path / "photos" / "img").mkdir(parents=True)
    Image.new("L", (40, 40), 255).save(tmp_path / "photos/img/p1.png")
    (tmp_path / "photos/labels.tsv").write_text("name\tkind\ttokens\np1\tscan\t{ x } ^ 2\n")
    for option in ("held_out", "validation_photos"):
        with_photos = replace(config, **{option: ("photos",)})
        assert held_out_texts(with_photos) == [("{", "x", "}", "^", "2")]
    with pytest.raises(ConfigError, match=r"data\.held_out: texts has no captions"):
        (tmp_path / "texts").mkdir()
        held_out_texts(replace(config, held_out=("texts",)))


def test_validation_photographs_by_kind(tmp_path):
    (tmp_path / "photos" / "img").mkdir(parents=True)
    image = np.full((200, 300), 200, np.uint8)
    image[50:150, 140:150] = 30
    labels = ["name\tkind\ttokens\tsource"]
    for name, kind in (("p1", "scan"), ("p2", "print"), ("p3", "scan")):
        Image.fromarray(image).save(tmp_path / f"photos/img/{name}.png")
        labels.append(f"{name}\t{kind}\t1\ta")
    (tmp_path / "photos/labels.tsv").write_text("\n".join(labels))
    config = DataConfig(validation_photos=(str(tmp_path / "photos"),))
    found = photo_validation(config, replace(IMAGE, preprocessing="grey"))
    assert {kind: len(sampler) for kind, sampler in found.items()} == {"print": 1, "scan": 2}
    sample = found["scan"].sample(1, np.random.default_rng(0))
    assert sample.name == "p3" and sample.height < 40  # a symbol of 30 pixels at scale 0.7
    twice = replace(config, validation_photos=2 * config.validation_photos)
    with pytest.raises(ConfigError, match="more than one has kind 'print'"):
        photo_validation(twice, IMAGE)
