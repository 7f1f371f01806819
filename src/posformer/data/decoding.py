"""Picture files of a data set as arrays of white ink on black."""

import io
from typing import Literal

import cv2
import numpy as np
from PIL import Image

from posformer.data.files import DataError, Files
from posformer.ink.loading import PictureError, load_picture

__all__ = ["Polarity", "decode_picture", "read_size"]

Polarity = Literal["auto", "light", "dark"]
"""Which ink a picture has: `light` on dark ground, `dark` on light ground, or `auto`, where the
median of the picture's border pixels tells its ground."""

_HEADER_BYTES = 4096
_ORIENTATION = 0x0112  # EXIF's number for it
_ON_ITS_SIDE = {5, 6, 7, 8}

# What Pillow raises for bytes that are no picture, or no whole one.
_BROKEN = (OSError, SyntaxError, ValueError, IndexError, Image.DecompressionBombError)


def decode_picture(data: bytes, polarity: Polarity = "auto") -> np.ndarray:
    """Decode a picture file of any common format; colour becomes grey.

    Args:
        data: The bytes of the file.
        polarity: What ink the picture has.

    Returns:
        uint8 (height, width), white ink on black.

    Raises:
        DataError: When the bytes are not a whole picture.
    """
    try:
        picture = load_picture(data)
    except PictureError as error:
        raise DataError(str(error)) from error
    grey = picture if picture.ndim == 2 else cv2.cvtColor(picture, cv2.COLOR_RGB2GRAY)
    if polarity == "dark" or (polarity == "auto" and _has_light_ground(grey)):
        return 255 - grey
    return np.array(grey)


def _has_light_ground(grey: np.ndarray) -> bool:
    border = np.concatenate([grey[0], grey[-1], grey[:, 0], grey[:, -1]])
    return bool(np.median(border) > 127)


def read_size(files: Files, path: str) -> tuple[int, int]:
    """Read height and width of a picture; the beginning of the file is nearly always enough.

    Raises:
        DataError: When the file is not a picture.
    """
    try:
        return _size_of(files.read(path, _HEADER_BYTES))
    except _BROKEN:
        pass
    try:
        return _size_of(files.read(path))
    except Image.UnidentifiedImageError as error:
        raise DataError("not a picture") from error
    except _BROKEN as error:
        raise DataError(str(error)) from error


def _size_of(data: bytes) -> tuple[int, int]:
    """Height and width as the picture is shown: a camera may note that it was held on its side."""
    with Image.open(io.BytesIO(data)) as image:
        if image.getexif().get(_ORIENTATION) in _ON_ITS_SIDE:
            return image.width, image.height
        return image.height, image.width
