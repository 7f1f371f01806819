"""Speed of synthesis on one core.

python benchmarks/synthesis.py [--ink DATASET] [--count N] [--step-seconds S --step-images P]
python benchmarks/synthesis.py --config configs/default.yaml [--count N]

Prints expressions per second of CPU time for each stage, and the share of a training step that
generating its images takes. With a config, prints training examples per second of each of its
sources, and of their mix.
"""

import time
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated

import cv2
import numpy as np
import typer

from posformer.data import Sampler
from posformer.synthesis.layout import lay_out
from posformer.synthesis.sources import WeightedSampler
from posformer.synthesis.synthesizer import SynthesisSampler, open_synthesizer, write_set
from posformer.training.datasets import open_examples
from posformer.training.training_config import load_config


def rate(count: int, work: Callable[[int], object]) -> float:
    """Return how often a function runs per second of CPU time."""
    work(0)
    start = time.process_time()
    for number in range(count):
        work(number)
    return count / (time.process_time() - start)


def measure_sources(path: Path, count: int) -> None:
    """Print the speed of the sources of a training config."""
    config = load_config(path)
    start = time.process_time()
    train = open_examples(config.data, config.model.image).train
    print(f"{time.process_time() - start:8.1f} s   to load ink, symbols, texts and fonts")
    assert isinstance(train, WeightedSampler)
    names = [source.kind for source in config.data.sources]
    for name, sampler in [*zip(names, train.samplers, strict=True), ("all", train)]:

        def example(number: int, sampler: Sampler = sampler) -> object:
            return sampler.sample(number, np.random.default_rng(number)).render()

        print(f"{rate(count, example):8.0f} /s  {name}")


def main(
    ink: Annotated[
        Path | None, typer.Option(help="InkML dataset (default: the project's own ink).")
    ] = None,
    config: Annotated[Path | None, typer.Option(help="Training config with sources.")] = None,
    count: int = 1000,
    step_seconds: float = 1.0,
    step_images: int = 15,
) -> None:
    cv2.setNumThreads(1)
    if config is not None:
        measure_sources(config, count)
        return
    start = time.process_time()
    synthesizer = open_synthesizer(ink, levels="1-4")
    print(f"{time.process_time() - start:8.1f} s   to load symbols and texts")
    rng = np.random.default_rng(0)
    grammar, bank = synthesizer.grammar, synthesizer.bank
    texts = [grammar.sample(rng, 1 + number % 4) for number in range(count)]
    sampler = SynthesisSampler(synthesizer, count)
    samples = [sampler.sample(number, rng) for number in range(count)]
    stages = {
        "texts": rate(count, lambda number: grammar.sample(rng, 1 + number % 4)),
        "layouts of given texts": rate(count, lambda number: lay_out(texts[number], bank, rng)),
        "renderings": rate(count, lambda number: samples[number].render()),
        "training examples (text, layout, rendering)": rate(
            count, lambda number: sampler.sample(number, rng).render()
        ),
    }
    with TemporaryDirectory() as folder:
        start = time.process_time()
        list(write_set(Path(folder) / "set.zip", synthesizer, count))
        stages["entries of a dataset, with all files"] = count / (time.process_time() - start)
    for stage, value in stages.items():
        print(f"{value:8.0f} /s  {stage}")
    share = step_images / stages["training examples (text, layout, rendering)"] / step_seconds
    print(f"{share:8.1%}     of a step of {step_seconds} s with {step_images} images")


if __name__ == "__main__":
    typer.run(main)
