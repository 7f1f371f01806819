"""Reads a whole data set with a model and keeps what it predicted."""

import os
from collections.abc import Callable, Iterator
from functools import cached_property

import numpy as np
from rich.console import Console
from rich.progress import track

from posformer.data import drop_known_texts, list_splits, load_ink, open_images
from posformer.errors import DataError
from posformer.evaluation.predictions import Prediction
from posformer.ink import render
from posformer.runtime import Calibration, Runtime, confidences, decode_images
from posformer.search import DecodingOptions

__all__ = ["EvaluationSet", "open_set", "predict", "predict_watched"]

_TOGETHER = 64  # images held in memory and grouped by size at a time


class EvaluationSet:
    """Images with their captions, one at a time."""

    def __init__(
        self, names: list[str], captions: list[tuple[str, ...]], draw: Callable[[int], np.ndarray]
    ) -> None:
        self.names, self.captions, self.image = names, captions, draw

    def __len__(self) -> int:
        return len(self.names)

    def find_image(self, name: str) -> np.ndarray | None:
        """The image of a name, uint8 (height, width), white ink on black; None without one."""
        number = self._numbers.get(name)
        return None if number is None else self.image(number)

    @cached_property
    def _numbers(self) -> dict[str, int]:
        return {name: number for number, name in enumerate(self.names)}


def open_set(
    path: str | os.PathLike[str], split: str, known: str | None = None, limit: int | None = None
) -> EvaluationSet:
    """Opens a split of a set of images, or of ink, which is then drawn as CROHME draws it.

    Args:
        path: zip or folder.
        split: which part, such as `2014`.
        known: a split of the same set of ink whose texts are left out, as validation demands.
        limit: only so many examples.
    """
    if split in list_splits(path):
        if known is not None:
            raise DataError(f"{path}: texts of '{known}' can be left out of sets of ink only")
        images = open_images(path, split)[:limit]
        names, captions = [e.name for e in images], [e.tokens for e in images]
        return EvaluationSet(names, captions, images.image)
    try:
        inks = load_ink(path, split)
    except DataError as error:
        found = ", ".join(list_splits(path)) or "none"
        raise DataError(f"{path}: no split {split!r}: images of {found}; {error}") from error
    if known is not None:
        inks = drop_known_texts(inks, load_ink(path, known))
    inks = inks[:limit]
    names, captions = [ink.name for ink in inks], [ink.tokens for ink in inks]
    return EvaluationSet(names, captions, lambda index: render(inks[index].strokes))


def predict(
    runtime: Runtime, examples: EvaluationSet, options: DecodingOptions
) -> Iterator[Prediction]:
    """What a model reads in each image, as sure as `Recognizer` would be of it.

    An image without any reading gives an empty one.
    """
    calibration = Calibration.from_info(runtime.info)
    for first in range(0, len(examples), _TOGETHER):
        numbers = range(first, min(first + _TOGETHER, len(examples)))
        found = decode_images(runtime, [examples.image(number) for number in numbers], options)
        for number, best in zip(numbers, found, strict=True):
            tokens = runtime.vocabulary.decode(best[0].tokens) if best else []
            sure = confidences(best, calibration)[0] if best else 0.0
            yield Prediction(examples.names[number], examples.captions[number], tuple(tokens), sure)


def predict_watched(
    runtime: Runtime, examples: EvaluationSet, options: DecodingOptions
) -> Iterator[Prediction]:
    """`predict` with a bar on stderr where a person watches."""
    console = Console(stderr=True)
    return iter(
        track(
            predict(runtime, examples, options),
            "Reading",
            total=len(examples),
            console=console,
            transient=True,
            disable=not console.is_terminal,
        )
    )
