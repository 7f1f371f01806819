"""Image files of a data set as arrays of white ink on black."""

import io
from typing import Literal

import cv2
import numpy as np
from PIL import Image

from posformer.data.storage import Files
from posformer.errors import DataError, ImageError
from posformer.image.loading import load_image

__all__ = ["Polarity", "decode_image", "read_size"]

Polarity = Literal["auto", "light", "dark"]
"""Which ink an image has: `light` on dark ground, `dark` on light ground, or `auto`, where the
median of the image's border pixels tells its ground."""

_HEADER_BYTES = 4096
_ORIENTATION = 0x0112  # EXIF's number for it
_ON_ITS_SIDE = {5, 6, 7, 8}

# What Pillow raises for bytes that are no image, or no whole one.
_BROKEN = (OSError, SyntaxError, ValueError, IndexError, Image.DecompressionBombError)


def decode_image(data: bytes, polarity: Polarity = "auto") -> np.ndarray:
    """Decode an image file of any common format; colour becomes grey.

    Args:
        data: The bytes of the file.
        polarity: What ink the image has.

    Returns:
        uint8 (height, width), white ink on black.

    Raises:
        DataError: When the bytes are not a whole image.
    """
    try:
        image = load_image(data)
    except ImageError as error:
        raise DataError(str(error)) from error
    grey = image if image.ndim == 2 else cv2.cvtColor(image, cv2.COLOR_RGB2GRAY)
    if polarity == "dark" or (polarity == "auto" and _has_light_ground(grey)):
        return 255 - grey
    return np.array(grey)


def _has_light_ground(grey: np.ndarray) -> bool:
    border = np.concatenate([grey[0], grey[-1], grey[:, 0], grey[:, -1]])
    return bool(np.median(border) > 127)


def read_size(files: Files, path: str) -> tuple[int, int]:
    """Read height and width of an image; the beginning of the file is nearly always enough.

    Raises:
        DataError: When the file is not an image.
    """
    try:
        return _size_of(files.read(path, _HEADER_BYTES))
    except _BROKEN:
        pass
    try:
        return _size_of(files.read(path))
    except Image.UnidentifiedImageError as error:
        raise DataError("not an image") from error
    except _BROKEN as error:
        raise DataError(str(error)) from error


def _size_of(data: bytes) -> tuple[int, int]:
    """Height and width as the image is shown: a camera may note that it was held on its side."""
    with Image.open(io.BytesIO(data)) as image:
        if image.getexif().get(_ORIENTATION) in _ON_ITS_SIDE:
            return image.width, image.height
        return image.height, image.width
