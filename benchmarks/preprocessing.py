"""How well a model reads real photographs after different kinds of preprocessing.

    python benchmarks/preprocessing.py --photos ../shared/data/photos/dev

prints ExpRate (greedy search) by kind of photograph, strictly and with the case of letters ignored,
for today's binarizing clean-up and for the grey images of `posformer.image.normalize`. Without the
photographs it says so and ends.
"""

import argparse
import csv
import json
from collections import defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path

import cv2
import numpy as np

from posformer import Recognizer
from posformer.errors import NoInkError
from posformer.image.cleanup import clean
from posformer.image.contrast import Contrast
from posformer.image.lines import split_lines
from posformer.image.loading import load_image
from posformer.image.normalize import prepare_photo, split_photo
from posformer.image.ruling import erase_ruling
from posformer.runtime.decoding import decode_images
from posformer.search import DecodingOptions

INK = 110  # of 255, where a grey image is cut to black and white
FAINT = 30  # where printed lines are looked for
CURVE = np.clip((np.arange(256) - 50) * 1.8, 0, 255).astype(np.uint8)

Pipeline = Callable[[np.ndarray], list[np.ndarray]]


def cleaned(image: np.ndarray) -> list[np.ndarray]:
    """Today's clean-up."""
    return [line.image for line in split_lines(clean(image))]


def grey(image: np.ndarray) -> list[np.ndarray]:
    """Grey levels as they are."""
    return split_photo(prepare_photo(image))


def curve(image: np.ndarray) -> list[np.ndarray]:
    """Grey levels with more contrast."""
    return [np.asarray(cv2.LUT(line, CURVE)) for line in grey(image)]


def threshold(image: np.ndarray) -> list[np.ndarray]:
    """Grey levels cut to black and white."""
    return [np.where(line > INK, np.uint8(255), np.uint8(0)) for line in grey(image)]


def unruled(image: np.ndarray) -> list[np.ndarray]:
    """Grey levels as they are, without ruled and squared lines."""
    lines = []
    for line in grey(image):
        faint = (line > FAINT).astype(np.uint8)
        kept = erase_ruling(faint, Contrast(line.astype(np.float32) / 255, 1.0, True))
        lines.append(np.where(kept >= faint, line, np.uint8(0)))
    return lines


PIPELINES: dict[str, Pipeline] = {
    "clean": cleaned,
    "grey": grey,
    "grey, curve": curve,
    "grey, threshold": threshold,
    "grey, lines erased": unruled,
}


def read(recognizer: Recognizer, images: Sequence[list[np.ndarray]]) -> list[list[str]]:
    """Tokens of each photograph; its lines are joined by a line break."""
    options = DecodingOptions(greedy=True)
    found = iter(
        decode_images(recognizer.runtime, [line for lines in images for line in lines], options)
    )
    vocabulary = recognizer.runtime.vocabulary
    readings = []
    for lines in images:
        tokens: list[str] = []
        for number in range(len(lines)):
            line_tokens = vocabulary.decode(next(found)[0].tokens, skip_special=True)
            tokens += [*(["\\\\"] if number else []), *line_tokens]
        readings.append(tokens)
    return readings


def comparable(tokens: Sequence[str]) -> list[str]:
    r"""Without `\limits`, which says nothing about what is written."""
    return [token for token in tokens if token != "\\limits"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--photos", type=Path, default=Path("../shared/data/photos/dev"))
    parser.add_argument("--model", help="model folder (default: the bundled one)")
    parser.add_argument("--output", type=Path, help="JSON file for all readings")
    parser.add_argument("--kinds", nargs="*", help="kinds of photographs (default: all)")
    parser.add_argument("--pipelines", nargs="*", default=list(PIPELINES))
    args = parser.parse_args()
    if not (args.photos / "labels.tsv").exists():
        print(f"skipped: {args.photos} has no labels.tsv")
        return
    cv2.setNumThreads(0)
    with (args.photos / "labels.tsv").open() as file:
        labels = list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))
    labels = [label for label in labels if not args.kinds or label["kind"] in args.kinds]
    photos = [load_image(args.photos / "img" / f"{label['name']}.png") for label in labels]
    truths = [comparable(label["tokens"].split()) for label in labels]
    recognizer = Recognizer.load(args.model, threads=1)
    results = {name: _run(recognizer, PIPELINES[name], photos) for name in args.pipelines}
    _print_table(labels, truths, results)
    if args.output:
        rows = {
            label["name"]: {name: " ".join(found[i]) for name, found in results.items()}
            for i, label in enumerate(labels)
        }
        args.output.write_text(json.dumps(rows, indent=1))


def _run(
    recognizer: Recognizer, pipeline: Pipeline, photos: Sequence[np.ndarray]
) -> list[list[str]]:
    prepared: list[list[np.ndarray]] = []
    for photo in photos:
        try:
            prepared.append(pipeline(photo))
        except NoInkError:
            prepared.append([])
    return [comparable(tokens) for tokens in read(recognizer, prepared)]


def _print_table(
    labels: Sequence[dict[str, str]],
    truths: Sequence[list[str]],
    results: dict[str, list[list[str]]],
) -> None:
    members: dict[str, list[int]] = defaultdict(list)
    for index, label in enumerate(labels):
        members[label["kind"]].append(index)
    print(f"| kind | images | {' | '.join(results)} |")
    print("| --- | ---: |" + " ---: |" * len(results))
    for kind, indices in [*sorted(members.items()), ("all", list(range(len(labels))))]:
        cells = []
        for found in results.values():
            strict = np.mean([found[i] == truths[i] for i in indices])
            loose = np.mean([_lower(found[i]) == _lower(truths[i]) for i in indices])
            cells.append(f"{strict:.1%} / {loose:.1%}")
        print(f"| {kind} | {len(indices)} | {' | '.join(cells)} |")


def _lower(tokens: Sequence[str]) -> list[str]:
    return [token.lower() if len(token) == 1 else token for token in tokens]


if __name__ == "__main__":
    main()
