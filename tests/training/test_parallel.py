"""Several processes: sharding of examples and batches, and gradients."""

import subprocess
import sys
from pathlib import Path

import pytest
import torch
from gradients import save_gradients

from posformer.training.batch_stream import BatchStream
from posformer.training.datasets import open_examples
from posformer.training.training_config import load_config


def streams(config_path: Path, world: int, epoch: int = 0) -> list[BatchStream]:
    from posformer.training.collate import Collator

    config = load_config(config_path, ["batch.max_images=5", "batch.chunk=30"])
    examples = open_examples(config.data, config.model.image)
    collator = Collator(examples.vocabulary, config.model.position)
    return [
        BatchStream(
            examples.train, collator, config.batch, config.seed, epoch=epoch, rank=rank, world=world
        )
        for rank in range(world)
    ]


@pytest.mark.parametrize("world", [1, 2, 3])
def test_every_example_is_used_once_per_epoch(tiny_config: Path, world: int) -> None:
    names = [name for stream in streams(tiny_config, world) for b in stream for name in b.names]
    assert len(names) == len(set(names)) == 64


@pytest.mark.parametrize("world", [2, 3])
def test_ranks_have_equally_many_batches(tiny_config: Path, world: int) -> None:
    assert len({sum(1 for _ in stream) for stream in streams(tiny_config, world)}) == 1


def test_epochs_differ_and_the_same_epoch_repeats(tiny_config: Path) -> None:
    first, again, second = (
        [tuple(batch.names) for batch in streams(tiny_config, 1, epoch)[0]] for epoch in (0, 0, 1)
    )
    assert first == again != second


def test_a_stream_can_start_at_a_later_batch(tiny_config: Path) -> None:
    whole, rest = streams(tiny_config, 1)[0], streams(tiny_config, 1)[0]
    rest.start = 3
    expected = list(whole)[3:]
    for batch, other in zip(rest, expected, strict=True):
        assert batch.names == other.names and torch.equal(batch.images, other.images)


@pytest.mark.parametrize(
    ("directions", "starts"), [("both", {1, 2}), ("one", {1, 2}), ("forward", {1})]
)
def test_directions_of_a_batch(tiny_config: Path, directions: str, starts: set[int]) -> None:
    stream = streams(tiny_config, 1)[0]
    stream.directions = directions  # type: ignore[assignment]
    batches = list(stream)
    assert {batch.input_ids.shape[1] for batch in batches} == {2 if directions == "both" else 1}
    assert {
        int(start) for batch in batches for start in batch.input_ids[..., 0].flatten()
    } == starts


def test_gradients_of_two_processes_match_those_of_one(tiny_config: Path, tmp_path: Path) -> None:
    command = [sys.executable, Path(__file__).with_name("gradients.py"), tiny_config, tmp_path]
    processes = [subprocess.Popen([*command, str(rank), "2"]) for rank in range(2)]
    assert [process.wait(timeout=240) for process in processes] == [0, 0]
    save_gradients(tiny_config, tmp_path, rank=0, world=1)
    together, alone = (torch.load(tmp_path / f"gradients-{world}.pt") for world in (2, 1))
    assert together.keys() == alone.keys() and together
    for name, value in alone.items():
        torch.testing.assert_close(together[name], value, atol=2e-6, rtol=1e-3, msg=name)
    assert max(value.abs().max() for value in alone.values()) > 1e-3
