"""What a model makes of input without a formula, and of dark and faint photographs.

    python benchmarks/hopeless.py
    python benchmarks/hopeless.py --photos photos --kind photo-paper --limit 40

Prints how many results are rejected as not readable, the longest of those that are not, and CPU
time. With `--photos`, labeled photographs are darkened and faded and read with greedy search.
"""

import argparse
from collections.abc import Callable, Iterator
from typing import Any

import cv2
import numpy as np
from clock import seconds
from numpy.typing import NDArray

from posformer import Recognition, Recognizer
from posformer.data import open_images
from posformer.errors import NoInkError
from posformer.evaluation.conventions import comparable
from posformer.image.loading import load_image

HEIGHT, WIDTH = 900, 1200
LIGHT = {
    "as it is": (1.0, 1.0),
    "dark: 30 % of the light": (0.3, 1.0),
    "very dark: 12 %": (0.12, 1.0),
    "faint: 25 % of the contrast": (1.0, 0.25),
    "dark and faint": (0.3, 0.25),
}
"""Share of the light, share of the contrast."""


def scribble(rng: np.random.Generator) -> list[NDArray[Any]]:
    return [np.cumsum(rng.normal(0, 6, (300, 2)), axis=0)]


def dashes(rng: np.random.Generator) -> list[NDArray[Any]]:
    starts = rng.uniform(0, 400, (60, 2))
    return [np.array([start, start + rng.normal(0, 15, 2)]) for start in starts]


def zigzag(rng: np.random.Generator) -> list[NDArray[Any]]:
    steps = np.arange(40)
    return [np.stack([steps * 8, 40.0 * (-1) ** steps + rng.normal(0, 8, 40)], axis=1)]


def paper(rng: np.random.Generator) -> NDArray[np.float64]:
    down, across = np.mgrid[:HEIGHT, :WIDTH]
    return 200 + 30 * across / WIDTH - 20 * down / HEIGHT + rng.normal(0, 3, down.shape)


def ruled(rng: np.random.Generator) -> NDArray[np.float64]:
    page = paper(rng)
    page[60::60] -= 40
    page[61::60] -= 40
    return page


def squared(rng: np.random.Generator) -> NDArray[np.float64]:
    page = paper(rng)
    for offset in (40, 41):
        page[offset::40] -= 35
        page[:, offset::40] -= 35
    return page


def texture(rng: np.random.Generator) -> NDArray[np.float64]:
    noise = rng.normal(0, 1, (HEIGHT, WIDTH))
    return np.asarray(cv2.GaussianBlur(noise, (0, 0), 9) * 700 + 120)


def desk(rng: np.random.Generator) -> NDArray[np.float64]:
    """Objects with straight edges, out of focus."""
    scene = paper(rng)
    for _ in range(12):
        x, y, w, h = rng.integers((0, 0, 50, 30), (WIDTH, HEIGHT, 400, 300)).tolist()
        cv2.rectangle(scene, (x, y), (x + w, y + h), float(rng.integers(30, 240)), -1)
    return np.asarray(cv2.GaussianBlur(scene, (0, 0), 2)) + rng.normal(0, 4, scene.shape)


def text(rng: np.random.Generator) -> NDArray[np.float64]:
    page = np.clip(paper(rng), 0, 255).astype(np.uint8)
    sentence = "The quick brown fox jumps over the lazy dog."
    for line in range(8):
        place = (40, 100 + 90 * line)
        cv2.putText(page, sentence, place, cv2.FONT_HERSHEY_COMPLEX, 1.2, 60, 2, cv2.LINE_AA)
    return page.astype(float)


INK = {"scribble": scribble, "zigzag": zigzag, "60 dashes": dashes}
PHOTOS = {
    "blank paper": paper, "ruled paper": ruled, "squared paper": squared, "texture": texture,
    "objects on a desk": desk, "a page of text": text,
}  # fmt: skip


def inputs(make: Callable[[np.random.Generator], Any], count: int) -> Iterator[Any]:
    for seed in range(count):
        made = make(np.random.default_rng(seed))
        yield made if isinstance(made, list) else np.clip(np.rint(made), 0, 255).astype(np.uint8)


def print_hopeless(recognizer: Recognizer, count: int) -> None:
    """Print a line for each kind of input without a formula."""
    print("| input | no ink | not readable | read | longest read | CPU seconds, at most |")
    print("| --- | ---: | ---: | ---: | --- | ---: |")
    for name, make in (INK | PHOTOS).items():
        found: list[Recognition] = []
        empty, slowest = 0, 0.0
        for source in inputs(make, count):
            results = list(recognizer.attempt_many([source]))
            slowest = max(slowest, seconds(lambda s=source: list(recognizer.attempt_many([s])), 1))
            empty += isinstance(results[0], NoInkError)
            found += [one for one in results if isinstance(one, Recognition)]
        read = [one for one in found if one.readable]
        longest = max(read, key=lambda one: len(one.tokens)).latex if read else ""
        cells = (name, empty, len(found) - len(read), len(read), longest and f"`{longest}`")
        print("| " + " | ".join(map(str, cells)) + f" | {slowest:.2f} |", flush=True)


def print_dark(recognizer: Recognizer, path: str, kind: str, limit: int) -> None:
    """Print how dark and faint photographs are read."""
    photos = open_images(path, "dev").by_kind()[kind][:limit]
    print("| photographs | right | no ink | not readable |\n| --- | ---: | ---: | ---: |")
    for name, (light, contrast) in LIGHT.items():
        right = empty = rejected = 0
        for index, example in enumerate(photos):
            image = load_image(photos.files.read(example.path)).astype(np.float64)
            mean = image.mean()
            darker = light * (mean + contrast * (image - mean))
            noise = np.random.default_rng(index).normal(0, 1, image.shape)  # of a sensor
            source = np.clip(np.rint(darker + noise), 0, 255).astype(np.uint8)
            (found,) = recognizer.attempt_many([source], greedy=True)
            if isinstance(found, Recognition):
                right += comparable(found.tokens) == comparable(example.tokens)
                rejected += not found.readable
            else:
                empty += 1
        print(f"| {name} | {right} of {len(photos)} | {empty} | {rejected} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--model")
    parser.add_argument("--count", type=int, default=5, help="inputs of each kind")
    parser.add_argument("--photos", help="dataset of labeled photographs")
    parser.add_argument("--kind", default="photo-paper")
    parser.add_argument("--limit", type=int, default=40)
    arguments = parser.parse_args()
    recognizer = Recognizer.load(arguments.model, threads=1)
    if arguments.photos:
        print_dark(recognizer, arguments.photos, arguments.kind, arguments.limit)
    else:
        print_hopeless(recognizer, arguments.count)


if __name__ == "__main__":
    main()
