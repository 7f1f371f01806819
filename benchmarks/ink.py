"""How well CROHME's ink is understood, and how fast ink becomes training images.

    python benchmarks/ink.py --images crohme.zip --ink crohme_inkml.zip

prints a table for the splits that have images and ink, lists every caption that is not
reproduced and every token without ink, and then rates on one core. `--sheets DIR` draws contact
sheets of the project's own ink instead, which need no data set.
"""

import argparse
import logging
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath

import cv2
import numpy as np

from posformer.data import InkSampler, load_ink, open_images
from posformer.data.storage import open_files
from posformer.errors import InkError
from posformer.ink import (
    AlignedInk,
    align,
    caption_of,
    inked_places,
    read_inkml,
    render,
    save_image,
    strokes_in_pixels,
)
from posformer.ink.augmentation import StrokeAugmentation
from posformer.synthesis import SymbolSubstitution
from posformer.synthesis.synthesizer import Synthesizer

SPLITS = ("train", "2014", "2016")


@dataclass
class Findings:
    """What was found in one split."""

    overlaps: list[float] = field(default_factory=list)
    captions: int = 0
    tokens: int = 0
    aligned: int = 0
    strange: list[str] = field(default_factory=list)

    def row(self, split: str) -> str:
        """A line of the table."""
        count = len(self.overlaps)
        same = sum(overlap == 1.0 for overlap in self.overlaps)
        return (
            f"| {split} | {count} | {np.mean(self.overlaps):.4f} | {same} "
            f"| {self.captions} ({self.captions / count:.2%}) "
            f"| {self.aligned} of {self.tokens} ({self.aligned / self.tokens:.3%}) |"
        )


def examine(images_path: Path, ink_path: Path, split: str, every: int) -> Findings:
    images = open_images(images_path, split)
    files = open_files(ink_path)
    paths = {PurePosixPath(name).stem: name for name in files.names() if f"/{split}/" in name}
    found = Findings()
    for index in range(0, len(images), every):
        example = images[index]
        ink = read_inkml(files.read(paths[example.name]), example.name)
        drawn = render(strokes_in_pixels(ink.strokes))
        found.overlaps.append(overlap(images.image(index) > 0, drawn > 0))
        try:
            said = caption_of(ink)
        except InkError as error:
            said = (str(error),)
        found.captions += said == example.tokens
        if said != example.tokens:
            found.strange.append(f"{split} {example.name}: caption: {' '.join(said)}")
        result = align(ink, example.tokens)
        places = inked_places(result.tokens)
        without = [result.tokens[place] for place in places if not result.alignment[place]]
        found.tokens += len(places)
        found.aligned += len(places) - len(without)
        if without:
            found.strange.append(f"{split} {example.name}: no ink for {' '.join(without)}")
    return found


def overlap(one: np.ndarray, other: np.ndarray) -> float:
    """Intersection over union of two images laid corner on corner."""
    height, width = np.maximum(one.shape, other.shape)
    canvas = np.zeros((2, height, width), bool)
    canvas[0, : one.shape[0], : one.shape[1]] = one
    canvas[1, : other.shape[0], : other.shape[1]] = other
    return float(canvas.all(axis=0).sum() / canvas.any(axis=0).sum())


def print_rates(images_path: Path, ink_path: Path, cache: Path) -> None:
    captions = {one.name: one.tokens for one in open_images(images_path, "train")}
    start = time.perf_counter()
    inks = load_ink(ink_path, "train", captions, cache)
    print(f"\nfirst loading: {time.perf_counter() - start:.1f} s")
    start = time.perf_counter()
    load_ink(ink_path, "train", captions, cache)
    print(f"loading from the cache: {time.perf_counter() - start:.1f} s\n")
    substitution = SymbolSubstitution.from_inks(inks, substitution=1.0, subtree_swap=1.0)
    augment = StrokeAugmentation()
    sample = inks[::8]
    rng = np.random.default_rng(0)
    plain = InkSampler(sample, scale_range=None)
    full = InkSampler(sample, augment=augment, substitution=substitution)
    print("| step | expressions a second |")
    print("| --- | --- |")
    for name, step in {
        "rendering": lambda place: render(sample[place].strokes),
        "rendering with boxes": lambda place: plain.sample(place, rng).render(),
        "augmentation": lambda place: augment(sample[place], rng),
        "substitution of symbols and a group": lambda place: substitution(sample[place], rng),
        "all of it, with rendering": lambda place: full.sample(place, rng).render(),
    }.items():
        print(f"| {name} | {rate(step, range(len(sample))):,.0f} |")


