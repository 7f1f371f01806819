"""Training runs on a small synthetic data set: overfitting, resuming, errors."""

import csv
import signal
from pathlib import Path

import pytest
import torch
from processes import examples_seen, stop_run

from posformer.data import open_images
from posformer.errors import ConfigError
from posformer.evaluation import evaluate_pairs
from posformer.models.checkpoint import load_model
from posformer.runtime import decode_images, load_runtime
from posformer.search import DecodingOptions
from posformer.training.trainer import train
from posformer.training.training_config import load_config

GREEDY = DecodingOptions(greedy=True)


def exprate(model: Path, data: Path, options: DecodingOptions = GREEDY) -> float:
    """Return the ExpRate on the training images, in percent."""
    runtime, images = load_runtime(model, engine="pytorch"), open_images(data, "train")
    found = decode_images(runtime, [images.image(i) for i in range(len(images))], options)
    predictions = [runtime.vocabulary.decode(best[0].tokens) if best else [] for best in found]
    return evaluate_pairs([example.tokens for example in images], predictions).exprate


def weights(run: Path) -> dict[str, torch.Tensor]:
    return torch.load(run / "last.ckpt", weights_only=True)["state_dict"]


@pytest.mark.slow
def test_a_tiny_model_overfits_after_resuming(
    tiny_config: Path, own_set: Path, tmp_path: Path
) -> None:
    train(load_config(tiny_config, ["epochs=20"]), tmp_path / "run")
    early = exprate(tmp_path / "run" / "last.ckpt", own_set)
    train(load_config(tiny_config), tmp_path / "run", resume=True)
    assert exprate(tmp_path / "run" / "last.ckpt", own_set) == 100.0 > early
    assert (
        exprate(tmp_path / "run" / "last.ckpt", own_set, DecodingOptions(beam=3, scales=1)) == 100.0
    )
    logs = sorted((tmp_path / "run" / "log").glob("*/metrics.csv"))
    assert len(logs) == 2  # one per start
    with logs[-1].open() as file:
        measured = [row["val/exprate"] for row in csv.DictReader(file) if row["val/exprate"]]
    # Validation is teacher-forced; it must agree with decoding.
    assert float(measured[-1]) == 100.0


RESUMED = (
    "epochs=3",
    "validate_every=2",
    "optimizer.averaging=0.9",
    "data.scale_range=[0.8,1.2]",
    "batch.corruption=0.1",
    "batch.max_images=4",
    "checkpoint_minutes=0.0001",  # after every step
)


def test_a_run_stopped_in_mid_epoch_ends_with_the_same_weights(
    tiny_config: Path, tmp_path: Path
) -> None:
    config = load_config(tiny_config, RESUMED)
    train(config, tmp_path / "whole")
    whole = weights(tmp_path / "whole")
    for how in (signal.SIGKILL, signal.SIGINT):
        run = tmp_path / how.name
        stop_run(how, 68, tiny_config, run, *RESUMED)
        assert 64 < examples_seen(run / "last.ckpt") < 3 * 64
        train(config, run, resume=True)
        for name, value in weights(run).items():
            assert torch.equal(value, whole[name]), (how.name, name)


def test_a_loss_that_is_not_finite_ends_the_run(tiny_config: Path, tmp_path: Path) -> None:
    config = load_config(tiny_config, ["optimizer.learning_rate=1e30", "optimizer.warmup=0"])
    with pytest.raises(ConfigError, match=r"loss is (nan|inf) in epoch 0, step \d+.*examples:"):
        train(config, tmp_path / "run")


def test_an_existing_run_is_not_overwritten(tiny_config: Path, tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "last.ckpt").write_bytes(b"precious")
    with pytest.raises(ConfigError, match="resume it"):
        train(load_config(tiny_config), tmp_path / "run")
    assert (tmp_path / "run" / "last.ckpt").read_bytes() == b"precious"


def test_resuming_needs_a_checkpoint(tiny_config: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="nothing to resume"):
        train(load_config(tiny_config), tmp_path / "run", resume=True)


def test_fine_tuning_extends_the_vocabulary_of_a_model(
    tiny_config: Path, own_set: Path, tmp_path: Path
) -> None:
    from posformer.latex import Vocabulary
    from posformer.models.checkpoint import save_model
    from posformer.models.posformer import PosFormer

    config = load_config(tiny_config, ["epochs=1"])
    known = Vocabulary(["1", "+", "strange"])
    torch.manual_seed(0)
    save_model(PosFormer(config.model, known), tmp_path / "start")
    train(config, tmp_path / "run", init=tmp_path / "start")
    tuned = load_model(tmp_path / "run" / "last.ckpt")
    assert tuned.vocabulary.tokens[:3] == known.tokens
    assert len(tuned.vocabulary) > len(known)
