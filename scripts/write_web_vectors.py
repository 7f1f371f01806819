"""Write test vectors for the JavaScript package: inputs, and what Python makes of them.

    python scripts/write_web_vectors.py OUTPUT --strokes 60 --photographs 100
    python scripts/write_web_vectors.py OUTPUT --images ../shared/data/photos/dev/img

OUTPUT/vectors.json describes the vectors, OUTPUT/arrays.bin holds the pixels of their images.
Without --images, the inputs are the examples and the project's own hand, also as simulated
photographs. `web/test/replay.js` compares them with JavaScript's results.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np

from posformer import DecodingOptions, Recognizer
from posformer.errors import PosformerError
from posformer.image.camera import Camera
from posformer.image.loading import load_image
from posformer.image.preparation import input_kind
from posformer.ink import AlignedInk, read_ink, render, render_aligned, strokes_in_pixels
from posformer.ink.aligned import bounds
from posformer.latex.automaton import Automaton
from posformer.latex.output_formats import FORMATS
from posformer.latex.symbols import SYMBOLS
from posformer.latex.syntax import is_valid
from posformer.runtime.decoding import decode_images
from posformer.runtime.engine import Runtime
from posformer.synthesis.synthesizer import Synthesizer

EXAMPLES = Path(__file__).parents[1] / "examples"
ENVIRONMENTS = ("array", "cases", "pmatrix", "aligned", "vmatrix")
OPTIONS: tuple[dict[str, Any], ...] = (
    {},
    {},
    {"top_k": 3},
    {"adaptive": False},
    {"greedy": True},
    {"scales": 3, "beam": 2, "adaptive": False},
    {"directions": "forward", "rescore": False},
    {"constrained": False, "top_k": 2},
    {"max_length": 6},
    {"stopping": "certain", "length_power": 0.5, "top_k": 2, "scales": 1},
    {"scales": 3},
    {"scales": 1, "beam": 5},
    {"language_weight": 0.0},
    {"language_weight": 0.5, "adaptive": False},
    {"language_weight": 2.0, "top_k": 3, "length_power": 0.5},
)


class Writer:
    """Collects vectors and the pixels of their images."""

    def __init__(self, output: Path) -> None:
        output.mkdir(parents=True, exist_ok=True)
        self._output = output
        self._arrays = (output / "arrays.bin").open("wb")
        self.vectors: dict[str, list[Any]] = {
            "strokes": [],
            "photographs": [],
            "grammar": [],
            "formats": [],
            "language": [],
        }

    def image(self, pixels: np.ndarray) -> dict[str, int]:
        """Store an image; return where it is."""
        height, width, *rest = pixels.shape
        place = {"offset": self._arrays.tell(), "width": width, "height": height}
        self._arrays.write(np.ascontiguousarray(pixels, np.uint8).tobytes())
        return {**place, "channels": rest[0] if rest else 1}

    def close(self) -> None:
        """Finish both files."""
        self._arrays.close()
        text = json.dumps(self.vectors, ensure_ascii=False)
        (self._output / "vectors.json").write_text(text, "utf-8")


def camel_case(options: dict[str, Any]) -> dict[str, Any]:
    """Return options by their names in JavaScript."""
    known = {field.name for field in fields(DecodingOptions)}
    assert options.keys() <= known
    pairs = {name: name.split("_") for name in options}
    return {
        first + "".join(word.title() for word in rest): options[name]
        for name, (first, *rest) in pairs.items()
    }


def expected(
    recognizer: Recognizer, source: Any, options: dict[str, Any], writer: Writer
) -> dict[str, Any]:
    """Return what Python makes of a source."""
    try:
        images = recognizer.prepare(source, split=recognizer.splits_lines)
        found = recognizer.recognize(source, **options)
    except PosformerError as error:
        return {"error": str(error), "prepared": [], "hypotheses": []}
    decoded = decode_images(recognizer.runtime, images, DecodingOptions(**options))
    return {
        "prepared": [writer.image(image) for image in images],
        "hypotheses": [
            [
                {
                    "tokens": list(one.tokens),
                    "score": one.score,
                    "forward": one.forward,
                    "backward": one.backward,
                }
                for one in hypotheses
            ]
            for hypotheses in decoded
        ],
        "answer": {**found.to_dict(), "unsure": found.is_unsure},
        "error": found.error,
    }


def own_inks(count: int, seed: int) -> Iterator[AlignedInk]:
    """Yield formulas of the grammar in the project's own hand."""
    synthesizer = Synthesizer.own()
    rng = np.random.default_rng(seed)
    for number in range(count):
        yield synthesizer.make(rng, name=f"own-{number}")


