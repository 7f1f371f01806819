"""Examples with what a model makes of them, on one sheet."""

from collections.abc import Sequence
from dataclasses import dataclass

import cv2
import numpy as np
from PIL import Image, ImageDraw

from posformer.evaluation.token_alignment import Pair, align
from posformer.explain.lettering import Colour, Word, line_height, words_height, write, write_words

__all__ = ["Example", "draw_sheet"]

_COLUMNS = 3
_CARD, _MARGIN, _BAR = 380, 12, 5  # pixels: width of a card, around things, of the coloured edge
_IMAGE = 96  # most pixels of an image's height
_SIZE = 13

_INK: Colour = (40, 40, 50)
_GREY: Colour = (125, 125, 138)
_RIGHT: Colour = (36, 138, 72)
_WRONG: Colour = (196, 38, 38)
_MISSING: Colour = (250, 222, 160)
_PALE_RED: Colour = (252, 214, 212)
_PAPER: Colour = (255, 255, 255)


@dataclass(frozen=True)
class Example:
    """An image, its text, and what a model read."""

    image: np.ndarray  # uint8 (height, width), white ink on black
    truth: tuple[str, ...]
    prediction: tuple[str, ...]

    @property
    def is_right(self) -> bool:
        """Whether every token is."""
        return self.truth == self.prediction


def draw_sheet(examples: Sequence[Example], title: str) -> np.ndarray:
    """Cards in columns: right readings with a green edge, wrong ones red, differences marked.

    Returns:
        uint8 (height, width, 3).
    """
    cards = [_card(example) for example in examples]
    columns: list[list[Image.Image]] = [[] for _ in range(min(_COLUMNS, len(cards)))]
    for number, card in enumerate(cards):
        columns[number % _COLUMNS].append(card)
    heights = [sum(card.height + _MARGIN for card in column) for column in columns]
    top = line_height(_SIZE) + 2 * _MARGIN
    width = _MARGIN + (_CARD + _MARGIN) * max(len(columns), 1)
    sheet = Image.new("RGB", (width, top + max(heights, default=0)), (238, 238, 243))
    write(sheet, (_MARGIN, top / 2), title, _SIZE + 2, _INK)
    for number, column in enumerate(columns):
        below = top
        for card in column:
            sheet.paste(card, (_MARGIN + number * (_CARD + _MARGIN), below))
            below += card.height + _MARGIN
    return np.asarray(sheet)


def _card(example: Example) -> Image.Image:
    image = _fitted(example.image)
    lines = _lines(example)
    left, width = _BAR + _MARGIN, _CARD - _BAR - 2 * _MARGIN
    heights = [words_height(words, _SIZE, width) for words in lines]
    card = Image.new("RGB", (_CARD, image.height + sum(heights) + 2 * _MARGIN), _PAPER)
    edge = _RIGHT if example.is_right else _WRONG
    ImageDraw.Draw(card).rectangle((0, 0, _BAR - 1, card.height), edge)
    card.paste(image, (left, _MARGIN))
    below = image.height + _MARGIN + 4
    for words, height in zip(lines, heights, strict=True):
        write_words(card, (left, below), words, _SIZE, width)
        below += height
    return card


def _fitted(image: np.ndarray) -> Image.Image:
    height, width = image.shape
    scale = min((_CARD - _BAR - 2 * _MARGIN) / width, _IMAGE / height, 1.5)
    size = max(1, round(width * scale)), max(1, round(height * scale))
    shrinks = cv2.INTER_AREA if scale < 1 else cv2.INTER_CUBIC
    return Image.fromarray(255 - cv2.resize(image, size, interpolation=shrinks)).convert("RGB")


def _lines(example: Example) -> list[list[Word]]:
    """The text; below it, if it is another, what was read."""
    if example.is_right:
        return [[Word(token, _RIGHT) for token in example.truth]]
    pairs = align(example.truth, example.prediction)
    truth = [_truth_word(pair) for pair in pairs if pair.truth is not None]
    read = [_read_word(pair) for pair in pairs if pair.prediction is not None]
    return [truth, [*read] or [Word("nothing", _GREY)]]


def _truth_word(pair: Pair) -> Word:
    return Word(str(pair.truth), _INK, None if pair.kind == "same" else _MISSING)


def _read_word(pair: Pair) -> Word:
    if pair.kind == "same":
        return Word(str(pair.prediction), _GREY)
    return Word(str(pair.prediction), _WRONG, _PALE_RED)
