"""Tokens written out in an image, some of them marked."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache

from PIL import Image, ImageDraw, ImageFont

__all__ = ["Colour", "Word", "line_height", "text_width", "words_height", "write", "write_words"]

Colour = tuple[int, int, int]

_GAP = 0.24  # between words, in sizes of the font
_LEADING = 1.5  # from line to line, in sizes of the font


@dataclass(frozen=True)
class Word:
    """A word and how it looks."""

    text: str
    colour: Colour
    ground: Colour | None = None  # a box behind it


@cache
def _font(size: int) -> ImageFont.FreeTypeFont | ImageFont.ImageFont:
    return ImageFont.load_default(size)  # the one that Pillow brings along: the same everywhere


def line_height(size: int) -> int:
    """Pixels from line to line."""
    return round(size * _LEADING)


def text_width(text: str, size: int) -> int:
    """Pixels that a text takes in a line."""
    return round(_font(size).getlength(text))


def write(
    image: Image.Image, place: tuple[float, float], text: str, size: int, colour: Colour
) -> None:
    """Write a text; `place` is the left end of its middle line."""
    ImageDraw.Draw(image).text(place, text, colour, _font(size), anchor="lm")


def words_height(words: Sequence[Word], size: int, width: int) -> int:
    """Pixels that words take when lines are at most `width` long."""
    lines = 1 + max((line for _, line, _ in _placed(words, size, width)), default=0)
    return lines * line_height(size)


def write_words(
    image: Image.Image, place: tuple[int, int], words: Sequence[Word], size: int, width: int
) -> None:
    """Write words into lines of at most `width` pixels; `place` is the left upper corner."""
    draw = ImageDraw.Draw(image)
    for x, line, word in _placed(words, size, width):
        left, middle = place[0] + x, place[1] + (line + 0.5) * line_height(size)
        if word.ground is not None:
            half, around = 0.62 * size, 0.12 * size
            right = left + text_width(word.text, size)
            box = (left - around, middle - half, right + around, middle + half)
            draw.rounded_rectangle(box, 0.2 * size, word.ground)
        draw.text((left, middle), word.text, word.colour, _font(size), anchor="lm")


def _placed(words: Sequence[Word], size: int, width: int) -> Iterable[tuple[float, int, Word]]:
    """For each word where it begins, in which line it is, and itself."""
    x, line = 0.0, 0
    for word in words:
        length = text_width(word.text, size)
        if x > 0 and x + length > width:
            x, line = 0.0, line + 1
        yield x, line, word
        x += length + _GAP * size
