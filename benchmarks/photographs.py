"""Where the time goes for photographs of 12 megapixels, from the file to the image for the network.

    python benchmarks/photographs.py --compare OTHER/src

makes photographs with the camera simulation and prints CPU time per stage and peak memory, for
the binarizing clean-up and for the grey images of `posformer.image.normalize`. With `--compare` it
does the same with the source folder of another version, in turns, and prints the ratio of times.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
from pathlib import Path
from time import process_time
from typing import Any

import cv2
import numpy as np

WIDTH, HEIGHT = 4000, 3000
KINDS = ("photo", "scan")
STAGES = ("decode", "prepare", "recognize")


def make_photos(folder: Path, count: int) -> None:
    """Write JPEG files: simulated photographs, enlarged, with paper around and sensor noise."""
    from camera import renderings

    from posformer.image.camera import photograph, sample_style

    rng = np.random.default_rng(0)
    for number, sample in enumerate(renderings(count, (20_000, 50_000))):
        shot = photograph(*sample, sample_style(rng, KINDS[number % len(KINDS)]))[0]
        large = cv2.resize(shot, None, fx=(f := 0.8 * WIDTH / shot.shape[1]), fy=f)
        large = large[:HEIGHT]
        down, across = HEIGHT - large.shape[0], WIDTH - large.shape[1]
        sides = (down // 2, down - down // 2, across // 2, across - across // 2)
        page = cv2.copyMakeBorder(large, *sides, cv2.BORDER_REFLECT_101)
        noisy = page[..., None] + rng.normal(0, 4, (HEIGHT, WIDTH, 3))
        path = str(folder / f"{number}.jpg")
        cv2.imwrite(path, np.clip(noisy, 0, 255).astype(np.uint8), [cv2.IMWRITE_JPEG_QUALITY, 90])


def measure(path: str, grey: bool) -> dict[str, Any]:
    """CPU seconds of each stage on one thread, the peak memory, and the reading."""
    from posformer import Recognizer
    from posformer.image import loading
    from posformer.image.cleanup import clean
    from posformer.image.lines import split_lines
    from posformer.image.normalize import prepare_photo, split_photo
    from posformer.runtime.decoding import decode_images
    from posformer.search import DecodingOptions

    cv2.setNumThreads(0)
    recognizer = Recognizer.load(threads=1)
    # Earlier versions decode at full size.
    load = getattr(loading, "load_reduced", lambda source: (loading.load_image(source),))
    start = process_time()
    loaded = load(path)
    decoded = process_time()
    if grey:
        lines = split_photo(prepare_photo(*loaded))
    else:
        lines = [line.image for line in split_lines(clean(*loaded))]
    prepared = process_time()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    found = decode_images(recognizer.runtime, lines, DecodingOptions())
    times = (decoded - start, prepared - decoded, process_time() - prepared)
    tokens = [recognizer.runtime.vocabulary.decode(best.tokens) for best, *_ in found]
    return {**dict(zip(STAGES, times, strict=True)), "peak": peak, "tokens": tokens}


def measure_in_process(path: str, grey: bool, source: str) -> dict[str, Any]:
    command = [sys.executable, __file__, "--one", path, *(["--grey"] if grey else [])]
    environment = {**os.environ, "PYTHONPATH": source}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=4)
    parser.add_argument("--compare", metavar="SRC", help="source folder of another version")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    parser.add_argument("--grey", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--make", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.make:
        make_photos(options.make, options.count)
        return
    if options.one:
        print(json.dumps(measure(options.one, options.grey)))
        return
    here = str(Path(__file__).parents[1] / "src")
    sources = {"other": options.compare, "this": here} if options.compare else {"this": here}
    print("| preprocessing | version | decode ms | prepare ms | recognize ms | peak MB |")
    print("| --- | --- | ---: | ---: | ---: | ---: |")
    with tempfile.TemporaryDirectory() as folder:
        # In another process, because a process starts with the peak memory of its parent.
        subprocess.run([sys.executable, __file__, "--make", folder, "--count", str(options.count)])
        paths = sorted(str(path) for path in Path(folder).glob("*.jpg"))
        for grey in (False, True):
            kind = "grey" if grey else "clean"
            runs = [
                {name: measure_in_process(path, grey, source) for name, source in sources.items()}
                for path in paths
            ]
            for name in sources:
                times = [1000 * np.mean([run[name][stage] for run in runs]) for stage in STAGES]
                peak = max(run[name]["peak"] for run in runs)
                cells = " | ".join(f"{time:.0f}" for time in times)
                print(f"| {kind} | {name} | {cells} | {peak:.0f} |", flush=True)
            if options.compare:
                print_ratio(kind, runs)


def print_ratio(kind: str, runs: list[dict[str, dict[str, Any]]]) -> None:
    before, after = (
        np.mean([run[name]["decode"] + run[name]["prepare"] for run in runs])
        for name in ("other", "this")
    )
    same = sum(run["other"]["tokens"] == run["this"]["tokens"] for run in runs)
    print(f"| {kind} | other / this | {before / after:.2f} | | {same} of {len(runs)} equal | |")


if __name__ == "__main__":
    main()
