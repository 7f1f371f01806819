"""How well a small network tells simulated photographs from real ones.

    python benchmarks/camera_realism.py --photos ../shared/data/photos/dev --images crohme.zip

trains a small convolutional network on patches of 64 x 64 pixels around ink and prints its balanced
accuracy on patches of other sources and other seeds, and then on those of other images of the same
sources, which is easier: 50 % means that it cannot tell them apart.
Plain renderings are compared first, then simulated photographs; both as they are and after
`flatten`, which is what a recognizer gets. Without the data it says so and ends. `--sheet FILE`
draws real and simulated images side by side; such a sheet must not be published.
"""

import argparse
import csv
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import cv2
import numpy as np
import torch
from torch import nn

from posformer.data import open_images
from posformer.errors import NoInkError
from posformer.image.camera import photograph, sample_style
from posformer.image.loading import load_image
from posformer.image.normalize import crop_formula, find_formula, flatten

SIDE = 64
GROUPS = {
    "photo": ("photo-paper", ["photo"]),
    "scan": ("scan", ["scan"]),
}


@dataclass(frozen=True)
class Example:
    """A grey image at the working size and where it comes from."""

    image: np.ndarray
    source: str
    name: str


def real_examples(folder: Path, kind: str) -> list[Example]:
    """Photographs of one kind, cropped to their formulas."""
    with (folder / "labels.tsv").open() as file:
        labels = list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))
    examples = []
    for label in labels:
        if label["kind"] != kind:
            continue
        image = load_image(folder / "img" / f"{label['name']}.png")
        try:
            crop = crop_formula(image, find_formula(image))
        except NoInkError:
            continue
        examples.append(Example(crop, label["source"], label["name"]))
    return examples


def rendered(path: Path, count: int) -> list[np.ndarray]:
    """Plain renderings without their margins, uint8, white ink on black."""
    images = open_images(path, "train")
    places = np.random.default_rng(0).choice(len(images), count, replace=False)
    found = []
    for place in places:
        image = images.image(int(place))
        left, top, width, height = cv2.boundingRect(image)
        found.append(image[top : top + height, left : left + width])
    return found


def plain(images: Sequence[np.ndarray], kinds: Sequence[str]) -> list[Example]:
    """Renderings as black ink on white."""
    del kinds
    padded = [np.pad(image, 12) for image in images]
    return [
        Example(255 - image, str(number % 10), str(number)) for number, image in enumerate(padded)
    ]


def simulated(images: Sequence[np.ndarray], kinds: Sequence[str]) -> list[Example]:
    """Renderings as the camera simulation shows them."""
    boxes = np.zeros((0, 4), np.float32)
    examples = []
    for number, image in enumerate(images):
        rng = np.random.default_rng(number)
        style = sample_style(rng, kinds[number % len(kinds)])  # type: ignore[arg-type]
        shot = photograph(image, boxes, style)[0]
        examples.append(Example(shot, str(number % 10), str(number)))
    return examples


def patches(
    examples: Sequence[Example], count: int, prepare: Callable[[np.ndarray], np.ndarray]
) -> tuple[np.ndarray, list[Example]]:
    """Patches around ink, the same number from every source.

    Returns:
        float32 (patches, 1, 64, 64) from 0 to 1, and the example of each.
    """
    rng = np.random.default_rng(0)
    sources = sorted({example.source for example in examples})
    found, origins = [], []
    for source in sources:
        members = [example for example in examples if example.source == source]
        for _ in range(count // len(sources) + 1):
            example = members[int(rng.integers(len(members)))]
            found.append(_patch(example.image, prepare, rng))
            origins.append(example)
    return np.stack(found)[:, None].astype(np.float32) / 255, origins


def _patch(
    image: np.ndarray, prepare: Callable[[np.ndarray], np.ndarray], rng: np.random.Generator
) -> np.ndarray:
    rows, columns = np.nonzero(flatten(image) > 127)
    shown = np.pad(prepare(image), SIDE // 2, mode="reflect")
    place = int(rng.integers(len(rows))) if len(rows) else 0
    row, column = (int(rows[place]), int(columns[place])) if len(rows) else (0, 0)
    return np.asarray(shown[row : row + SIDE, column : column + SIDE])


Patches = tuple[np.ndarray, list[Example]]


def accuracy(real: Patches, made: Patches, held_out: str) -> float:
    """Balanced accuracy, mean of two halves.

    Args:
        real: Patches of photographs.
        made: Patches of simulated ones.
        held_out: What the halves do not share: `source` or `name`.
    """
    scores = []
    for half in range(2):
        train = [_half(group, half, held_out) for group in (real, made)]
        test = [_half(group, 1 - half, held_out) for group in (real, made)]
        network = _train(train)
        with torch.inference_mode():
            right = [
                float((network(torch.from_numpy(images)).argmax(1) == label).float().mean())
                for label, images in enumerate(test)
            ]
        scores.append(float(np.mean(right)))
    return float(np.mean(scores))


def _half(group: Patches, half: int, held_out: str) -> np.ndarray:
    images, origins = group
    keys = [getattr(origin, held_out) for origin in origins]
    numbers = {key: place for place, key in enumerate(sorted(set(keys)))}
    return images[np.array([numbers[key] % 2 == half for key in keys])]


def _train(classes: Sequence[np.ndarray], epochs: int = 8) -> nn.Module:
    torch.manual_seed(0)
    layers: list[nn.Module] = []
    channels = 1
    for width in (16, 24, 32, 48):
        layers += [nn.Conv2d(channels, width, 3, 2, 1), nn.BatchNorm2d(width), nn.ReLU()]
        channels = width
    network = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, 2))
    images = torch.from_numpy(np.concatenate(classes))
    labels = torch.cat([torch.full((len(part),), label) for label, part in enumerate(classes)])
    optimizer = torch.optim.AdamW(network.parameters(), 2e-3, weight_decay=0.05)
    generator = torch.Generator().manual_seed(0)
    for _ in range(epochs):
        for batch in torch.randperm(len(images), generator=generator).split(64):
            shown = images[batch]
            if torch.rand((), generator=generator) < 0.5:
                shown = shown.flip(-1)
            loss = nn.functional.cross_entropy(network(shown), labels[batch])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    return network.eval()


