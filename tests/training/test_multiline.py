"""Expressions of several lines, from synthesis to recognition."""

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from posformer import Recognizer
from posformer.data import load_ink, open_images
from posformer.errors import ConfigError
from posformer.evaluation import evaluate_pairs
from posformer.evaluation.predict import open_set, predict
from posformer.image.cleanup import clean
from posformer.image.lines import split_lines
from posformer.ink import natural_scale, render
from posformer.ink.alignment import in_pixels
from posformer.models.model_config import ImageConfig
from posformer.runtime import load_runtime
from posformer.search import DecodingOptions
from posformer.synthesis import lay_out, own_bank
from posformer.synthesis.synthesizer import open_synthesizer, write_set
from posformer.training.datasets import open_examples
from posformer.training.trainer import train
from posformer.training.training_config import DataConfig, MultilineConfig, load_config

ENVIRONMENTS = {
    f"\\{side}{{{name}}}" for side in ("begin", "end") for name in ("cases", "aligned", "pmatrix")
}


@pytest.fixture(scope="module")
def multiline_set(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("multiline") / "set.zip"
    synthesizer = open_synthesizer(
        lines="2-3", environments="cases,aligned,pmatrix", max_tokens=10, max_symbols=12
    )
    list(write_set(path, synthesizer, 24, seed=3, split="lines"))
    return path


@pytest.fixture
def trained(multiline_set: Path, tiny_config: Path, tmp_path: Path) -> Path:
    """A checkpoint of a very short run."""
    changes = [f"data.images={multiline_set}", "data.train=lines", "data.validation=lines"]
    changes += ["epochs=1", "validate_every=1"]
    train(load_config(tiny_config, changes), tmp_path / "run")
    return tmp_path / "run" / "last.ckpt"


def test_training_evaluation_and_recognition_of_several_lines(trained, multiline_set, tmp_path):
    runtime = load_runtime(trained, "pytorch")
    assert {"\\\\", "&"} | ENVIRONMENTS <= set(runtime.vocabulary.tokens)

    greedy = DecodingOptions(greedy=True, max_length=30)
    examples = open_set(multiline_set, "lines", limit=4)
    found = list(predict(runtime, examples, greedy))
    scores = evaluate_pairs([one.truth for one in found], [one.prediction for one in found])
    assert scores.count == 4 and scores.cer > 0

    images = open_images(multiline_set, "lines")
    every = (images.image(place) for place in range(len(images)))
    torn = next(image for image in every if len(split_lines(clean(image))) > 1)
    Image.fromarray(255 - torn).save(tmp_path / "page.png")
    assert not Recognizer(runtime).recognize(tmp_path / "page.png", greedy=True).lines


def test_ink_matches_captions_images_and_fences(multiline_set):
    images = open_images(multiline_set, "lines")
    inks = load_ink(multiline_set, "lines", cache=None)
    for place, (example, ink) in enumerate(zip(images, inks, strict=True)):
        assert (ink.name, ink.tokens) == (example.name, example.tokens)
        assert np.array_equal(render(ink.strokes), images.image(place))
        assert bool(ink.alignment[0]) == (ink.tokens[0] != "\\begin{aligned}")
        assert bool(ink.alignment[-1]) == (ink.tokens[-1] == "\\end{pmatrix}")
        assert sorted(sum(ink.alignment, ())) == list(range(len(ink.strokes)))


@pytest.mark.parametrize("fence", ["cases", "pmatrix"])
def test_fences_do_not_affect_the_scale(fence):
    tokens = f"\\begin{{{fence}}} x + y = 1 \\\\ x - y = 2 \\\\ y = 3 \\end{{{fence}}}".split()
    ink = lay_out(tokens, own_bank(), np.random.default_rng(0))
    inside = [stroke for strokes in ink.alignment[1:-1] for stroke in strokes]
    alone = natural_scale([ink.strokes[stroke] for stroke in inside])
    sized = in_pixels(ink)
    for stroke in inside:
        wide, tall = np.ptp(ink.strokes[stroke], axis=0) * alone
        assert np.allclose(np.ptp(sized.strokes[stroke], axis=0), (wide, tall), atol=1.0)
    assert natural_scale(ink.strokes) < 0.95 * alone


def test_training_synthesizes_no_validation_expressions(multiline_set, own_set):
    config = DataConfig(
        images=str(multiline_set),
        validation="lines",
        ink=str(own_set),
        train="train",
        source="ink",
        synthesis=1.0,
        multiline=MultilineConfig(max_tokens=10, max_symbols=12),
        examples=40,
    )
    examples = open_examples(config, ImageConfig(scale=0.5))
    assert len(examples.train) == 40
    held_out = {example.tokens for example in open_images(multiline_set, "lines")}
    rng = np.random.default_rng(0)
    sampled = [examples.train.sample(number, rng).tokens for number in range(40)]
    assert not held_out & set(sampled)
    assert all(examples.vocabulary.encode(tokens) for tokens in sampled)
    assert set(examples.vocabulary.tokens) >= ENVIRONMENTS


def test_a_vocabulary_file_must_have_the_tokens_of_lines(own_set, tmp_path):
    tokens = tmp_path / "tokens.txt"
    tokens.write_text("a\nb\nx\n1\n2\n+\n=\n{\n}\n^\n_\n\\\\\n&\n")
    config = DataConfig(
        images=str(own_set),
        validation="train",
        ink=str(own_set),
        source="ink",
        vocabulary=str(tokens),
        synthesis=1.0,
        multiline=MultilineConfig(environments=("cases",)),
    )
    with pytest.raises(ConfigError, match=r"tokens\.txt: lacks '\\begin\{cases\}'"):
        open_examples(config, ImageConfig())
