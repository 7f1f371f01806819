"""Where the time of recognition goes, how many images a second, cold start, and memory.

    python benchmarks/recognition.py --data crohme.zip --split 2014 --limit 200

The data are images in any layout that `posformer.data` reads; without `--data` the project's own
handwriting is drawn. Compare the columns of one run; times of two runs say little.
"""

import argparse
import os
import platform
import resource
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import cv2
import numpy as np
from clock import clock, describe_clock, seconds

from posformer import Recognizer
from posformer.image.sizing import at_working_size
from posformer.ink import save_image
from posformer.models.model_config import ModelConfig
from posformer.recognizer import prepare
from posformer.runtime import Runtime, decode_images, search_options
from posformer.search import StepModel

STRIDE = 16  # pixels a cell of the feature map
SEARCHES: dict[str, dict[str, Any]] = {
    "greedy": {"greedy": True},
    "beam 3": {"beam": 3},
    "beam 3, two sizes": {"beam": 3, "views": 2},
    "beam 10": {"beam": 10},
}


def images(arguments: argparse.Namespace) -> list[np.ndarray]:
    if arguments.data:
        from posformer.data import open_images

        source = open_images(arguments.data, arguments.split)
        count = min(arguments.limit, len(source))  # evenly, since sets may be sorted by length
        places = np.linspace(0, len(source) - 1, count).astype(int)
        return [source.image(int(place)) for place in places]
    from posformer.ink import render
    from posformer.synthesis.synthesizer import in_pixels, open_synthesizer

    synthesizer = open_synthesizer()
    random = np.random.default_rng(0)
    return [render(in_pixels(synthesizer.make(random)).strokes) for _ in range(arguments.limit)]


class Clocked:
    """A runtime that notes how long its encoder and its decoder run."""

    def __init__(self, runtime: Runtime, threads: int) -> None:
        self._runtime = runtime
        self.config, self.vocabulary, self.info = runtime.config, runtime.vocabulary, runtime.info
        self.encoder = self.decoder = 0.0
        self._now = clock(threads)

    def encode(self, given: Sequence[np.ndarray]) -> "ClockedSteps":
        """Encodes images; see `Runtime`."""
        start = self._now()
        model = self._runtime.encode(given)
        self.encoder += self._now() - start
        return ClockedSteps(model, self, self._now)


class ClockedSteps:
    """The steps of such a runtime."""

    def __init__(self, model: StepModel[Any], owner: Clocked, now: Callable[[], float]) -> None:
        self._model, self._owner, self._now = model, owner, now
        self.start = model.start

    def step(self, tokens: np.ndarray, state: Any) -> tuple[np.ndarray, Any]:
        """Feeds tokens; see `StepModel`."""
        start = self._now()
        found = self._model.step(tokens, state)
        self._owner.decoder += self._now() - start
        return found

    def select(self, state: Any, kept: np.ndarray, rows: np.ndarray) -> Any:
        """Keeps some images and rows."""
        start = self._now()
        found = self._model.select(state, kept, rows)
        self._owner.decoder += self._now() - start
        return found


def print_parts(recognizer: Recognizer, given: Sequence[np.ndarray], threads: int) -> None:
    count = len(given)
    clean = seconds(lambda: [prepare(image) for image in given], threads)
    print("| ms an image | clean-up | encoder | decoder steps | search | all | images a second |")
    print("| --- | ---: | ---: | ---: | ---: | ---: | ---: |")
    for name, settings in SEARCHES.items():
        timed = Clocked(recognizer.runtime, threads)
        options = search_options(timed.config, **settings)
        work = partial(decode_images, timed, given, options)
        reading = seconds(work, threads)
        search = reading - timed.encoder - timed.decoder
        parts = (clean, timed.encoder, timed.decoder, search, clean + reading)
        cells = " | ".join(f"{1e3 * part / count:.1f}" for part in parts)
        print(f"| {name} | {cells} | {count / (clean + reading):.1f} |", flush=True)


