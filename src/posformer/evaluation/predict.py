"""Predictions of a model for a whole dataset."""

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from rich.console import Console
from rich.progress import track

from posformer.data import drop_known_texts, list_splits, load_ink, open_images
from posformer.errors import DataError
from posformer.evaluation.predictions import Prediction
from posformer.ink import render
from posformer.runtime import Calibration, Runtime, confidences, decode_images
from posformer.search import DecodingOptions, Hypothesis

_BATCH_IMAGES = 64  # images held in memory and sorted by size at a time


@dataclass(frozen=True)
class EvaluationSet:
    """Images with their captions, loaded one at a time."""

    names: list[str]
    captions: list[tuple[str, ...]]  # ground truth of each expression, as tokens
    image: Callable[[int], np.ndarray]
    """Returns the image of an index, uint8 (height, width), white ink on black."""

    def __len__(self) -> int:
        return len(self.names)

    def find_image(self, name: str) -> np.ndarray | None:
        """Return the image of a name, uint8 (height, width), white ink on black, or None."""
        return self.image(self.names.index(name)) if name in self.names else None


def open_set(
    path: str | os.PathLike[str], split: str, known: str | None = None, limit: int | None = None
) -> EvaluationSet:
    """Open a split of an image dataset, or of an ink dataset, which is rendered as CROHME's images.

    Args:
        path: Zip archive or folder.
        split: Name of the split, such as `2014`.
        known: Another split of the same ink dataset; expressions that occur in it are excluded.
        limit: Maximum number of examples.

    Raises:
        DataError: If there is no such split; lists the available splits.
    """
    if split in list_splits(path):
        if known is not None:
            raise DataError(f"{path}: texts of '{known}' can be left out of ink datasets only")
        images = open_images(path, split)[:limit]
        return EvaluationSet([e.name for e in images], [e.tokens for e in images], images.image)
    try:
        inks = load_ink(path, split)
    except DataError as error:
        found = ", ".join(list_splits(path)) or "none"
        raise DataError(f"{path}: no split {split!r}: images of {found}; {error}") from error
    inks = (inks if known is None else drop_known_texts(inks, load_ink(path, known)))[:limit]
    names, captions = [ink.name for ink in inks], [ink.tokens for ink in inks]
    return EvaluationSet(names, captions, lambda index: render(inks[index].strokes))


def decode_set(
    runtime: Runtime, examples: EvaluationSet, options: DecodingOptions
) -> Iterator[list[Hypothesis]]:
    """Yield the hypotheses of every image in order, with a progress bar on a terminal."""
    starts = range(0, len(examples), _BATCH_IMAGES)
    decoded = (
        hypotheses
        for indices in (range(len(examples))[first : first + _BATCH_IMAGES] for first in starts)
        for hypotheses in decode_images(runtime, [examples.image(i) for i in indices], options)
    )
    console = Console(stderr=True)
    silent = not console.is_terminal
    yield from track(
        decoded, "Recognizing", len(examples), console=console, transient=True, disable=silent
    )


def predict(
    runtime: Runtime, examples: EvaluationSet, options: DecodingOptions
) -> Iterator[Prediction]:
    """Yield a prediction for each image, with the same confidence as `Recognizer`.

    The prediction is empty for an image without hypotheses.
    """
    calibration = Calibration.from_info(runtime.info)
    decoded = decode_set(runtime, examples, options)
    for name, caption, best in zip(examples.names, examples.captions, decoded, strict=True):
        tokens = runtime.vocabulary.decode(best[0].tokens) if best else []
        confidence = confidences(best, calibration)[0] if best else 0.0
        yield Prediction(name, caption, tuple(tokens), confidence)
