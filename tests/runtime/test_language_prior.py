"""The language model in a model folder: made by a command, exported, weighted, calibrated."""

import hashlib
import json
import shutil
from dataclasses import replace
from pathlib import Path

import cv2
import numpy as np
import pytest
from typer.testing import CliRunner

from posformer import Recognizer
from posformer.cli import app
from posformer.errors import ConfigError, ModelError
from posformer.evaluation.language_weight import WEIGHTS, choose_language_weight
from posformer.evaluation.predict import open_set
from posformer.models.model_folder import LANGUAGE
from posformer.runtime import decode_images, load_runtime
from posformer.runtime.language_prior import LanguageWeight
from posformer.search import DecodingOptions, NgramModel
from posformer.synthesis.texts import TextCorpus
from posformer.training.ngram_training import count_ngrams
from tiny import VOCABULARY, random_images

OPTIONS = DecodingOptions(beam=6, top_k=6, scales=1, adaptive=False, max_length=7)
SIZES = [(40 + number % 20, 80 + number) for number in range(24)]


@pytest.fixture(scope="module")
def lists(tiny_folder: Path) -> list[list[tuple[int, ...]]]:
    """The hypotheses for some images, best first."""
    found = decode_images(load_runtime(tiny_folder, threads=1), random_images(0, SIZES), OPTIONS)
    return [[one.tokens for one in hypotheses] for hypotheses in found]