def encoder_flop(config: ModelConfig, height: int, width: int) -> float:
    """Floating-point operations, two for a product and its sum, for an image of this size."""
    growth, decoder = config.encoder.growth, config.decoder
    rows, columns = -(-height // STRIDE), -(-width // STRIDE)  # of the feature map
    channels = 2 * growth
    total = 64 * 49 * channels  # the stem, at half the size: 64 pixels a cell of the map
    for number, layers in enumerate(config.encoder.layers):
        pixels = 4 ** (len(config.encoder.layers) - 1 - number)  # a cell of the map
        for _ in range(layers):
            total += pixels * 4 * growth * (channels + 9 * growth)
            channels += growth
        if number < len(config.encoder.layers) - 1:
            total += pixels * channels * (channels // 2)
            channels //= 2
    total += channels * decoder.width + 2 * decoder.layers * decoder.width**2
    return 2.0 * total * rows * columns


def print_encoder_rate(runtime: Runtime, given: Sequence[np.ndarray], threads: int) -> None:
    """The encoder's operations a second beside those of a matrix product in the same threads."""
    size = runtime.config.image
    sized = [at_working_size(one, size.scale, size.margin, size.max_pixels) for one in given]
    work = sum(encoder_flop(runtime.config, *image.shape) for image in sized)
    square = np.random.default_rng(0).random((1024, 1024), np.float32)
    reached, possible = [], []
    for _ in range(3):  # in turns, since other programs come and go
        spent = seconds(lambda: [runtime.encode([image]) for image in sized], threads)
        reached.append(work / spent / 1e9)
        product = seconds(lambda: [square @ square for _ in range(20)], threads)
        possible.append(20 * 2 * 1024**3 / product / 1e9)
    share = max(one / other for one, other in zip(reached, possible, strict=True))
    print(
        f"\nencoder: {work / len(sized) / 1e9:.2f} GFLOP an image, {max(reached):.0f} GFLOP/s; a "
        f"matrix product (1024, float32, NumPy): {max(possible):.0f} GFLOP/s; share {share:.0%}"
    )


def print_commands(given: Sequence[np.ndarray], median: np.ndarray, model: str | None) -> None:
    """From typing a command to its end: one image, a new process every time; then a folder."""
    with tempfile.TemporaryDirectory() as folder:
        for number, image in enumerate(given):
            save_image(image, Path(folder) / f"{number}.png")
        one = Path(folder) / "one.png"
        save_image(median, one)
        runs = [_command(one, model) for _ in range(5)]
        whole = _command(Path(folder), model)
    times = [spent for spent, _ in runs]
    print(
        f"cold start: {min(times):.2f} s at best, {statistics.median(times):.2f} s in the median "
        f"of {len(times)}; peak memory {max(peak for _, peak in runs):.0f} MB"
    )
    print(f"a folder of {len(given) + 1}: {whole[0]:.1f} s, peak memory {whole[1]:.0f} MB\n")


def _command(path: Path, model: str | None) -> tuple[float, float]:
    """Seconds that `posformer recognize` takes, and the highest peak so far in megabytes."""
    program = [sys.executable, "-m", "posformer.cli", "recognize", str(path)]
    command = [*program, "--model", model] if model else program
    spent = seconds(lambda: subprocess.run(command, check=True, capture_output=True), threads=0)
    return spent, _megabytes(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)


def _megabytes(peak: int) -> float:
    return peak * (1 if sys.platform == "darwin" else 1024) / 2**20


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--model")
    parser.add_argument("--data")
    parser.add_argument("--split", default="2014")
    parser.add_argument("--limit", type=int, default=200)
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    arguments = parser.parse_args()
    threads = arguments.threads
    given = images(arguments)
    median = sorted(given, key=lambda image: image.size)[len(given) // 2]
    # First of all: a process begins with the peak of the one that started it.
    print_commands(given, median, arguments.model)
    recognizer = Recognizer.load(arguments.model, threads=threads)
    recognizer.recognize(median)
    cv2.setNumThreads(threads)
    print(f"{platform.processor() or platform.machine()}, {describe_clock(threads)}\n")
    print_parts(recognizer, given, threads)
    print_encoder_rate(recognizer.runtime, given, threads)
    one = min(seconds(lambda: recognizer.recognize(median, greedy=True), threads) for _ in range(5))
    height, width = median.shape
    print(f"one image of median size ({width}×{height}), greedy: {1e3 * one:.0f} ms")


if __name__ == "__main__":
    main()
