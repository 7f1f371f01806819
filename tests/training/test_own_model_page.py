"""The page about models of one's own, followed word for word."""

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
    assert "PyTorch runs it" in said
    scores = json.loads((tmp_path / "scores.json").read_text())
    assert scores["count"] == 24
    assert scores["exprate"] > 75
    with (tmp_path / "read.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 48  # every expression as an image and as ink
    assert not any(row["error"] for row in rows)


def test_the_page_s_model_keeps_to_the_interface(tmp_path: Path) -> None:
    """What search relies on, of which the commands show only the outcome."""
    (tmp_path / "glance.py").write_text(blocks("python")[0])
    (tmp_path / "check.py").write_text(
        """
import sys

import torch

sys.path.insert(0, "TESTS")
from posformer.models import ModelConfig
from posformer.models.padding import pad_images
from posformer.models.registry import create_model
from tiny import VOCABULARY, random_images

config = ModelConfig.from_dict({"name": "glance:Glance", "position": "heads"})
torch.manual_seed(0)
model = create_model(config, VOCABULARY).for_inference()
assert model.position is None
images = random_images(0, [(40, 60), (100, 30)])
tokens = torch.randint(3, len(VOCABULARY), (2, 3, 7))
with torch.inference_mode():
    memory = model.encode(*map(torch.from_numpy, pad_images(images)))
    whole, _ = model.step(tokens, memory, None)
    first, kept = model.step(tokens[..., :4], memory, None)
    second, _ = model.step(tokens[..., 4:], memory, kept)
    torch.testing.assert_close(torch.cat((first, second), 2), whole, atol=1e-5, rtol=1e-4)
    alone = model.encode(*map(torch.from_numpy, pad_images(images[:1])))
    single, _ = model.step(tokens[:1], alone, None)
    torch.testing.assert_close(single, whole[:1], atol=1e-5, rtol=1e-4)
""".replace("TESTS", str(Path(__file__).parents[1]))
    )
    at(tmp_path, "PYTHONPATH=. python check.py")
