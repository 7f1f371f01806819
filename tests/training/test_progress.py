"""Training can be watched: sheets of predictions and learning curves, which change nothing."""

import csv
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from posformer.training import progress
from posformer.training.contact_sheet import Example, draw_sheet
from posformer.training.curves import Curves, draw_curves, read_curves
from posformer.training.trainer import train
from posformer.training.training_config import load_config

SHORT = ["epochs=2", "validate_every=1", "optimizer.averaging=0.9"]


# Runs


def test_every_validation_leaves_images(tiny_config: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    train(load_config(tiny_config, [*SHORT, "epochs=1"]), run)
    train(load_config(tiny_config, SHORT), run, resume=True)
    sheets = sorted(file.name for file in (run / "predictions").iterdir())
    assert sheets == ["epoch-001.png", "epoch-002.png"]
    with Image.open(run / "curves.png") as curves:
        assert curves.width > curves.height > 300
    events = EventAccumulator(str(run / "curves")).Reload()
    for tag in ("curves", "validation/predictions"):
        steps = [image.step for image in events.Images(tag)]
        assert len(steps) == 2 and steps[1] == 2 * steps[0] > 0, tag
    joined = read_curves(run / "log")
    assert len(joined.values["val/exprate"][0]) == 2
    assert len(joined.starts) == 1


def test_a_run_is_the_same_with_images_and_without(tiny_config: Path, tmp_path: Path) -> None:
    ends = []
    for count in (0, 5):
        run = tmp_path / str(count)
        train(load_config(tiny_config, [*SHORT, f"progress_images={count}"]), run)
        assert (run / "curves.png").exists() == (run / "predictions").exists() == bool(count)
        ends.append(torch.load(run / "last.ckpt", weights_only=True)["state_dict"])
    for name, value in ends[0].items():
        assert torch.equal(value, ends[1][name]), name


def test_what_cannot_be_drawn_is_told_once_and_does_not_end_the_run(
    tiny_config: Path, tmp_path: Path, capsys: pytest.CaptureFixture, monkeypatch
) -> None:
    def missing(*_: object) -> None:
        raise ModuleNotFoundError("No module named 'matplotlib'")

    monkeypatch.setattr(progress, "draw_curves", missing)
    train(load_config(tiny_config, SHORT), tmp_path / "run")
    told = [line for line in capsys.readouterr().out.splitlines() if "draws no" in line]
    assert len(told) == 1
    assert told[0].endswith("draws no curves from here on: No module named 'matplotlib'")
    assert not (tmp_path / "run" / "curves.png").exists()
    assert len(list((tmp_path / "run" / "predictions").iterdir())) == 2


@pytest.mark.slow
def test_averaged_weights_are_shown_as_they_are_measured(
    tiny_config: Path, tmp_path: Path, monkeypatch
) -> None:
    """The sheet over the whole validation set has as many right as ExpRate says."""
    counted = []
    inner = progress.draw_sheet

    def draw(examples: list[Example], title: str) -> np.ndarray:
        counted.append(100 * sum(example.is_right for example in examples) / len(examples))
        return inner(examples, title)

    monkeypatch.setattr(progress, "draw_sheet", draw)
    changes = ["epochs=24", "validate_every=12", "optimizer.averaging=0.9", "progress_images=64"]
    train(load_config(tiny_config, changes), tmp_path / "run")
    measured = read_curves(tmp_path / "run" / "log").values["val/exprate"][1]
    assert counted == pytest.approx(measured.tolist())
    assert measured[-1] > 0


# Curves


def write_log(folder: Path, rows: list[dict[str, object]]) -> None:
    folder.mkdir(parents=True)
    with (folder / "metrics.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, ["epoch", "step", "train/loss", "val/loss"])
        writer.writeheader()
        writer.writerows(rows)


def points(curves: Curves, name: str) -> list[tuple[int, float]]:
    steps, values = curves.values[name]
    return list(zip(steps.tolist(), values.tolist(), strict=True))


def test_several_starts_are_one_curve(tmp_path: Path) -> None:
    write_log(
        tmp_path / "version_0",
        [
            {"step": 19, "train/loss": 4},
            {"step": 39, "train/loss": 3, "epoch": 0},
            {"step": 40, "val/loss": 2},
            {"step": 59, "train/loss": 9},  # behind the checkpoint that the next start went on from
        ],
    )
    write_log(tmp_path / "version_2", [])  # killed before anything was logged
    rows = [{"step": 59, "train/loss": 2.5}, {"step": 79, "train/loss": 2}]
    write_log(tmp_path / "version_10", [*rows, {"step": 80, "val/loss": 1}])
    write_log(tmp_path / "version_3", [{"step": 59, "train/loss": 7}])
    curves = read_curves(tmp_path)
    assert points(curves, "train/loss") == [(19, 4), (39, 3), (59, 2.5), (79, 2)]
    assert points(curves, "val/loss") == [(40, 2), (80, 1)]
    assert curves.starts == (59,)


def test_a_line_that_a_killed_run_did_not_finish_is_no_error(tmp_path: Path) -> None:
    write_log(tmp_path / "version_0", [{"step": 19, "train/loss": 4}])
    with (tmp_path / "version_0" / "metrics.csv").open("a") as file:
        file.write("0,39,nan,\n1,5")
    curves = read_curves(tmp_path)
    assert points(curves, "train/loss") == [(19, 4)]


def test_curves_of_nothing_can_be_drawn(tmp_path: Path) -> None:
    image = draw_curves(read_curves(tmp_path))
    assert image.dtype == np.uint8 and image.shape[2] == 3


# Sheets


def has_colour(image: np.ndarray, red: int, green: int, blue: int) -> bool:
    return bool((image == (red, green, blue)).all(axis=2).any())


def test_right_is_green_wrong_is_red_and_what_differs_is_marked() -> None:
    ink = np.zeros((40, 90), np.uint8)
    ink[10:30, 10:80] = 255
    green, red, missing, extra = (36, 138, 72), (196, 38, 38), (250, 222, 160), (252, 214, 212)
    right = draw_sheet([Example(ink, ("x", "+", "1"), ("x", "+", "1"))], "one")
    assert [has_colour(right, *c) for c in (green, red, missing, extra)] == [True] + [False] * 3
    lacks = draw_sheet([Example(ink, ("x", "+", "1"), ("x", "1"))], "one")
    assert [has_colour(lacks, *c) for c in (green, red, missing, extra)] == [
        False,
        True,
        True,
        False,
    ]
    other = draw_sheet([Example(ink, ("x",), ("y",))], "one")
    assert [has_colour(other, *c) for c in (green, red, missing, extra)] == [
        False,
        True,
        True,
        True,
    ]
    assert has_colour(draw_sheet([Example(ink, ("x",), ())], "nothing read"), *red)


def test_cards_stand_in_columns() -> None:
    ink = np.zeros((40, 90), np.uint8)
    one, four = (draw_sheet([Example(ink, ("x",), ("x",))] * count, "") for count in (1, 4))
    assert four.shape[1] > 2 * one.shape[1]
    assert four.shape[0] > one.shape[0]
