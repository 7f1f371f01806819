"""Contact sheet: validation images with ground truth and prediction."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.patches import Rectangle

from posformer.evaluation.token_alignment import align
from posformer.plotting import ColoredToken, canvas, draw_tokens, figure_pixels, token_lines

_COLUMNS = 3
_CARD, _MARGIN, _EDGE = 290, 10, 4  # points: width of a card, margins, colored edge
_IMAGE_HEIGHT = 72
_SIZE = 9.5  # font size

_INK, _GRAY, _PAPER, _GROUND = "#28282f", "#6b6b78", "#ffffff", "#eeeef3"
_CORRECT, _WRONG = "#0072b2", "#c04f00"  # distinct with every kind of color vision
_EXPECTED_BACKGROUND, _WRONG_BACKGROUND = "#d9ecf8", "#fde6d3"


@dataclass(frozen=True)
class Example:
    """An image, its ground truth, and a prediction."""

    image: np.ndarray  # uint8 (height, width), white ink on black
    truth: tuple[str, ...]
    prediction: tuple[str, ...]

    @property
    def is_correct(self) -> bool:
        """Return whether every token is correct."""
        return self.truth == self.prediction


@dataclass
class _Card:
    example: Example
    image_size: tuple[float, float]
    lines: list[list[ColoredToken]]
    height: float


def draw_sheet(examples: Sequence[Example], title: str) -> np.ndarray:
    """Draw cards in columns: correct ones with a blue edge, wrong ones with an orange edge.

    Wrong cards show the ground truth above the prediction, with differing tokens highlighted.

    Returns:
        uint8 (height, width, 3).
    """
    columns = [
        [_layout(example) for example in examples[column::_COLUMNS]]
        for column in range(min(_COLUMNS, max(1, len(examples))))
    ]
    top = 3 * _MARGIN
    height = top + max(sum(card.height + _MARGIN for card in column) for column in columns)
    figure, axes = canvas(_MARGIN + (_CARD + _MARGIN) * len(columns), height)
    figure.set_facecolor(_GROUND)
    style = {"color": _INK, "fontsize": _SIZE + 2, "va": "center"}
    axes.text(_MARGIN, top / 2, title, **style, parse_math=False)
    for number, column in enumerate(columns):
        y: float = top
        for card in column:
            _draw_card(axes, card, _MARGIN + number * (_CARD + _MARGIN), y)
            y += card.height + _MARGIN
    return figure_pixels(figure)


def _layout(example: Example) -> _Card:
    height, width = example.image.shape
    scale = min((_CARD - _EDGE - 2 * _MARGIN) / width, _IMAGE_HEIGHT / height, 1.5)
    image_size = width * scale, height * scale
    card = _Card(example, image_size, [], image_size[1] + 2.4 * _MARGIN)
    for tokens in _token_rows(example):
        lines, text_height = token_lines(tokens, _CARD - _EDGE - 2 * _MARGIN, _SIZE)
        card.lines += lines
        card.height += text_height
    return card


def _draw_card(axes: Any, card: _Card, left: float, top: float) -> None:
    mark = _CORRECT if card.example.is_correct else _WRONG
    for across, color in ((_CARD, _PAPER), (_EDGE, mark)):  # below the image
        area = Rectangle((left, top), across, card.height, color=color, linewidth=0, zorder=-1)
        axes.add_patch(area)
    left, top = left + _EDGE + _MARGIN, top + _MARGIN
    width, height = card.image_size
    place = {"extent": (left, left + width, top + height, top), "aspect": "auto"}
    axes.imshow(card.example.image, "gray_r", vmin=0, vmax=255, **place)
    draw_tokens(axes, left, top + height + 0.4 * _MARGIN, card.lines, _SIZE)


def _token_rows(example: Example) -> list[list[ColoredToken]]:
    """Return the ground truth and, if it differs, the prediction."""
    if example.is_correct:
        return [[ColoredToken(token, _CORRECT) for token in example.truth]]
    truth, prediction = [], []
    for pair in align(example.truth, example.prediction):
        is_same = pair.kind == "same"
        if pair.truth is not None:
            background = None if is_same else _EXPECTED_BACKGROUND
            truth.append(ColoredToken(pair.truth, _INK, background))
        if pair.prediction is not None:
            colors = (_GRAY, None) if is_same else (_WRONG, _WRONG_BACKGROUND)
            prediction.append(ColoredToken(pair.prediction, *colors))
    return [truth, prediction or [ColoredToken("(empty)", _GRAY)]]
