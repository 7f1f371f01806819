"""Several sources of training examples in one config."""

from collections import Counter

import numpy as np
import pytest

from posformer.data.ink_dataset import InkSampler
from posformer.errors import ConfigError
from posformer.ink.alignment import in_pixels
from posformer.latex import Vocabulary
from posformer.models.model_config import ImageConfig, from_dict
from posformer.synthesis.glyphs import own_bank
from posformer.synthesis.layout import lay_out
from posformer.training.data_mix import mix_sources
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
