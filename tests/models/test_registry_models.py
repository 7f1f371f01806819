"""Every published model: training, resuming, decoding; in the slow tests overfitting and export.

The models are the configs of the package, so a new model is tested as soon as it has a config. The
networks are small; `SIZES` lists the settings that make them so.
"""

import csv
import json
from dataclasses import fields
from pathlib import Path

import cv2
import pytest
import torch
from typer.testing import CliRunner

from posformer.cli import app
from posformer.data import open_images
from posformer.errors import ModelError
from posformer.evaluation import evaluate_pairs
from posformer.models.registry import MODELS, create_model
from posformer.runtime import decode_images, load_runtime
from posformer.runtime.model_export import export_model
from posformer.search import DecodingOptions
from posformer.synthesis.synthesizer import open_synthesizer, write_set
from posformer.training.trainer import train
from posformer.training.training_config import TrainingConfig, load_config
from tiny import VOCABULARY

CONFIGS = Path(__file__).parents[2] / "configs"
NOT_A_MODEL = {"crohme", "default", "frozen", "multiline"}  # other data or stages
NAMES = sorted({path.stem for path in CONFIGS.glob("*.yaml")} - NOT_A_MODEL)
PYTORCH_ONLY = {"bpd", "last", "tsdnet"}  # `posformer export` refuses these

# Upper bounds of the settings of small decoders, by name; a decoder has some of them.
SIZES = {
    "width": 48,
    "embedding": 32,
    "attention": 48,
    "heads": 4,
    "layers": 2,
    "feedforward": 96,
    "dropout": 0.0,
    "attention_dropout": 0.0,
    "counting_channels": 32,
    "counting_reduction": 8,
}
COMMON = (
    "model.image={scale: 0.5, margin: 4}",
    "model.encoder={growth: 8, layers: [2, 2, 3], dropout: 0.0}",
    "data.train=train",
    "data.validation=train",
    "data.scale_range=null",
    "batch={max_pixels: 60000, max_images: 8, workers: 0}",
    "optimizer={learning_rate: 0.006, weight_decay: 0.0, averaging: null, warmup: 1}",
    "optimizer.freeze_norms=24",
    "progress_images=0",
    "accelerator=cpu",
    "threads=1",
)


def small(name: str, data: Path, *changes: str) -> TrainingConfig:
    """Return the config of a published model with a small network and data set."""
    path = CONFIGS / f"{name}.yaml"
    decoder = load_config(path).model.decoder
    own = {field.name: getattr(decoder, field.name) for field in fields(decoder)}
    bounded = {key: min(own[key], bound) for key, bound in SIZES.items() if key in own}
    sizes = [f"model.decoder.{key}={value}" for key, value in bounded.items()]
    if "language" in own:
        sizes.append("model.decoder.language={width: 32, heads: 4, layers: 2, feedforward: 64}")
    paths = [f"data.images={data}", f"data.ink={data}"]
    return load_config(path, [*COMMON, *sizes, *paths, *changes])


