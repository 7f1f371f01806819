"""Which search to use by default: how often it is right against how long it takes.

    python benchmarks/defaults.py --data crohme_inkml.zip --split 2013 --leave-out train

All searches read the same images in turns, some at a time, so that whatever else the machine
does falls on all of them alike. Choose on validation data, never on a test set.
"""

import argparse
import os
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import numpy as np
from clock import clock, describe_clock

from posformer.evaluation import edit_distances, mcnemar
from posformer.evaluation.predict import open_set
from posformer.latex import is_valid
from posformer.models.model_config import ModelConfig
from posformer.runtime import decode_images, load_runtime, search_options
from posformer.search import DecodingOptions

TOGETHER = 32  # images in a turn


@dataclass
class Trial:
    """One search, and what came of it."""

    name: str
    options: DecodingOptions
    seconds: float = 0.0
    readings: list[tuple[str, ...]] = field(default_factory=list)


def trials(
    config: ModelConfig, beams: list[int], finished: list[int], views: list[int]
) -> Iterator[Trial]:
    """Greedy first; the last one is the widest, which all are compared with."""
    yield Trial("greedy", search_options(config, greedy=True))
    one_way = ("forward", 1)
    ways = [("both", sizes) for sizes in views] if config.decoder.directions == "both" else []
    for directions, sizes in [one_way, *ways]:
        for beam in beams:
            for ends in sorted({min(beam, number) for number in finished}):
                options = replace(
                    search_options(config, beam, views=sizes),
                    directions=directions,
                    rescore=directions == "both",
                    finished=ends,
                )
                name = f"beam {beam}, {directions}, {ends} finished, sizes: {sizes}"
                yield Trial(name, options)


def print_table(tried: list[Trial], captions: list[tuple[str, ...]]) -> None:
    right = {trial.name: edit_distances(captions, trial.readings) == 0 for trial in tried}
    widest = right[tried[-1].name]
    print("| search | ExpRate | valid | only it / only the widest is right | p | ms | × greedy |")
    print("| --- | ---: | ---: | ---: | ---: | ---: | ---: |")
    for trial in tried:
        mine = right[trial.name]
        valid = 100 * np.mean([is_valid(reading) for reading in trial.readings])
        only_it, only_widest = int((mine & ~widest).sum()), int((widest & ~mine).sum())
        spent = f"{1e3 * trial.seconds / len(captions):.0f}"
        factor = f"{trial.seconds / tried[0].seconds:.1f}"
        cells = (trial.name, f"{100 * mine.mean():.2f}", f"{valid:.1f}")
        chance = f"{mcnemar(only_it, only_widest):.2f}"
        differ = f"{only_it} / {only_widest}"
        print("|", " | ".join((*cells, differ, chance, spent, factor)), "|")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--model")
    parser.add_argument("--data", required=True)
    parser.add_argument("--split", default="2013")
    parser.add_argument("--leave-out", help="texts of this split")
    parser.add_argument("--limit", type=int, help="images, taken evenly")
    parser.add_argument("--beams", type=int, nargs="+", default=[2, 3, 5, 10])
    parser.add_argument("--finished", type=int, nargs="+", default=[1, 3, 10])
    parser.add_argument("--views", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    arguments = parser.parse_args()
    examples = open_set(arguments.data, arguments.split, arguments.leave_out)
    runtime = load_runtime(arguments.model, threads=arguments.threads)
    tried = list(trials(runtime.config, arguments.beams, arguments.finished, arguments.views))
    count = min(arguments.limit or len(examples), len(examples))
    places = np.linspace(0, len(examples) - 1, count).astype(int).tolist()
    now = clock(arguments.threads)
    for first in range(0, count, TOGETHER):
        images = [examples.image(place) for place in places[first : first + TOGETHER]]
        for trial in tried:
            start = now()
            found = decode_images(runtime, images, trial.options)
            trial.seconds += now() - start
            trial.readings += [tuple(runtime.vocabulary.decode(best[0].tokens)) for best in found]
        print(f"{first + len(images)} of {count}", end="\r", flush=True)
    print(f"{describe_clock(arguments.threads)}, {count} images\n")
    print_table(tried, [examples.captions[place] for place in places])


if __name__ == "__main__":
    main()
