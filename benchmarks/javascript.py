"""CPU time of the JavaScript package in Node, relative to Python, with one thread each.

    python scripts/write_web_vectors.py vectors --strokes 80 --photographs 100
    python benchmarks/javascript.py vectors

Both recognize the same ink and images twice; the second time counts. Compare the ratios, not
the times.
"""

import argparse
import json
import statistics
import subprocess
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
from clock import seconds

from posformer import Recognizer
from posformer.errors import PosformerError
from posformer.runtime.engine import DEFAULT_MODEL

WEB = Path(__file__).parents[1] / "web"


def times(recognize: Callable[[Any], object], sources: list[Any]) -> list[float]:
    """Return the milliseconds of each recognition."""

    def attempt(source: Any) -> None:
        with suppress(PosformerError):
            recognize(source)

    for source in sources:  # warm up
        attempt(source)
    return [1000 * seconds(lambda source=source: attempt(source), 1) for source in sources]


def pixels(image: dict[str, int], arrays: bytes) -> np.ndarray:
    """Return the pixels of an image."""
    shape = (image["height"], image["width"], image["channels"])
    flat = np.frombuffer(arrays, np.uint8, int(np.prod(shape)), image["offset"])
    return flat.reshape(shape[:2] if image["channels"] == 1 else shape)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("vectors", type=Path, help="Folder that write_web_vectors.py wrote.")
    given = parser.parse_args()
    vectors = json.loads((given.vectors / "vectors.json").read_text("utf-8"))
    arrays = (given.vectors / "arrays.bin").read_bytes()

    def load() -> None:
        nonlocal recognizer
        recognizer = Recognizer.load(threads=1)

    recognizer: Any = None
    python = {"load": [1000 * seconds(load, 1)]}
    python["strokes"] = times(recognizer.recognize, [one["strokes"] for one in vectors["strokes"]])
    images = [pixels(one["image"], arrays) for one in vectors["photographs"]]
    python["photographs"] = times(recognizer.recognize, images)

    script = [str(WEB / "test" / "timing.js"), str(given.vectors), str(DEFAULT_MODEL)]
    done = subprocess.run(["node", *script], check=True, capture_output=True, text=True)
    node = json.loads(done.stdout)
    node["load"] = [node["load"]]
    print("| CPU time, median | Python | Node | median ratio |\n| --- | ---: | ---: | ---: |")
    for name, before in python.items():
        after = node[name]
        ratio = statistics.median(b / a for a, b in zip(before, after, strict=True))
        medians = (f"{statistics.median(one):.0f} ms" for one in (before, after))
        print(f"| {name} | {' | '.join(medians)} | {ratio:.1f} |")


if __name__ == "__main__":
    main()
