"""Accuracy against time of different decoding options, to choose the defaults.

    python benchmarks/defaults.py --data crohme_inkml.zip --split 2013 --leave-out train

All searches decode the same images in turns, a few at a time, so that other load on the machine
affects all of them equally. Choose on validation data, never on a test set.
"""

import argparse
import os
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
from clock import clock, describe_clock

from posformer.evaluation import edit_distances, mcnemar
from posformer.evaluation.predict import open_set
from posformer.latex import is_valid
from posformer.models.model_config import ModelConfig
from posformer.runtime import decode_images, load_runtime
from posformer.search import DecodingOptions

BATCH_IMAGES = 32  # per turn


@dataclass
class Trial:
    """Decoding options and their results."""

    name: str
    options: DecodingOptions
    margin: float | None = None  # of adaptive search; None: that of the model
    seconds: float = 0.0
    predictions: list[tuple[str, ...]] = field(default_factory=list)


def trials(
    config: ModelConfig,
    beams: list[int],
    finished: list[int],
    scales: list[int],
    margins: list[float],
) -> Iterator[Trial]:
    """Yield the trials: greedy first, the widest search, which is the reference, last."""
    yield Trial("greedy", DecodingOptions(greedy=True))
    yield Trial("adaptive", DecodingOptions())
    for margin in margins:
        yield Trial(f"adaptive, margin {margin:g}", DecodingOptions(), margin)
    both = [("both", count) for count in scales] if config.decoder.directions == "both" else []
    for directions, count in [("forward", 1), *both]:
        for beam in beams:
            for ends in sorted({min(beam, number) for number in finished}):
                options = DecodingOptions(
                    beam=beam,
                    scales=count,
                    adaptive=False,
                    directions=directions,
                    rescore=directions == "both",
                    finished=ends,
                )
                name = f"beam {beam}, {directions}, {ends} finished, scales: {count}"
                yield Trial(name, options)


def print_table(tried: list[Trial], captions: list[tuple[str, ...]]) -> None:
    correct = {trial.name: edit_distances(captions, trial.predictions) == 0 for trial in tried}
    reference = correct[tried[-1].name]
    print("| search | ExpRate | valid | only it / only the reference correct | p | ms | × greedy |")
    print("| --- | ---: | ---: | ---: | ---: | ---: | ---: |")
    for trial in tried:
        mine = correct[trial.name]
        valid = 100 * np.mean([is_valid(prediction) for prediction in trial.predictions])
        only_it, only_reference = int((mine & ~reference).sum()), int((reference & ~mine).sum())
        spent = f"{1e3 * trial.seconds / len(captions):.0f}"
        factor = f"{trial.seconds / tried[0].seconds:.1f}"
        cells = (trial.name, f"{100 * mine.mean():.2f}", f"{valid:.1f}")
        p_value = f"{mcnemar(only_it, only_reference):.2f}"
        differ = f"{only_it} / {only_reference}"
        print("|", " | ".join((*cells, differ, p_value, spent, factor)), "|")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--model")
    parser.add_argument("--data", required=True)
    parser.add_argument("--split", default="2013")
    parser.add_argument("--leave-out", help="split whose expressions are skipped")
    parser.add_argument("--limit", type=int, help="number of images, evenly spaced")
    parser.add_argument("--beams", type=int, nargs="+", default=[2, 3, 5, 10])
    parser.add_argument("--finished", type=int, nargs="+", default=[1, 3, 10])
    parser.add_argument("--scales", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--margins", type=float, nargs="+", default=[], help="of adaptive search")
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    arguments = parser.parse_args()
    examples = open_set(arguments.data, arguments.split, arguments.leave_out)
    runtime = load_runtime(arguments.model, threads=arguments.threads)
    widths = arguments.beams, arguments.finished, arguments.scales
    tried = list(trials(runtime.config, *widths, arguments.margins))
    known = runtime.info.get("thresholds", {})
    count = min(arguments.limit or len(examples), len(examples))
    indices = np.linspace(0, len(examples) - 1, count).astype(int).tolist()
    now = clock(arguments.threads)
    for first in range(0, count, BATCH_IMAGES):
        images = [examples.image(index) for index in indices[first : first + BATCH_IMAGES]]
        for trial in tried:
            changed = {} if trial.margin is None else {"margin": trial.margin}
            runtime.info["thresholds"] = {**known, **changed}
            start = now()
            found = decode_images(runtime, images, trial.options)
            trial.seconds += now() - start
            trial.predictions += [
                tuple(runtime.vocabulary.decode(best[0].tokens)) for best in found
            ]
        print(f"{first + len(images)} of {count}", end="\r", flush=True)
    print(f"{describe_clock(arguments.threads)}, {count} images\n")
    print_table(tried, [examples.captions[index] for index in indices])


if __name__ == "__main__":
    main()
