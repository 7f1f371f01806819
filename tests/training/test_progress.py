"""Contact sheets and learning curves during training; they do not change the training."""

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


def test_every_validation_writes_images(tiny_config: Path, tmp_path: Path) -> None:
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


def test_images_do_not_change_the_training(tiny_config: Path, tmp_path: Path) -> None:
    ends = []
    for count in (0, 5):
        run = tmp_path / str(count)
        train(load_config(tiny_config, [*SHORT, f"progress_images={count}"]), run)
        assert (run / "curves.png").exists() == (run / "predictions").exists() == bool(count)
        ends.append(torch.load(run / "last.ckpt", weights_only=True)["state_dict"])
    for name, value in ends[0].items():
        assert torch.equal(value, ends[1][name]), name


def test_plot_errors_are_printed_once_and_do_not_stop_the_training(
    tiny_config: Path, tmp_path: Path, capsys: pytest.CaptureFixture, monkeypatch
) -> None:
    def missing(*_: object) -> None:
        raise ModuleNotFoundError("No module named 'matplotlib'")

    monkeypatch.setattr(progress, "draw_curves", missing)
    train(load_config(tiny_config, SHORT), tmp_path / "run")
    printed = [line for line in capsys.readouterr().out.splitlines() if "no longer plotted" in line]
    assert len(printed) == 1
    assert printed[0].endswith("curves are no longer plotted: No module named 'matplotlib'")
    assert not (tmp_path / "run" / "curves.png").exists()
    assert len(list((tmp_path / "run" / "predictions").iterdir())) == 2


@pytest.mark.slow
def test_sheets_use_the_averaged_weights(tiny_config: Path, tmp_path: Path, monkeypatch) -> None:
    """The share of correct examples on a sheet of the validation set is ExpRate."""
    counted = []
    inner = progress.draw_sheet

    def draw(examples: list[Example], title: str) -> np.ndarray:
        counted.append(100 * sum(example.is_correct for example in examples) / len(examples))
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


def test_starts_are_joined_into_one_curve(tmp_path: Path) -> None:
    write_log(
        tmp_path / "version_0",
        [
            {"step": 19, "train/loss": 4},
            {"step": 39, "train/loss": 3, "epoch": 0},
            {"step": 40, "val/loss": 2},
            {"step": 59, "train/loss": 9},  # after the checkpoint that the next start resumed from
        ],
    )
    write_log(tmp_path / "version_2", [])  # killed before the first record
    rows = [{"step": 59, "train/loss": 2.5}, {"step": 79, "train/loss": 2}]
    write_log(tmp_path / "version_10", [*rows, {"step": 80, "val/loss": 1}])
    write_log(tmp_path / "version_3", [{"step": 59, "train/loss": 7}])
    curves = read_curves(tmp_path)
    assert points(curves, "train/loss") == [(19, 4), (39, 3), (59, 2.5), (79, 2)]
    assert points(curves, "val/loss") == [(40, 2), (80, 1)]
    assert curves.starts == (59,)


def test_truncated_log_is_read(tmp_path: Path) -> None:
    write_log(tmp_path / "version_0", [{"step": 19, "train/loss": 4}])
    with (tmp_path / "version_0" / "metrics.csv").open("a") as file:
        file.write("0,39,nan,\n1,5")
    curves = read_curves(tmp_path)
    assert points(curves, "train/loss") == [(19, 4)]


def test_curves_without_data_are_plotted(tmp_path: Path) -> None:
    image = draw_curves(read_curves(tmp_path))
    assert image.dtype == np.uint8 and image.shape[2] == 3


# Sheets


def has_colour(image: np.ndarray, red: int, green: int, blue: int) -> bool:
    return bool((image == (red, green, blue)).all(axis=2).any())


def test_colors_mark_correct_and_wrong_examples_and_tokens() -> None:
    ink = np.zeros((40, 90), np.uint8)
    ink[10:30, 10:80] = 255
    colors = (0, 114, 178), (192, 79, 0), (217, 236, 248), (253, 230, 211)
    _, wrong, *_ = colors  # correct, wrong, expected token, wrong token
    right = draw_sheet([Example(ink, ("x", "+", "1"), ("x", "+", "1"))], "one")
    assert [has_colour(right, *c) for c in colors] == [True] + [False] * 3
    lacks = draw_sheet([Example(ink, ("x", "+", "1"), ("x", "1"))], "one")
    assert [has_colour(lacks, *c) for c in colors] == [
        False,
        True,
        True,
        False,
    ]
    other = draw_sheet([Example(ink, ("x",), ("y",))], "one")
    assert [has_colour(other, *c) for c in colors] == [
        False,
        True,
        True,
        True,
    ]
    assert has_colour(draw_sheet([Example(ink, ("x",), ())], "empty"), *wrong)


def test_images_are_visible() -> None:
    """The ink of the image adds black pixels to the card."""
    blank, ink = np.zeros((40, 90), np.uint8), np.full((40, 90), 255, np.uint8)
    black = [
        (draw_sheet([Example(image, ("x",), ("x",))], "") == 0).all(axis=2).sum()
        for image in (blank, ink)
    ]
    assert black[0] == 0 and black[1] > 40 * 90


def test_cards_are_in_columns() -> None:
    ink = np.zeros((40, 90), np.uint8)
    one, four = (draw_sheet([Example(ink, ("x",), ("x",))] * count, "") for count in (1, 4))
    assert four.shape[1] > 2 * one.shape[1]
    assert four.shape[0] > one.shape[0]
