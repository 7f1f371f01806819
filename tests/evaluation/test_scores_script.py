"""scripts/scores.py: predictions are kept, so that a run continues; tables have intervals."""

import importlib.util
import json
import shutil
import sys
from pathlib import Path
from types import ModuleType

import cv2
import numpy as np
import pytest

from posformer.evaluation import Prediction, read_predictions, write_predictions
from posformer.models.model_folder import open_folder, store_info

SCRIPT = Path(__file__).parents[2] / "scripts" / "scores.py"


@pytest.fixture(scope="module")
def scores() -> ModuleType:
    spec = importlib.util.spec_from_file_location("scores_script", SCRIPT)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["scores_script"] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Six photographs of two sources."""
    folder = tmp_path / "data" / "photos" / "dev"
    (folder / "img").mkdir(parents=True)
    lines = ["name\tkind\ttokens\tsource"]
    for number in range(6):
        page = np.full((90, 160), 235, np.uint8)
        cv2.circle(page, (40 + 9 * number, 45), 20, 40, 3)
        cv2.imwrite(str(folder / "img" / f"p{number}.png"), page)
        lines.append(f"p{number}\tscan\tx + {number % 3}\ts{number % 2}")
    (folder / "labels.tsv").write_text("\n".join(lines) + "\n")
    return tmp_path / "data"


def test_a_run_continues_and_writes_tables(
    scores: ModuleType,
    data: Path,
    tiny_folder: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    arguments = ["scores.py", "--model", str(tiny_folder), "--data", str(data)]
    arguments += ["--output", str(tmp_path / "scores"), "--parts", "photos", "print"]
    monkeypatch.setattr(sys, "argv", arguments)
    scores.main()
    shown = capsys.readouterr()
    assert "photos: done" in shown.err and "print: skipped" in shown.err
    (folder,) = (tmp_path / "scores").iterdir()
    assert folder.name == scores.digest_of(tiny_folder)
    stored = read_predictions(folder / "photos.jsonl")
    assert [one.truth for one in stored[:2]] == [("x", "+", "0"), ("x", "+", "1")]
    # The second run reads what the first one stored.
    right = [Prediction(o.name, o.truth, o.truth, 0.5, o.kind, o.source) for o in stored[:3]]
    write_predictions(folder / "photos.jsonl", [*right, *stored[3:]])
    scores.main()
    shown = capsys.readouterr()
    assert "photos: done" not in shown.err
    assert "| photographs (validation) | default | 6 | 50.0 (18.8–81.2)" in shown.out
    content = json.loads((folder / "scores.json").read_text())
    assert content["scores"][0]["exprate"] == 50
    (kind,) = content["by_kind"]["photos"]
    assert (kind["kind"], kind["sources"], kind["source_exprate"]) == ("scan", 2, 50)
    low, high = kind["interval_by_source"]
    assert low == pytest.approx(100 / 3) and high == pytest.approx(200 / 3)


def test_calibration_does_not_change_the_name_of_a_model(
    scores: ModuleType, tiny_folder: Path, tmp_path: Path
) -> None:
    model = tmp_path / "model"
    shutil.copytree(tiny_folder, model)
    before = scores.digest_of(model)
    folder = open_folder(model)
    store_info(folder, {**folder.info, "calibrations": {}})
    assert scores.digest_of(model) == before
    store_info(folder, {**folder.info, "thresholds": {"margin": 0.3}})
    assert scores.digest_of(model) != before  # it ends the search of other images


def test_expressmatch_is_compared_in_one_spelling(scores: ModuleType) -> None:
    wrong = r"\theta = t a n ^ { - } 1 \frac { y } { x }"
    right = r"\theta = \tan ^ { - 1 } \frac { y } { x }"
    truth, found = (tuple(text.split()) for text in (wrong, right))
    spelled = scores.one_spelling(Prediction("68_ann", truth, found))
    assert spelled.is_correct and spelled.source == "68"
