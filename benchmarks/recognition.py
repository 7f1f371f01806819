"""Time per stage of recognition, images per second, cold start, and memory.

    python benchmarks/recognition.py --data crohme.zip --split 2014 --limit 200

`--data` is an image dataset in any layout that `posformer.data` reads; the default is synthetic
handwriting. Compare the columns of one run, not times of different runs.
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
from posformer.runtime import Runtime, decode_images
from posformer.search import DecodingOptions, StepModel

STRIDE = 16  # pixels per cell of the feature map
SEARCHES = {
    "greedy": DecodingOptions(greedy=True),
    "adaptive": DecodingOptions(),
    "beam 3": DecodingOptions(beam=3, scales=1, adaptive=False),
    "beam 3, two scales": DecodingOptions(beam=3, scales=2, adaptive=False),
    "beam 10": DecodingOptions(beam=10, scales=1, adaptive=False),
}


def images(arguments: argparse.Namespace) -> list[np.ndarray]:
    if arguments.data:
        from posformer.data import open_images

        source = open_images(arguments.data, arguments.split)
        count = min(arguments.limit, len(source))
        # Evenly spaced, because a dataset may be sorted by length.
        indices = np.linspace(0, len(source) - 1, count).astype(int)
        return [source.image(int(index)) for index in indices]
    from posformer.ink import render
    from posformer.synthesis.synthesizer import in_pixels, open_synthesizer

    synthesizer = open_synthesizer()
    random = np.random.default_rng(0)
    return [render(in_pixels(synthesizer.make(random)).strokes) for _ in range(arguments.limit)]


class TimedRuntime:
    """A runtime that measures the time of its encoder and decoder."""

    def __init__(self, runtime: Runtime, threads: int) -> None:
        self._runtime = runtime
        self.config, self.vocabulary, self.info = runtime.config, runtime.vocabulary, runtime.info
        self.encoder = self.decoder = 0.0
        self._now = clock(threads)

    def encode(self, images: Sequence[np.ndarray]) -> "TimedStepModel":
        """Encode images; see `Runtime`."""
        start = self._now()
        model = self._runtime.encode(images)
        self.encoder += self._now() - start
        return TimedStepModel(model, self, self._now)


class TimedStepModel:
    """A step model of a `TimedRuntime`."""

    def __init__(
        self, model: StepModel[Any], owner: TimedRuntime, now: Callable[[], float]
    ) -> None:
        self._model, self._owner, self._now = model, owner, now
        self.start = model.start

    def step(self, tokens: np.ndarray, state: Any) -> tuple[np.ndarray, Any]:
        """See `StepModel`."""
        start = self._now()
        found = self._model.step(tokens, state)
        self._owner.decoder += self._now() - start
        return found

    def select(self, state: Any, images: np.ndarray, beams: np.ndarray) -> Any:
        """See `StepModel`."""
        start = self._now()
        found = self._model.select(state, images, beams)
        self._owner.decoder += self._now() - start
        return found


def print_parts(recognizer: Recognizer, given: Sequence[np.ndarray], threads: int) -> None:
    count = len(given)
    clean = seconds(lambda: [prepare(image) for image in given], threads)
    print(
        "| ms per image | clean-up | encoder | decoder steps | search | total | images per second |"
    )
    print("| --- | ---: | ---: | ---: | ---: | ---: | ---: |")
    for name, options in SEARCHES.items():
        timed = TimedRuntime(recognizer.runtime, threads)
        work = partial(decode_images, timed, given, options)
        decoding = seconds(work, threads)
        search = decoding - timed.encoder - timed.decoder
        parts = (clean, timed.encoder, timed.decoder, search, clean + decoding)
        cells = " | ".join(f"{1e3 * part / count:.1f}" for part in parts)
        print(f"| {name} | {cells} | {count / (clean + decoding):.1f} |", flush=True)


def encoder_flop(config: ModelConfig, height: int, width: int) -> float:
    """Return the floating-point operations for an image; a multiply-add counts as two."""
    growth, decoder = config.encoder.growth, config.decoder
    cells = -(-height // STRIDE) * -(-width // STRIDE)  # of the feature map
    channels = 2 * growth
    total = 64 * 49 * channels  # the stem, at half the resolution: 64 pixels per cell
    for number, layers in enumerate(config.encoder.layers):
        pixels = 4 ** (len(config.encoder.layers) - 1 - number)  # per cell
        for _ in range(layers):
            total += pixels * 4 * growth * (channels + 9 * growth)
            channels += growth
        if number < len(config.encoder.layers) - 1:
            total += pixels * channels * (channels // 2)
            channels //= 2
    total += channels * decoder.width + 2 * decoder.layers * decoder.width**2
    return 2.0 * total * cells


def print_encoder_rate(runtime: Runtime, given: Sequence[np.ndarray], threads: int) -> None:
    """Print the encoder's operations per second next to those of a matrix product."""
    size = runtime.config.image
    sized = [at_working_size(one, size.scale, size.margin, size.max_pixels) for one in given]
    work = sum(encoder_flop(runtime.config, *image.shape) for image in sized)
    square = np.random.default_rng(0).random((1024, 1024), np.float32)
    reached, possible = [], []
    for _ in range(3):  # in turns, since the load of the machine varies
        spent = seconds(lambda: [runtime.encode([image]) for image in sized], threads)
        reached.append(work / spent / 1e9)
        product = seconds(lambda: [square @ square for _ in range(20)], threads)
        possible.append(20 * 2 * 1024**3 / product / 1e9)
    share = max(one / other for one, other in zip(reached, possible, strict=True))
    print(
        f"\nencoder: {work / len(sized) / 1e9:.2f} GFLOP per image, {max(reached):.0f} GFLOP/s; a "
        f"matrix product (1024, float32, NumPy): {max(possible):.0f} GFLOP/s; share {share:.0%}"
    )


def print_commands(given: Sequence[np.ndarray], median: np.ndarray, model: str | None) -> None:
    """Print the time of whole commands: one image in a new process each time, then a folder."""
    with tempfile.TemporaryDirectory() as folder:
        for number, image in enumerate(given):
            save_image(image, Path(folder) / f"{number}.png")
        one = Path(folder) / "one.png"
        save_image(median, one)
        runs = [_command(one, model) for _ in range(5)]
        all_images = _command(Path(folder), model)
    times = [spent for spent, _ in runs]
    print(
        f"cold start: {min(times):.2f} s at best, {statistics.median(times):.2f} s in the median "
        f"of {len(times)}; peak memory {max(peak for _, peak in runs):.0f} MB"
    )
    print(
        f"a folder of {len(given) + 1}: {all_images[0]:.1f} s, peak memory {all_images[1]:.0f} MB\n"
    )


def _command(path: Path, model: str | None) -> tuple[float, float]:
    """Return the seconds of `posformer recognize`, and the highest memory peak so far in MB."""
    program = [sys.executable, "-m", "posformer.cli", "recognize", str(path)]
    command = [*program, "--model", model] if model else program

    def run() -> None:
        code = subprocess.run(command, capture_output=True).returncode
        assert code in (0, 1), command  # 1: an image is not readable

    spent = seconds(run, threads=0)
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
    # First, because a process starts with the peak memory of its parent.
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