def draw_sheet(real: Sequence[Example], made: Sequence[Example], path: Path) -> None:
    """Real images in the left columns, simulated ones in the right columns."""
    rng = np.random.default_rng(1)
    columns = []
    for examples in (real, made):
        chosen = rng.choice(len(examples), min(48, len(examples)), replace=False)
        cells = [_cell(examples[int(place)].image) for place in chosen]
        cells += [np.full_like(cells[0], 128)] * (48 - len(cells))
        columns += [np.vstack(cells[start : start + 16]) for start in (0, 16, 32)]
        columns.append(np.zeros((len(columns[0]), 6), np.uint8))
    path.parent.mkdir(parents=True, exist_ok=True)
    cv2.imwrite(str(path), np.hstack(columns[:-1]))


def _cell(image: np.ndarray, height: int = 80, width: int = 230) -> np.ndarray:
    cell = np.full((height, width), 128, np.uint8)
    part = image[: height - 2, : width - 2]
    cell[: part.shape[0], : part.shape[1]] = part
    return cell


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--photos", type=Path, default=Path("../shared/data/photos/dev"))
    parser.add_argument("--images", type=Path, default=Path("../shared/data/crohme.zip"))
    parser.add_argument("--patches", type=int, default=1200)
    parser.add_argument("--groups", nargs="*", choices=GROUPS, default=list(GROUPS))
    parser.add_argument("--only-simulated", action="store_true", help="skip plain renderings")
    parser.add_argument("--sheet", type=Path, help="file name; the group is added to it")
    args = parser.parse_args()
    if not (args.photos / "labels.tsv").exists() or not args.images.exists():
        print(f"skipped: needs {args.photos} and {args.images}")
        return
    cv2.setNumThreads(0)
    torch.set_num_threads(1)
    images = rendered(args.images, 400)
    print(
        "| images | rendering | other sources, grey | flattened | other images, grey | flattened |"
    )
    print("| --- | --- | ---: | ---: | ---: | ---: |")
    for group in args.groups:
        kind, kinds = GROUPS[group]
        real = real_examples(args.photos, kind)
        for make in (simulated,) if args.only_simulated else (plain, simulated):
            made = make(images, kinds)
            if args.sheet and make is simulated:
                draw_sheets(real, made, args.sheet.with_stem(f"{args.sheet.stem}-{group}"))
            pairs = [
                [patches(part, args.patches, prepare) for part in (real, made)]
                for prepare in (np.asarray, flatten)
            ]
            cells = [
                f"{accuracy(pair[0], pair[1], held_out):.1%}"
                for held_out in ("source", "name")
                for pair in pairs
            ]
            print(f"| {group} | {make.__name__} | {' | '.join(cells)} |", flush=True)


def draw_sheets(real: Sequence[Example], made: Sequence[Example], path: Path) -> None:
    """One sheet of the images as they are, and one after `flatten`."""
    draw_sheet(real, made, path)
    flat = [[replace(e, image=flatten(e.image)) for e in part] for part in (real, made)]
    draw_sheet(flat[0], flat[1], path.with_stem(f"{path.stem}-flat"))


if __name__ == "__main__":
    main()
