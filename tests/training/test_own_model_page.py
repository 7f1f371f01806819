"""The page about your own model: every step is executed."""

import csv
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "own-model.md"


def blocks(language: str) -> list[str]:
    found = re.findall(rf"```{language}\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    return [str(block) for block in found]


def at(folder: Path, commands: str) -> str:
    """Runs commands in a folder, as somebody would who has installed the program."""
    tools = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    environment = {**os.environ, "PATH": tools, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        ["bash", "-e", "-c", commands],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=1800,
    )
    assert done.returncode == 0, done.stdout[-1000:] + done.stderr[-2000:]
    return done.stdout


@pytest.mark.slow
def test_the_page_can_be_followed(tmp_path: Path) -> None:
    (code,), (config,), (commands,) = blocks("python"), blocks("yaml"), blocks("sh")
    (tmp_path / "glance.py").write_text(code)
    (tmp_path / "glance.yaml").write_text(config)
    said = at(tmp_path, commands)
    assert "ONNX and PyTorch agree within" in said
    scores = json.loads((tmp_path / "scores.json").read_text())
    assert scores["count"] == 24
    assert scores["exprate"] > 75
    with (tmp_path / "read.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 48  # every expression as an image and as ink
    assert not any(row["error"] for row in rows)


def test_the_model_of_the_page_implements_the_interface(tmp_path: Path) -> None:
    """The properties that the search relies on, and the ONNX export."""
    (tmp_path / "glance.py").write_text(blocks("python")[0])
    (tmp_path / "check.py").write_text(
        """
import sys
from pathlib import Path

import torch

sys.path.insert(0, "TESTS")
from posformer.models import ModelConfig
from posformer.models.padding import pad_images
from posformer.models.registry import create_model
from posformer.runtime.model_export import export_model
from tiny import VOCABULARY, random_images

config = ModelConfig.from_dict({"name": "glance:Glance", "position": "heads"})
torch.manual_seed(0)
model = create_model(config, VOCABULARY).for_inference()
assert model.position is None
images = random_images(0, [(40, 60), (100, 30)])
tokens = torch.randint(3, len(VOCABULARY), (2, 3, 7))
with torch.inference_mode():
    memory = model.encode(*map(torch.from_numpy, pad_images(images)))
    complete = model.step(tokens, memory, model.initial_cache(memory, 3)).log_probs
    first = model.step(tokens[..., :4], memory, model.initial_cache(memory, 3))
    second = model.step(tokens[..., 4:], memory, first.cache)
    parts = torch.cat((first.log_probs, second.log_probs), 2)
    torch.testing.assert_close(parts, complete, atol=1e-5, rtol=1e-4)
    alone = model.encode(*map(torch.from_numpy, pad_images(images[:1])))
    single = model.step(tokens[:1], alone, model.initial_cache(alone, 3)).log_probs
    torch.testing.assert_close(single, complete[:1], atol=1e-5, rtol=1e-4)
folder, difference = export_model(model, Path("exported"))
assert difference < 1e-4
""".replace("TESTS", str(Path(__file__).parents[1]))
    )
    at(tmp_path, "PYTHONPATH=.:$PYTHONPATH python check.py")