def stroke_sets(count: int, seed: int, examples: bool) -> Iterator[tuple[str, list[np.ndarray]]]:
    """Yield ink in different units, and some with several lines."""
    for path in sorted(EXAMPLES.glob("*.inkml")) if examples else ():
        yield path.name, [np.asarray(stroke, float) for stroke in read_ink(path).strokes]
    yield "a dot", [np.array([[3.0, 4.0]])]
    yield "a bar", [np.array([[0.0, 0.0], [70.5, 2.25]])]
    rng = np.random.default_rng(seed)
    before: list[np.ndarray] = []
    for ink in own_inks(count, seed):
        strokes = [np.asarray(stroke, float) * rng.uniform(0.2, 40) for stroke in ink.strokes]
        kind = rng.integers(4)
        if kind == 1:
            strokes = [np.rint(stroke) for stroke in strokes]
        elif kind == 2:
            strokes = [np.round(stroke - 55.5, 2) for stroke in strokes]
        elif kind == 3 and before:  # below the one before
            strokes = stacked(before, strokes, rng.uniform(0.3, 2.5))
        yield ink.name, strokes
        before = strokes


def stacked(
    upper: Sequence[np.ndarray], lower: Sequence[np.ndarray], gap: float
) -> list[np.ndarray]:
    """Put ink below other ink, in one unit, with a gap in heights of a stroke."""
    parts = []
    for strokes in (upper, lower):
        unit = np.mean([np.ptp(stroke[:, 1]) for stroke in strokes]) or 1.0
        parts.append([np.asarray(stroke, float) / unit for stroke in strokes])
    bottom = bounds(np.concatenate(parts[0]))[1][1]
    top = bounds(np.concatenate(parts[1]))[0][1]
    shift = np.array([0.0, bottom - top + gap])
    return [*parts[0], *(stroke + shift for stroke in parts[1])]


def photographs(count: int, seed: int, examples: bool) -> Iterator[tuple[str, np.ndarray]]:
    """Yield the example images, simulated photographs, some in color, and clean images."""
    for path in sorted(EXAMPLES.glob("*.png")) if examples else ():
        yield path.name, load_image(path)
    camera, rng = Camera(), np.random.default_rng(seed)
    for number, ink in enumerate(own_inks(count, seed + 1)):
        strokes = strokes_in_pixels([np.asarray(stroke, float) for stroke in ink.strokes])
        photo, _ = camera(*render_aligned(replace(ink, strokes=strokes)), rng)
        if number % 3 == 0:  # tinted paper under tinted light
            tint = rng.uniform(0.75, 1.0, 3)
            photo = np.dstack([photo * share for share in tint]).astype(np.uint8)
        yield f"photograph-{number}", photo
        if number % 4 == 1:  # as on a screenshot, and as a rendering
            rendering = render(strokes)
            yield f"clean-{number}", 255 - rendering // 2
            yield f"rendering-{number}", rendering


def grammar_vectors(recognizer: Recognizer, count: int, seed: int) -> Iterator[dict[str, Any]]:
    """Yield random walks through the automaton, with the tokens allowed at each step."""
    tokens = recognizer.runtime.vocabulary.tokens
    automaton = Automaton(tokens)
    common = {*"{}[]^_&", r"\\", r"\sqrt", r"\frac", r"\limits", r"\sum"}
    structure = [index for index, one in enumerate(tokens) if one in common]
    rng = np.random.default_rng(seed)
    for number in range(count):
        state, walk = automaton.start(number % 2 == 1), []
        for _ in range(30):
            growth = automaton.growth[state.mode]
            allowed = [i for i in range(len(tokens)) if growth[automaton.class_of[i]] is not None]
            walk.append({"missing": state.missing, "allowed": len(allowed), "sum": sum(allowed)})
            some = [one for one in structure if one in allowed]
            choice = int(rng.choice(some if some and rng.random() < 0.6 else allowed))
            walk[-1]["next"] = choice
            state = automaton.advance(state, choice)
        yield {"reverse": number % 2 == 1, "walk": walk}