@pytest.fixture(scope="module")
def examples(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A few short expressions, some with scripts."""
    path = tmp_path_factory.mktemp("few") / "few.zip"
    synthesizer = open_synthesizer(levels="0-1", max_tokens=6)
    assert len(list(write_set(path, synthesizer, 16, seed=2, split="train"))) == 16
    return path


@pytest.fixture(autouse=True)
def own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)  # caches are written there


def weights(run: str) -> dict[str, torch.Tensor]:
    stored = torch.load(Path(run, "last.ckpt"), weights_only=True)["state_dict"]
    assert all(value.isfinite().all() for value in stored.values())
    return stored


def test_every_model_of_the_registry_has_a_config() -> None:
    assert {load_config(CONFIGS / f"{name}.yaml").model.name for name in NAMES} == set(MODELS)


@pytest.mark.parametrize("name", NAMES)
def test_a_resumed_run_repeats_an_uninterrupted_one_and_decodes(name: str, examples: Path) -> None:
    changes = ["data.limit=2", "data.validation_limit=1", "optimizer.decay=none"]
    for run, lengths in (("whole", (2,)), ("halves", (1, 2))):
        for epochs in lengths:
            config = small(name, examples, *changes, f"epochs={epochs}", "validate_every=2")
            train(config, Path(run), resume=epochs > lengths[0])
    whole, halves = weights("whole"), weights("halves")
    assert all(torch.equal(value, halves[key]) for key, value in whole.items())

    runtime = load_runtime(Path("whole/last.ckpt"))
    options = DecodingOptions(beam=2, scales=1, max_length=6, top_k=2)
    ((best, *others),) = decode_images(runtime, [open_images(examples, "train").image(0)], options)
    assert len(others) <= 1 and len(best.tokens) <= 6
    assert set(runtime.vocabulary.decode(best.tokens)) <= set(runtime.vocabulary.tokens)


@pytest.mark.parametrize("name", ["abm", "can", "comer", "dwap"])
def test_the_rows_with_a_position_forest_train_and_are_evaluated(name: str, examples: Path) -> None:
    changes = ["model.position=separate", "data.limit=2", "data.validation_limit=1", "epochs=1"]
    train(small(name, examples, *changes), Path("run"))
    evaluate(Path("run/last.ckpt"), examples, "train")


@pytest.mark.parametrize("name", ["can", "last", "posformer", "san"])
def test_rows_train_on_the_layout_of_hme100k(name: str, examples: Path) -> None:
    """M2E has the same layout. There is no ink, and validation is a split of the images."""
    images = open_images(examples, "train")
    for split in ("train", "validation", "test"):
        folder = Path("set", f"{split}_images")
        folder.mkdir(parents=True)
        lines = []
        for index in range(4):
            assert cv2.imwrite(str(folder / f"{index}.jpg"), 255 - images.image(index))
            lines.append(f"{index}.jpg\t{' '.join(images[index].tokens)}\n")
        Path("set", f"{split}_labels.txt").write_text("".join(lines))
    changes = ["data.images=set", "data.ink=null", "data.validation=validation", "epochs=1"]
    train(small(name, examples, *changes), Path("run"))
    evaluate(Path("run/last.ckpt"), Path("set"), "test")


def evaluate(checkpoint: Path, data: Path, split: str) -> None:
    arguments = ["--model", checkpoint, "--data", data, "--split", split, "--limit", 2, "--greedy"]
    done = CliRunner().invoke(app, ["evaluate", *map(str, arguments), "--output", "result.json"])
    assert done.exit_code == 0, done.output
    assert json.loads(Path("result.json").read_text())["count"] == 2


@pytest.mark.parametrize("name", sorted(PYTORCH_ONLY))
def test_a_model_that_cannot_be_exported_says_so(name: str, examples: Path) -> None:
    model = create_model(small(name, examples).model, VOCABULARY)
    with pytest.raises(ModelError, match="PyTorch only"):
        export_model(model, Path("model"))


def last_row(run: Path) -> dict[str, str]:
    """Return the latest value of each logged metric."""
    (log,) = (run / "log").glob("*/metrics.csv")
    found: dict[str, str] = {}
    with log.open() as file:
        for row in csv.DictReader(file):
            found.update({name: value for name, value in row.items() if value})
    return found


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_a_small_data_set_is_overfitted(name: str, examples: Path) -> None:
    module = train(small(name, examples, "epochs=60", "validate_every=60"), Path("run"))
    logged = last_row(Path("run"))
    assert float(logged["val/exprate"]) == 100.0
    path = Path("run/last.ckpt")
    if name not in PYTORCH_ONLY:
        path = export_model(module.model, Path("model"))[0].path
    runtime, images = load_runtime(path), open_images(examples, "train")
    options = DecodingOptions(greedy=True)
    found = decode_images(runtime, [images.image(i) for i in range(len(images))], options)
    predictions = [runtime.vocabulary.decode(best[0].tokens) for best in found]
    assert evaluate_pairs([one.tokens for one in images], predictions).exprate == 100.0
