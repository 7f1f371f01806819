"""CPU time of two model folders in turns: encoder, and decoder per step.

    python benchmarks/graphs.py OLD NEW

Both folders must hold the same kind of model; they may differ in format. One thread; the ratio of
medians within one run is the result.
"""

import argparse
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from posformer.runtime.onnx_runtime import OnnxRuntime

SIZES = ((96, 288), (160, 480))  # height and width of images
CALLS = ((6, 1), (12, 1), (3, 20))  # beams and steps per call


def medians(work: Sequence[Callable[[], object]], repeats: int) -> list[float]:
    """Return the median CPU time of each function in milliseconds; they run in turns."""
    times: list[list[float]] = [[] for _ in work]
    for _ in range(repeats + 1):
        for function, measured in zip(work, times, strict=True):
            start = time.process_time()
            function()
            measured.append(1e3 * (time.process_time() - start))
    return [float(np.median(measured[1:])) for measured in times]  # the first call is slower


def decode(runtime: OnnxRuntime, image: np.ndarray, beams: int, steps: int) -> Callable[[], object]:
    model = runtime.encode([image])
    tokens = np.full((1, beams, steps), 5)

    def run() -> None:
        state = model.start()
        for _ in range(20 if steps == 1 else 1):
            _, state = model.step(tokens, state)

    return run


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("folders", nargs=2, type=Path)
    parser.add_argument("--repeats", type=int, default=9)
    arguments = parser.parse_args()
    runtimes = [OnnxRuntime.load(path, 1) for path in arguments.folders]
    random = np.random.default_rng(0)
    print("| | old, ms | new, ms | ratio |\n| --- | ---: | ---: | ---: |")
    for size in SIZES:
        image = (random.random(size) < 0.1).astype(np.uint8) * np.uint8(255)
        rows: dict[str, list[Callable[[], object]]] = {
            f"encoder, {size[0]}×{size[1]}": [
                lambda runtime=runtime, image=image: runtime.encode([image]) for runtime in runtimes
            ]
        }
        for beams, steps in CALLS:
            name = f"decoder, {beams} beams, {'20 calls' if steps == 1 else f'{steps} steps'}"
            rows[name] = [decode(runtime, image, beams, steps) for runtime in runtimes]
        for name, work in rows.items():
            old, new = medians(work, arguments.repeats)
            print(f"| {name} | {old:.1f} | {new:.1f} | {new / old:.3f} |", flush=True)


if __name__ == "__main__":
    main()