def format_vectors(count: int, seed: int) -> Iterator[dict[str, Any]]:
    """Yield expressions in the output formats: of the grammar, of any valid tokens, and malformed.

    The MathML of the last two is left out: Python's converter does not accept all of them.
    """
    rng = np.random.default_rng(seed)
    tokens = [token for token in SYMBOLS if token not in ("\\root", r"\limits")]
    tokens += [f"\\{side}{{{name}}}" for name in ENVIRONMENTS for side in ("begin", "end")]
    synthesizer = Synthesizer.own()
    for number in range(count):
        if number % 3 == 0:
            expression = synthesizer.make(rng).tokens
        elif number % 3 == 1:
            expression = random_expression(Automaton(tokens), tokens, rng)
        else:
            expression = tuple(map(str, rng.choice(tokens, rng.integers(1, 20))))
        formats = ("latex", "markdown", "typst", *(["mathml"] if number % 3 == 0 else []))
        texts = {name: FORMATS[name](expression) for name in formats}
        yield {"tokens": list(expression), "valid": is_valid(expression), "texts": texts}


def random_expression(
    automaton: Automaton, tokens: Sequence[str], rng: np.random.Generator
) -> tuple[str, ...]:
    """Return a random valid expression."""
    state, found = automaton.start(), []
    while not automaton.complete[state.mode] or len(found) < 15:
        growth = [automaton.growth[state.mode][number] for number in automaton.class_of]
        limit = 3 if len(found) < 15 else -1
        allowed = [index for index, cost in enumerate(growth) if cost is not None and cost <= limit]
        index = int(rng.choice(allowed or [i for i, cost in enumerate(growth) if cost is not None]))
        found.append(tokens[index])
        state = automaton.advance(state, index)
    return tuple(found)


def language_vectors(runtime: Runtime, count: int, seed: int) -> Iterator[dict[str, Any]]:
    """Yield formulas, some with random tokens, and their probabilities by the language model."""
    language, vocabulary = runtime.language, runtime.vocabulary
    if language is None:
        return
    rng = np.random.default_rng(seed)
    for number, ink in enumerate(own_inks(count, seed)):
        tokens = [vocabulary.index(token) for token in ink.tokens if token in vocabulary]
        if number % 3 == 0:
            places = rng.integers(len(tokens) + 1, size=3)
            tokens = np.insert(tokens, places, rng.integers(len(vocabulary), size=3)).tolist()
        weight, power = rng.uniform(0.1, 2.0), (1.0, 0.5, 0.0)[number % 3]
        yield {
            "tokens": tokens,
            "mean": language.mean_log_probability(tokens),
            "weight": weight,
            "lengthPower": power,
            "prior": language.prior(weight, power)(tuple(tokens)),
        }


def main() -> None:
    """Write the vectors."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("output", type=Path)
    parser.add_argument("--model", type=Path, help="Model folder (default: the bundled model).")
    parser.add_argument("--strokes", type=int, default=0, help="Formulas in the project's hand.")
    parser.add_argument("--photographs", type=int, default=0, help="Simulated photographs.")
    parser.add_argument("--images", type=Path, help="Folder of further images.")
    parser.add_argument("--ink", type=Path, help="Folder of further files of ink.")
    parser.add_argument("--no-examples", dest="examples", action="store_false")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    recognizer = Recognizer.load(given.model)
    writer = Writer(given.output)
    if given.strokes:
        writer.vectors["grammar"] = [*grammar_vectors(recognizer, 100, given.seed)]
        writer.vectors["formats"] = [*format_vectors(300, given.seed)]
        writer.vectors["language"] = [*language_vectors(recognizer.runtime, 100, given.seed)]
    inks = [*stroke_sets(given.strokes, given.seed, given.examples)] if given.strokes else []
    if given.ink:
        for path in sorted(given.ink.rglob("*.inkml")):
            document = read_ink(path)
            inks.append((path.name, [np.asarray(one, float) for one in document.strokes]))
    for number, (name, strokes) in enumerate(inks):
        options = OPTIONS[number % len(OPTIONS)] if given.strokes else {}
        points = [stroke[:, :2].tolist() for stroke in strokes]
        vector = {"name": name, "strokes": points, "options": camel_case(options)}
        vector |= expected(recognizer, points, options, writer)
        writer.vectors["strokes"].append(vector)
    pictures: Iterator[tuple[str, np.ndarray]] = iter(())
    if given.photographs:
        pictures = photographs(given.photographs, given.seed, given.examples)
    paths = sorted(given.images.iterdir()) if given.images else []
    for name, image in [*pictures, *((path.name, load_image(path)) for path in paths)]:
        vector = {"name": name, "image": writer.image(image), "options": {}}
        vector["kind"] = input_kind(image)
        vector |= expected(recognizer, image, {}, writer)
        writer.vectors["photographs"].append(vector)
    writer.close()


if __name__ == "__main__":
    main()
