"""Draws many expressions, or all symbols of the project's own ink, on one sheet.

python examples/contact_sheet.py SHEET.png --set SET.zip [--split S] [--count N] [--columns C]
python examples/contact_sheet.py SHEET.png
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import cv2
import numpy as np
import typer

from posformer.data import open_pictures
from posformer.ink.glyphs import own_bank
from posformer.ink.render import render


def sheet(pictures: Sequence[np.ndarray], columns: int) -> np.ndarray:
    """Pictures in rows and columns, black on white, uint8 (height, width)."""
    rows = [pictures[start : start + columns] for start in range(0, len(pictures), columns)]
    widths = [
        max(row[column].shape[1] for row in rows if column < len(row))
        for column in range(min(columns, len(pictures)))
    ]
    bands = []
    for row in rows:
        band = np.zeros((max(picture.shape[0] for picture in row), sum(widths)), np.uint8)
        for column, picture in enumerate(row):
            middle = (band.shape[0] - picture.shape[0]) // 2
            left = sum(widths[:column])
            height, width = picture.shape
            band[middle : middle + height, left : left + width] = picture
        bands.append(band)
    return 255 - np.concatenate(bands)


def symbols(x_height: float = 18.0, writers: int = 4) -> list[np.ndarray]:
    """Every symbol of the project's own ink by some writers, on a common baseline."""
    bank, pictures = own_bank(), []
    for token in sorted(bank.tokens):
        for writer in bank.writers[:writers]:
            sample = bank.samples(token, writer)[0]
            scale = x_height / sample.unit
            drawn = render([points * scale for points in sample.strokes])[10:-10, 10:-10]
            height, width = drawn.shape
            picture = np.zeros((round(4.2 * x_height), width + 12), np.uint8)
            top = round(2.7 * x_height - sample.baseline * scale)
            picture[top : top + height, 4 : 4 + width] = drawn
            pictures.append(picture)
    return pictures


def main(
    output: Annotated[Path, typer.Argument(help="The picture to write.")],
    data: Annotated[Path | None, typer.Option("--set", help="Pictures; own symbols else.")] = None,
    split: str = "synthetic",
    count: int = 24,
    columns: int = 4,
) -> None:
    """Draw a contact sheet."""
    if data is None:
        picture = sheet(symbols(), columns=24)
    else:
        found = open_pictures(data, split)
        picture = sheet([found.picture(n) for n in range(min(count, len(found)))], columns)
    cv2.imwrite(str(output), picture, [cv2.IMWRITE_PNG_BILEVEL, 1])


if __name__ == "__main__":
    typer.run(main)