@pytest.fixture(scope="module")
def language(lists: list[list[tuple[int, ...]]], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The file of a language model that knows the second hypotheses."""
    ids = [hypotheses[1] for hypotheses in lists]
    starts = np.cumsum([0, *map(len, ids)])
    special = len(VOCABULARY) - len(VOCABULARY.tokens)
    indices = np.concatenate(ids).astype(np.uint16) - special
    corpus = TextCorpus(VOCABULARY.tokens, indices, starts, np.zeros(len(ids), np.uint8))
    path = tmp_path_factory.mktemp("language") / LANGUAGE
    count_ngrams(corpus, [1] * 8).save(path)
    return path


@pytest.fixture
def folder(tiny_folder: Path, language: Path, tmp_path: Path) -> Path:
    """A model folder with a language model."""
    path = tmp_path / "model"
    shutil.copytree(tiny_folder, path)
    shutil.copy(language, path / LANGUAGE)
    edit(path, files={LANGUAGE: hashlib.sha256(language.read_bytes()).hexdigest()})
    return path


def edit(path: Path, **entries: dict[str, object]) -> None:
    """Add to entries of the config of a folder."""
    content = json.loads((path / "config.json").read_text())
    for name, added in entries.items():
        content[name] = {**content[name], **added}
    (path / "config.json").write_text(json.dumps(content))


def best(path: Path, engine: str = "onnx", **changes: float) -> list[tuple[int, ...]]:
    runtime = load_runtime(path, engine, threads=1)
    options = replace(OPTIONS, **{"top_k": 1, **changes})
    found = decode_images(runtime, random_images(0, SIZES), options)
    return [hypotheses[0].tokens for hypotheses in found]


@pytest.mark.parametrize("engine", ["onnx", "pytorch"])
def test_the_weight_decides_what_the_language_model_counts(folder, tiny_folder, engine):
    plain = best(tiny_folder, engine)
    assert best(folder, engine) == plain  # no weight was chosen
    assert best(folder, engine, language_weight=0.0) == plain
    weighted = best(folder, engine, language_weight=3.0)
    assert weighted != plain
    edit(folder, info={"language": {"weight": 3.0}})
    assert best(folder, engine) == weighted
    assert best(folder, engine, language_weight=0.0) == plain
    assert best(folder, engine, greedy=True) == best(tiny_folder, engine, greedy=True)


def test_it_finds_what_it_knows(folder, lists):
    found = best(folder, language_weight=3.0)
    known = [hypotheses[1] for hypotheses in lists]
    assert sum(map(tuple.__eq__, found, known)) > len(lists) / 2


def test_adaptive_search_uses_it(folder):
    edit(folder, info={"thresholds": {"margin": 2.0}})
    plain, weighted = (
        best(folder, scales=2, adaptive=True, language_weight=weight) for weight in (0.0, 3.0)
    )
    assert plain != weighted


def test_a_damaged_file_is_an_error(folder):
    (folder / LANGUAGE).write_bytes(b"no model")
    with pytest.raises(ModelError, match="damaged"):
        Recognizer.load(folder, threads=1)


def test_a_wrong_weight_is_an_error():
    with pytest.raises(ConfigError, match="language: 3 has no weight"):
        LanguageWeight.from_info({"language": 3})


def test_export_includes_it(tiny_folder, language, tmp_path):
    command = ["export", str(tiny_folder), str(tmp_path / "new"), "--language-model", str(language)]
    result = CliRunner().invoke(app, command)
    assert result.exit_code == 0, result.output
    again = CliRunner().invoke(app, ["export", str(tmp_path / "new"), str(tmp_path / "copy")])
    assert again.exit_code == 0, again.output
    model = load_runtime(tmp_path / "copy", threads=1).language
    assert model is not None and model.tokens == VOCABULARY.tokens


def write_set(folder: Path, captions: list[tuple[int, ...]]) -> Path:
    """Write the images with these captions."""
    data = folder / "data" / "made"
    (data / "img").mkdir(parents=True)
    lines = []
    for number, (image, ids) in enumerate(zip(random_images(0, SIZES), captions, strict=True)):
        cv2.imwrite(str(data / "img" / f"i{number}.bmp"), image)
        lines.append(f"i{number}\t{' '.join(VOCABULARY.decode(ids))}\n")
    (data / "caption.txt").write_text("".join(lines))
    return folder


def test_the_weight_with_most_right_results_is_chosen(folder, lists, tmp_path):
    """The truth is what the language model knows, but for a third of the images."""
    captions = [known[0 if number % 3 == 0 else 1] for number, known in enumerate(lists)]
    examples = open_set(write_set(tmp_path / "set", captions), "made")
    trial = choose_language_weight(load_runtime(folder, threads=1), [examples], OPTIONS)
    assert trial.weight > 0
    assert trial.correct[trial.weight] == max(trial.correct.values()) > trial.correct[0.0]
    assert set(trial.correct) == set(WEIGHTS) and trial.images == trial.in_list == len(lists)


def test_calibration_stores_the_weight(folder, tmp_path):
    runtime = load_runtime(folder, threads=1)
    found = decode_images(runtime, random_images(0, SIZES), DecodingOptions(scales=1))
    captions = [one.tokens[number % 2 :] for number, (one, *_) in enumerate(found)]
    write_set(tmp_path / "set", captions)
    command = ["calibrate", str(folder), "--data", str(tmp_path / "set"), "--split", "made"]
    result = CliRunner().invoke(app, [*command, "--scales", "1", "--threads", "1"])
    assert result.exit_code == 0, result.output
    info = load_runtime(folder).info
    assert info["language"].keys() == {"weight", "data"} and "made" in info["language"]["data"]
    weight = LanguageWeight.from_info(info).weight
    assert f"weight of the language model {weight:g}; right with each weight: 0: " in result.output


def test_a_command_counts_ngrams(tmp_path):
    (tmp_path / "texts.txt").write_text("x + 1\n2\ta + x\n( x )\n\\unknown + 1\n")
    VOCABULARY.save(tmp_path / "tokens.txt")
    command = ["count-ngrams", str(tmp_path / "texts.txt"), "--min-counts", "1,1,1", "--output"]
    command += [str(tmp_path / "made.safetensors"), "--vocabulary", str(tmp_path / "tokens.txt")]
    result = CliRunner().invoke(app, command)
    assert result.exit_code == 0, result.output
    assert "n-grams of up to 3 tokens, 3 texts" in result.output
    model = NgramModel.load(tmp_path / "made.safetensors").for_vocabulary(VOCABULARY)
    assert model.info == {"texts": ["texts.txt"], "count": 3, "min_counts": [1, 1, 1]}
    usual, unusual = (
        model.mean_log_probability(VOCABULARY.encode(text.split())) for text in ("x + 1", "1 ) x")
    )
    assert usual > unusual


def test_counts_must_be_numbers():
    result = CliRunner().invoke(app, ["count-ngrams", "texts.txt", "--min-counts", "1,two"])
    assert result.exit_code == 2 and "is not a list of numbers" in result.output
