"""Run by test_torchrun: trains in one process on the joined batches of two."""

import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from posformer.training.batch_stream import BatchStream
from posformer.training.collate import Batch
from posformer.training.trainer import train
from posformer.training.training_config import load_config


def joined(stream: BatchStream) -> Iterator[Batch]:
    """Yield batches with the examples that two processes have at each step."""
    plans = [replace(stream, rank=rank, world=2)._plan() for rank in range(2)]
    for both in zip(*plans, strict=True):
        rendered = [
            stream._rendered(samples[index], index)
            for samples, members in both
            for index in members.tolist()
        ]
        yield stream.collator(rendered, stream._rng(-3, 0))


if __name__ == "__main__":
    BatchStream.__iter__ = joined  # type: ignore[method-assign]
    train(load_config(Path(sys.argv[1]), sys.argv[3:]), Path(sys.argv[2]))
