"""Predictions of a model for a whole dataset."""

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import TypeVar

import numpy as np
from rich.console import Console
from rich.progress import track

from posformer.data import ImageDataset, drop_known_texts, list_splits, load_ink, open_images
from posformer.errors import DataError
from posformer.evaluation.conventions import comparable
from posformer.evaluation.predictions import Prediction
from posformer.evaluation.rescoring import Rescorer
from posformer.image.preparation import InputKind, Preprocessing
from posformer.ink import render
from posformer.runtime import Calibrations, Runtime, confidences, decode_images
from posformer.search import DecodingOptions, Hypothesis

_Decoded = TypeVar("_Decoded")

LINE_BREAK = r"\\"
_BATCH_IMAGES = 64  # images held in memory and sorted by size at a time


@dataclass(frozen=True)
class EvaluationSet:
    """Images with their captions, loaded one at a time."""

    names: list[str]
    captions: list[tuple[str, ...]]  # ground truth of each expression, as tokens
    image: Callable[[int], np.ndarray]
    """Returns the image of an index, uint8 (height, width), white ink on black."""
    photographs: ImageDataset | None = None
    """The same examples, if they are photographs."""

    def __len__(self) -> int:
        return len(self.names)

    def input_kind(self, index: int) -> InputKind:
        """Return what kind of input an image is to `Recognizer`."""
        return "ink" if self.photographs is None else self.photographs.input_kind(index)

    def find_image(self, name: str) -> np.ndarray | None:
        """Return the image of a name, uint8 (height, width), white ink on black, or None."""
        return self.image(self.names.index(name)) if name in self.names else None


def open_set(
    path: str | os.PathLike[str],
    split: str,
    known: str | None = None,
    limit: int | None = None,
    preprocessing: Preprocessing = "grey",
) -> EvaluationSet:
    """Open a split of an image dataset, or of an ink dataset, which is rendered as CROHME's images.

    Args:
        path: Zip archive or folder.
        split: Name of the split, such as `2014`.
        known: Another split of the same ink dataset; expressions that occur in it are excluded.
        limit: Maximum number of examples.
        preprocessing: How photographs are prepared: `image.preprocessing` of the model.

    Raises:
        DataError: If there is no such split; lists the available splits.
    """
    if split in list_splits(path):
        if known is not None:
            raise DataError(f"{path}: texts of '{known}' can be left out of ink datasets only")
        images = open_images(path, split, preprocessing=preprocessing)[:limit]
        photographs = images if any(example.kind for example in images) else None
        captions = [
            comparable(one.tokens) if photographs else one.tokens for one in images.examples
        ]
        names = [one.name for one in images.examples]
        return EvaluationSet(names, captions, images.image, photographs)
    try:
        inks = load_ink(path, split)
    except DataError as error:
        found = ", ".join(list_splits(path)) or "none"
        raise DataError(f"{path}: no split {split!r}: images of {found}; {error}") from error
    inks = (inks if known is None else drop_known_texts(inks, load_ink(path, known)))[:limit]
    names, captions = [ink.name for ink in inks], [ink.tokens for ink in inks]
    return EvaluationSet(names, captions, lambda index: render(inks[index].strokes))


def decode_set(
    runtime: Runtime, examples: EvaluationSet, options: DecodingOptions, split: bool = False
) -> Iterator[list[list[Hypothesis]]]:
    """Yield the hypotheses of every image in order, with a progress bar on a terminal.

    Args:
        runtime: A loaded model.
        examples: The images.
        options: How to search.
        split: Split formulas that stand below each other in photographs; an image then has
            several lists of hypotheses.
    """

    def formulas(index: int) -> list[np.ndarray]:
        if split and examples.photographs is not None:
            return list(examples.photographs.formulas(index))
        return [examples.image(index)]

    def decode(indices: Sequence[int]) -> Iterator[list[list[Hypothesis]]]:
        images = [formulas(index) for index in indices]
        found = iter(decode_images(runtime, list(chain(*images)), options))
        return ([next(found) for _ in parts] for parts in images)

    return decode_each(examples, decode)


def decode_each(
    examples: EvaluationSet, decode: Callable[[Sequence[int]], Iterable[_Decoded]]
) -> Iterator[_Decoded]:
    """Yield the result of a function for every image in order, with a progress bar on a terminal.

    Args:
        examples: The images.
        decode: Returns the results for the images of some indices.
    """
    starts = range(0, len(examples), _BATCH_IMAGES)
    decoded = (
        result
        for first in starts
        for result in decode(range(len(examples))[first : first + _BATCH_IMAGES])
    )
    console = Console(stderr=True)
    silent = not console.is_terminal
    yield from track(
        decoded, "Recognizing", len(examples), console=console, transient=True, disable=silent
    )


def predict(
    runtime: Runtime,
    examples: EvaluationSet,
    options: DecodingOptions,
    rescorer: Rescorer | None = None,
) -> Iterator[Prediction]:
    r"""Yield a prediction for each image, with the same confidence as `Recognizer`.

    The prediction is empty for an image without hypotheses. Formulas that stand below each other
    in photographs are joined by line breaks, and their tokens are those of `comparable`, as in
    their captions.

    Args:
        runtime: A loaded model.
        examples: The images.
        options: How to search.
        rescorer: Language model that ranks the `top_k` hypotheses again.
    """
    calibrations = Calibrations.from_info(runtime.info)
    decoded = decode_set(runtime, examples, options, LINE_BREAK not in runtime.vocabulary)
    for index, formulas in enumerate(decoded):
        if rescorer is not None:
            formulas = [
                rescorer.rank(one, runtime.vocabulary) if len(one) > 1 else one for one in formulas
            ]
        best = [hypotheses[0] for hypotheses in formulas if hypotheses]
        lines = [runtime.vocabulary.decode(one.tokens) for one in best]
        tokens = tuple(token for line in lines for token in (LINE_BREAK, *line))[1:]
        calibration = calibrations.of(examples.input_kind(index))
        confidence = float(np.prod([confidences(one, calibration)[0] for one in formulas if one]))
        if examples.photographs is None:
            about = {}
        else:
            tokens = comparable(tokens)
            example = examples.photographs[index]
            about = {"kind": example.kind, "source": example.source}
        name, caption = examples.names[index], examples.captions[index]
        yield Prediction(name, caption, tokens, confidence if best else 0.0, **about)
