"""Time that constrained decoding takes in addition, as a ratio of CPU time of one thread.

    python benchmarks/constraint.py --data crohme_inkml.zip --split 2013

Both searches decode the same images in turns, several times; for each batch of images the least
time counts. Images that are decoded differently are excluded: they may have different lengths.
"""

import argparse
from dataclasses import replace

import numpy as np
from clock import seconds

from posformer.evaluation.predict import open_set
from posformer.runtime import decode_images, load_runtime
from posformer.search import DecodingOptions

SEARCHES = {
    "greedy": DecodingOptions(greedy=True),
    "beam 3, both directions": DecodingOptions(beam=3, scales=1, adaptive=False),
    "beam 3, both directions, two scales": DecodingOptions(beam=3, adaptive=False),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--model")
    parser.add_argument("--data", required=True)
    parser.add_argument("--split", default="2013")
    parser.add_argument("--limit", type=int, default=64, help="number of images, evenly spaced")
    parser.add_argument("--batch", type=int, default=8, help="images that are timed together")
    parser.add_argument("--repeats", type=int, default=5)
    arguments = parser.parse_args()
    runtime = load_runtime(arguments.model, threads=1)
    examples = open_set(arguments.data, arguments.split)
    indices = np.linspace(0, len(examples) - 1, arguments.limit).astype(int).tolist()
    images = [examples.image(index) for index in indices]
    print("| search | images | time relative to unconstrained |")
    print("| --- | ---: | ---: |")
    for name, options in SEARCHES.items():
        both = [replace(options, constrained=constrained) for constrained in (False, True)]
        free, bound = (decode_images(runtime, images, one) for one in both)
        pairs = zip(images, free, bound, strict=True)
        same = [image for image, a, b in pairs if a[0].tokens == b[0].tokens]
        totals = np.zeros(2)
        for first in range(0, len(same), arguments.batch):
            batch = same[first : first + arguments.batch]
            times = [
                [seconds(lambda o=one, b=batch: decode_images(runtime, b, o), 1) for one in both]
                for _ in range(arguments.repeats)
            ]
            totals += np.min(times, axis=0)
        print(f"| {name} | {len(same)} | {totals[1] / totals[0]:.3f} |", flush=True)


if __name__ == "__main__":
    main()
