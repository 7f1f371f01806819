"""How fast the camera simulation and the preprocessing of photographs are, in CPU time on one core.

    python benchmarks/camera.py

needs no data: images are written in the project's own hand. `--sheet FILE` draws the contact sheet
of the docs instead.
"""

import argparse
from functools import partial
from pathlib import Path

import cv2
import numpy as np
from clock import seconds

from posformer.image.camera import KINDS, Camera, photograph, sample_style
from posformer.image.normalize import flatten, prepare_photo
from posformer.ink.alignment import in_pixels
from posformer.ink.render import RenderStyle, render_aligned
from posformer.synthesis.synthesizer import Synthesizer

STYLE = RenderStyle(margin=(0, 0))


def renderings(
    count: int, pixels: tuple[int, int], seed: int = 0
) -> list[tuple[np.ndarray, np.ndarray]]:
    """Images without margins in the project's own hand, and the boxes of their tokens."""
    synthesizer = Synthesizer.own()
    rng = np.random.default_rng(seed)
    made: list[tuple[np.ndarray, np.ndarray]] = []
    while len(made) < count:
        image, boxes = render_aligned(in_pixels(synthesizer.make(rng)), STYLE)
        if pixels[0] <= image.size <= pixels[1]:
            made.append((image, boxes))
    return made


def measure(count: int, repeats: int) -> None:
    """Print milliseconds per image for every kind."""
    samples = renderings(count, (20_000, 50_000))
    sizes = np.array([image.shape for image, _ in samples])
    print(f"{count} images, mean size {sizes[:, 0].mean():.0f} x {sizes[:, 1].mean():.0f}")
    for kind in KINDS:
        camera = Camera({kind: 1})
        spent = min(seconds(partial(_shoot, camera, samples), 1) for _ in range(repeats))
        print(f"{kind:12} {1000 * spent / count:6.2f} ms per image")
    rng = np.random.default_rng(0)
    photos = [Camera()(image, boxes, rng)[0] for image, boxes in samples]
    spent = min(seconds(lambda: [flatten(photo) for photo in photos], 1) for _ in range(repeats))
    print(f"{'flatten':12} {1000 * spent / count:6.2f} ms per image")
    large = cv2.resize(photos[0], (4000, 3000), interpolation=cv2.INTER_CUBIC)
    large = np.dstack([large] * 3)
    spent = min(seconds(lambda: prepare_photo(large), 1) for _ in range(repeats))
    print(f"prepare_photo {1000 * spent:5.0f} ms for 12 megapixels")


def _shoot(camera: Camera, samples: list[tuple[np.ndarray, np.ndarray]]) -> None:
    rng = np.random.default_rng(0)
    for image, boxes in samples:
        camera(image, boxes, rng)


def draw_sheet(path: Path) -> None:
    """Two rows for every kind: simulated images, and the same after `flatten`."""
    columns, height, width = 4, 92, 230
    samples = [
        sample
        for sample in renderings(100, (6_000, 14_000), seed=4)
        if sample[0].shape[0] < 66 and sample[0].shape[1] < 200
    ]
    rows = []
    for number, kind in enumerate(KINDS):
        shots = []
        for place in range(columns):
            style = sample_style(np.random.default_rng([number, place, 3]), kind)
            shots.append(photograph(*samples[number * columns + place], style)[0])
        rows.append(np.hstack([_cell(shot, height, width) for shot in shots]))
        rows.append(np.hstack([_cell(flatten(shot), height, width) for shot in shots]))
    cv2.imwrite(str(path), np.vstack(rows), [cv2.IMWRITE_PNG_COMPRESSION, 9])


def _cell(image: np.ndarray, height: int, width: int) -> np.ndarray:
    """An image in the corner of a cell, made smaller where it would not fit."""
    scale = min(1.0, (height - 4) / image.shape[0], (width - 4) / image.shape[1])
    part = cv2.resize(image, None, fx=scale, fy=scale, interpolation=cv2.INTER_AREA)
    cell = np.full((height, width), 255, np.uint8)
    cell[2 : 2 + part.shape[0], 2 : 2 + part.shape[1]] = part
    return cell


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--sheet", type=Path, help="draw this contact sheet instead")
    args = parser.parse_args()
    cv2.setNumThreads(0)
    if args.sheet:
        draw_sheet(args.sheet)
    else:
        measure(args.count, args.repeats)


if __name__ == "__main__":
    main()
