"""The bundled model recognizes simulated photos nearly as well as clean images.

Each scene is applied to 200 expressions with fixed seeds.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import pytest
from distort import SCENES, photograph

from posformer import Recognizer
from posformer.data import load_ink
from posformer.errors import PosformerError
from posformer.ink.render import render
from posformer.synthesis.synthesizer import in_pixels, open_synthesizer

COUNT = 200
SCENE_NAMES = (
    "plain",
    "inverse",
    "blackboard",
    "red",
    "alpha",
    "ruled",
    "squared",
    "shadow",
    "jpeg",
    "noise",
    "thin",
    "thick",
    "turned",
    "five times",
    "phone",
    "all together",
)


@dataclass(frozen=True)
class Expressions:
    """Clean images, their captions, and whether the model recognizes them."""

    images: list[np.ndarray]
    captions: list[tuple[str, ...]]
    correct: np.ndarray  # bool (expressions,)


@pytest.fixture(scope="module")
def recognizer() -> Recognizer:
    return Recognizer.load()


def is_correct(
    recognizer: Recognizer, images: Iterable[np.ndarray], captions: Sequence[tuple[str, ...]]
) -> np.ndarray:
    found = recognizer.attempt_many(images)
    return np.array(
        [
            not isinstance(result, PosformerError) and result.tokens == caption
            for result, caption in zip(found, captions, strict=True)
        ]
    )


def own_expressions() -> list:
    synthesizer = open_synthesizer(max_tokens=20)
    rng = np.random.default_rng(0)
    return [in_pixels(synthesizer.make(rng)) for _ in range(COUNT)]


@pytest.fixture(scope="module")
def expressions(recognizer, request) -> Expressions:
    """From CROHME 2013; without the data, synthetic ones in the project's own ink."""
    try:
        inks = load_ink(request.getfixturevalue("crohme_ink_zip"), "2013")
        inks = [inks[index] for index in np.linspace(0, len(inks) - 1, COUNT).astype(int)]
    except pytest.skip.Exception:
        inks = own_expressions()
    images, captions = [render(ink.strokes) for ink in inks], [ink.tokens for ink in inks]
    return Expressions(images, captions, is_correct(recognizer, images, captions))


@pytest.mark.slow
@pytest.mark.parametrize("name", SCENE_NAMES)
def test_photos_are_recognized_nearly_as_well_as_clean_images(name, expressions, recognizer):
    scene = SCENES[name]
    photos = (photograph(one, scene, seed)[0] for seed, one in enumerate(expressions.images))
    correct = is_correct(recognizer, photos, expressions.captions)
    print(f"{name}: {correct.sum()} correct, clean images: {expressions.correct.sum()}")
    assert correct.sum() >= 0.9 * expressions.correct.sum()
