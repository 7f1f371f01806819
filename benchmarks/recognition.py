"""Where the time of recognition goes, how many pictures a second, and how much memory.

    python benchmarks/recognition.py --data crohme.zip --split 2014 --limit 200

The data are pictures in any layout that `posformer.data` reads; without `--data` the project's own
handwriting is drawn. Compare the columns of one run; times of two runs say little.
"""

import argparse
import os
import platform
import resource
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from posformer import Recognizer
from posformer.ink.sizing import at_working_size
from posformer.recognizer import prepare
from posformer.runtime import read_pictures, search_options


def pictures(arguments: argparse.Namespace) -> list[np.ndarray]:
    if arguments.data:
        from posformer.data import open_pictures

        source = open_pictures(arguments.data, arguments.split)
        count = min(arguments.limit, len(source))  # evenly, since sets may be sorted by length
        places = np.linspace(0, len(source) - 1, count).astype(int)
        return [source.picture(int(place)) for place in places]
    from posformer.data.synthesis import open_synthesizer
    from posformer.ink.align import in_pixels
    from posformer.ink import render

    synthesizer = open_synthesizer()
    random = np.random.default_rng(0)
    return [render(in_pixels(synthesizer.make(random)).strokes) for _ in range(arguments.limit)]


def seconds(work: Callable[[], Any]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def table(recognizer: Recognizer, given: Sequence[np.ndarray]) -> None:
    runtime, size = recognizer.runtime, recognizer.runtime.config.picture
    count = len(given)
    clean = seconds(lambda: [prepare(picture) for picture in given])
    sized = [at_working_size(one, size.scale, size.margin, size.max_pixels) for one in given]
    encoder = seconds(lambda: [runtime.encode([picture]) for picture in sized])
    print("| | ms a picture | pictures a second |")
    print("| --- | ---: | ---: |")
    for name, spent in (("clean-up", clean), ("encoder", encoder)):
        print(f"| {name} | {1e3 * spent / count:.1f} | |")
    for name, settings in (
        ("greedy", {"greedy": True}),
        ("beam 3", {"beam": 3}),
        ("beam 10", {"beam": 10}),
    ):
        options = search_options(runtime.config, **settings)
        decoding = seconds(lambda options=options: read_pictures(runtime, given, options)) - encoder
        whole = seconds(lambda settings=settings: list(recognizer.attempt_many(given, **settings)))
        print(f"| decoder and search, {name} | {1e3 * decoding / count:.1f} | |")
        print(f"| all, {name} | {1e3 * whole / count:.1f} | {count / whole:.1f} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--model")
    parser.add_argument("--data")
    parser.add_argument("--split", default="2014")
    parser.add_argument("--limit", type=int, default=200)
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    arguments = parser.parse_args()
    recognizer = Recognizer.load(arguments.model, threads=arguments.threads)
    given = pictures(arguments)
    median = sorted(given, key=lambda picture: picture.size)[len(given) // 2]
    recognizer.recognize(median)
    print(f"{platform.processor() or platform.machine()}, {arguments.threads} threads\n")
    table(recognizer, given)
    one = min(seconds(lambda: recognizer.recognize(median, greedy=True)) for _ in range(5))
    print(f"\none picture of median size, greedy: {1e3 * one:.0f} ms")
    unit = 1 if sys.platform == "darwin" else 1024
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
    print(f"peak memory: {peak / 2**20:.0f} MB")


if __name__ == "__main__":
    main()
