"""How fast expressions are made up, on one core, and how that compares with what is needed.

python benchmarks/synthesis.py [--ink CORPUS] [--count N] [--seconds-a-step S --images-a-step P]

Prints expressions a second of processor time for each stage, and the share of a training step that
drawing its images takes.
"""

import time
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated

import cv2
import numpy as np
import typer

from posformer.synthesis.layout import lay_out
from posformer.synthesis.synthesizer import SynthesisSampler, open_synthesizer, write_set


def rate(count: int, work: Callable[[int], object]) -> float:
    """How often a second of processor time something is done."""
    work(0)
    start = time.process_time()
    for number in range(count):
        work(number)
    return count / (time.process_time() - start)


def main(
    ink: Annotated[Path | None, typer.Option(help="InkML; the project's own ink else.")] = None,
    count: int = 1000,
    seconds_a_step: float = 1.0,
    images_a_step: int = 15,
) -> None:
    cv2.setNumThreads(1)
    start = time.process_time()
    synthesizer = open_synthesizer(ink, levels="1-4")
    print(f"{time.process_time() - start:8.1f} s   to learn symbols and texts")
    rng = np.random.default_rng(0)
    grammar, bank = synthesizer.grammar, synthesizer.bank
    texts = [grammar.sample(rng, 1 + number % 4) for number in range(count)]
    source = SynthesisSampler(synthesizer, count)
    drawings = [source.sample(number, rng) for number in range(count)]
    stages = {
        "texts": rate(count, lambda number: grammar.sample(rng, 1 + number % 4)),
        "layouts of given texts": rate(count, lambda number: lay_out(texts[number], bank, rng)),
        "renderings": rate(count, lambda number: drawings[number].render()),
        "training examples, all of it": rate(
            count, lambda number: source.sample(number, rng).render()
        ),
    }
    with TemporaryDirectory() as folder:
        start = time.process_time()
        list(write_set(Path(folder) / "set.zip", synthesizer, count))
        stages["entries of a set, with all files"] = count / (time.process_time() - start)
    for stage, value in stages.items():
        print(f"{value:8.0f} /s  {stage}")
    share = images_a_step / stages["training examples, all of it"] / seconds_a_step
    print(f"{share:8.1%}     of a step of {seconds_a_step} s with {images_a_step} images")


if __name__ == "__main__":
    typer.run(main)
