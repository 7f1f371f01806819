"""Accuracy of rendering, captions and alignment on CROHME's ink, and speed of training examples.

    python benchmarks/ink.py --images crohme.zip --ink crohme_inkml.zip

prints a table for the splits that have images and ink, lists every caption that is not reproduced
and every token without ink, and measures the speed on one core. `--sheets DIR` writes contact
sheets of the project's own ink instead, which need no dataset.
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
    """The results of one split."""

    overlaps: list[float] = field(default_factory=list)
    captions: int = 0
    tokens: int = 0
    aligned: int = 0
    issues: list[str] = field(default_factory=list)

    def row(self, split: str) -> str:
        """Return a row of the table."""
        count = len(self.overlaps)
        identical = sum(overlap == 1.0 for overlap in self.overlaps)
        return (
            f"| {split} | {count} | {np.mean(self.overlaps):.4f} | {identical} "
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
        rendered = render(strokes_in_pixels(ink.strokes))
        found.overlaps.append(overlap(images.image(index) > 0, rendered > 0))
        try:
            caption = caption_of(ink)
        except InkError as error:
            caption = (str(error),)
        found.captions += caption == example.tokens
        if caption != example.tokens:
            found.issues.append(f"{split} {example.name}: caption: {' '.join(caption)}")
        result = align(ink, example.tokens)
        inked = inked_places(result.tokens)
        without = [result.tokens[index] for index in inked if not result.alignment[index]]
        found.tokens += len(inked)
        found.aligned += len(inked) - len(without)
        if without:
            found.issues.append(f"{split} {example.name}: no ink for {' '.join(without)}")
    return found


def overlap(one: np.ndarray, other: np.ndarray) -> float:
    """Return the intersection over union of two images aligned at their top left corners."""
    height, width = np.maximum(one.shape, other.shape)
    canvas = np.zeros((2, height, width), bool)
    canvas[0, : one.shape[0], : one.shape[1]] = one
    canvas[1, : other.shape[0], : other.shape[1]] = other
    return float(canvas.all(axis=0).sum() / canvas.any(axis=0).sum())


def print_rates(images_path: Path, ink_path: Path, cache: Path) -> None:
    captions = {one.name: one.tokens for one in open_images(images_path, "train")}
    start = time.perf_counter()
    inks = load_ink(ink_path, "train", captions, cache)
    print(f"\nloading without cache: {time.perf_counter() - start:.1f} s")
    start = time.perf_counter()
    load_ink(ink_path, "train", captions, cache)
    print(f"loading with cache: {time.perf_counter() - start:.1f} s\n")
    substitution = SymbolSubstitution.from_inks(inks, substitution=1.0, subtree_swap=1.0)
    augment = StrokeAugmentation()
    sample = inks[::8]
    rng = np.random.default_rng(0)
    plain = InkSampler(sample, scale_range=None)
    full = InkSampler(sample, augment=augment, substitution=substitution)
    print("| step | expressions per second |")
    print("| --- | --- |")
    for name, step in {
        "rendering": lambda index: render(sample[index].strokes),
        "rendering with boxes": lambda index: plain.sample(index, rng).render(),
        "augmentation": lambda index: augment(sample[index], rng),
        "symbol substitution and subtree swap": lambda index: substitution(sample[index], rng),
        "all steps, with rendering": lambda index: full.sample(index, rng).render(),
    }.items():
        print(f"| {name} | {rate(step, range(len(sample))):,.0f} |")


def rate(step: Callable[[int], object], indices: Sequence[int]) -> float:
    """Return how often a step runs per second of CPU time."""
    for index in indices[:50]:
        step(index)
    start = time.process_time()
    for index in indices:
        step(index)
    return len(indices) / (time.process_time() - start)


def write_sheets(folder: Path, seed: int) -> None:
    """Write contact sheets: expressions in the project's own ink and three variations of each."""
    rng = np.random.default_rng(seed)
    synthesizer = Synthesizer.own()
    expressions = [synthesizer.make(rng) for _ in range(400)]
    corpus = [replace(ink, strokes=strokes_in_pixels(ink.strokes)) for ink in expressions]
    inks = [ink for ink in corpus if 120 < image_width(ink) < 330 and len(ink.tokens) > 6][:8]
    folder.mkdir(parents=True, exist_ok=True)
    transforms: dict[str, Callable[[AlignedInk], AlignedInk]] = {
        "augmented": lambda ink: StrokeAugmentation()(ink, rng),
        "substituted": lambda ink: substitution(ink, rng),
    }
    substitution = SymbolSubstitution.from_inks(corpus, substitution=1.0, subtree_swap=0.5)
    for name, transform in transforms.items():
        rows = [[ink, *(transform(ink) for _ in range(3))] for ink in inks]
        save_image(sheet(rows), folder / f"ink-{name}.png")


def image_width(ink: AlignedInk) -> int:
    return int(np.ptp(np.concatenate(ink.strokes)[:, 0]))


def sheet(rows: Sequence[Sequence[AlignedInk]]) -> np.ndarray:
    """Return an image, black on white, with an expression and its variations in each row."""
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
    issues: list[str] = []
    for split in SPLITS:
        found = examine(images, ink, split, every)
        issues += found.issues
        yield found.row(split)
    yield "\n" + "\n".join(issues)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--images", type=Path, help="CROHME images")
    parser.add_argument("--ink", type=Path, help="CROHME ink")
    parser.add_argument("--every", type=int, default=1, help="use every n-th expression")
    parser.add_argument("--cache", type=Path, default=Path("runs/cache"))
    parser.add_argument("--sheets", type=Path, help="folder for contact sheets")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    logging.basicConfig(format="%(message)s")
    cv2.setNumThreads(1)
    if options.sheets:
        write_sheets(options.sheets, options.seed)
    if options.images and options.ink:
        for line in report(options.images, options.ink, options.every):
            print(line, flush=True)
        print_rates(options.images, options.ink, options.cache)


if __name__ == "__main__":
    main()