def rate(step: Callable[[int], object], places: Sequence[int]) -> float:
    """How often a step runs in a second of one core; other programs on it do not count."""
    for place in places[:50]:
        step(place)
    start = time.process_time()
    for place in places:
        step(place)
    return len(places) / (time.process_time() - start)


def draw_sheets(folder: Path, seed: int) -> None:
    """Expressions of the project's own ink, as they are and in three variations each."""
    rng = np.random.default_rng(seed)
    synthesizer = Synthesizer.own()
    made = [synthesizer.make(rng) for _ in range(400)]
    corpus = [replace(ink, strokes=strokes_in_pixels(ink.strokes)) for ink in made]
    inks = [ink for ink in corpus if 120 < image_width(ink) < 330 and len(ink.tokens) > 6][:8]
    folder.mkdir(parents=True, exist_ok=True)
    changes: dict[str, Callable[[AlignedInk], AlignedInk]] = {
        "augmented": lambda ink: StrokeAugmentation()(ink, rng),
        "substituted": lambda ink: substitution(ink, rng),
    }
    substitution = SymbolSubstitution.from_inks(corpus, substitution=1.0, subtree_swap=0.5)
    for name, change in changes.items():
        rows = [[ink, *(change(ink) for _ in range(3))] for ink in inks]
        save_image(sheet(rows), folder / f"ink-{name}.png")


def image_width(ink: AlignedInk) -> int:
    return int(np.ptp(np.concatenate(ink.strokes)[:, 0]))


def sheet(rows: Sequence[Sequence[AlignedInk]]) -> np.ndarray:
    """Black on white, one expression and its variations a row, in columns."""
    images = [[255 - render(ink.strokes) for ink in row] for row in rows]
    widths = [max(row[column].shape[1] for row in images) for column in range(len(images[0]))]
    lines = []
    for row in images:
        height = max(image.shape[0] for image in row)
        cells = [padded(one, height, width) for one, width in zip(row, widths, strict=True)]
        lines.append(np.concatenate(cells, axis=1))
    return np.concatenate(lines)


def padded(image: np.ndarray, height: int, width: int) -> np.ndarray:
    below, right = height - image.shape[0], width - image.shape[1]
    return np.asarray(
        cv2.copyMakeBorder(
            image, below // 2, below - below // 2, 0, right, cv2.BORDER_CONSTANT, value=255
        )
    )


def report(images: Path, ink: Path, every: int) -> Iterator[str]:
    yield "| split | images | mean overlap | identical | captions reproduced | tokens with ink |"
    yield "| --- | --- | --- | --- | --- | --- |"
    strange: list[str] = []
    for split in SPLITS:
        found = examine(images, ink, split, every)
        strange += found.strange
        yield found.row(split)
    yield "\n" + "\n".join(strange)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--images", type=Path, help="the CROHME images")
    parser.add_argument("--ink", type=Path, help="the CROHME ink")
    parser.add_argument("--every", type=int, default=1, help="look at every so manieth expression")
    parser.add_argument("--cache", type=Path, default=Path("runs/cache"))
    parser.add_argument("--sheets", type=Path, help="folder for contact sheets of our own ink")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    logging.basicConfig(format="%(message)s")
    cv2.setNumThreads(1)
    if options.sheets:
        draw_sheets(options.sheets, options.seed)
    if options.images and options.ink:
        for line in report(options.images, options.ink, options.every):
            print(line, flush=True)
        print_rates(options.images, options.ink, options.cache)


if __name__ == "__main__":
    main()
