"""Writes a contact sheet of a dataset, or of the symbols of the project's own ink.

python examples/contact_sheet.py SHEET.png --set DATASET.zip [--split S] [--count N] [--columns C]
python examples/contact_sheet.py SHEET.png
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import cv2
import numpy as np
import typer

from posformer.data import open_images
from posformer.ink.render import render
from posformer.synthesis.glyphs import own_bank


def sheet(images: Sequence[np.ndarray], columns: int) -> np.ndarray:
    """Return images in rows and columns, black on white, uint8 (height, width)."""
    rows = [images[start : start + columns] for start in range(0, len(images), columns)]
    widths = [
        max(row[column].shape[1] for row in rows if column < len(row))
        for column in range(min(columns, len(images)))
    ]
    bands = []
    for row in rows:
        band = np.zeros((max(image.shape[0] for image in row), sum(widths)), np.uint8)
        for column, image in enumerate(row):
            middle = (band.shape[0] - image.shape[0]) // 2
            left = sum(widths[:column])
            height, width = image.shape
            band[middle : middle + height, left : left + width] = image
        bands.append(band)
    return 255 - np.concatenate(bands)


def symbols(x_height: float = 18.0, writers: int = 4) -> list[np.ndarray]:
    """Return images of every symbol of the project's own ink by several writers."""
    bank, images = own_bank(), []
    for token in sorted(bank.tokens):
        for writer in bank.writers[:writers]:
            sample = bank.samples(token, writer)[0]
            scale = x_height / sample.unit
            rendered = render([points * scale for points in sample.strokes])[10:-10, 10:-10]
            height, width = rendered.shape
            image = np.zeros((round(4.2 * x_height), width + 12), np.uint8)
            top = round(2.7 * x_height - sample.baseline * scale)
            image[top : top + height, 4 : 4 + width] = rendered
            images.append(image)
    return images


def main(
    output: Annotated[Path, typer.Argument(help="The image to write.")],
    data: Annotated[
        Path | None, typer.Option("--set", help="Dataset of images (default: own symbols).")
    ] = None,
    split: str = "synthetic",
    count: int = 24,
    columns: int = 4,
) -> None:
    """Write a contact sheet."""
    if data is None:
        image = sheet(symbols(), columns=24)
    else:
        found = open_images(data, split)
        image = sheet([found.image(n) for n in range(min(count, len(found)))], columns)
    if np.isin(image, (0, 255)).all():
        cv2.imwrite(str(output), image, [cv2.IMWRITE_PNG_BILEVEL, 1])
    else:  # 16 grey levels are enough and small
        cv2.imwrite(str(output), image // 17 * 17, [cv2.IMWRITE_PNG_COMPRESSION, 9])


if __name__ == "__main__":
    typer.run(main)
