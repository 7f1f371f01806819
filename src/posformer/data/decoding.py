"""Picture files of any common format as arrays of white ink on black."""

import io
from typing import Literal

import numpy as np
from PIL import Image, ImageOps

from posformer.data.files import DataError, Files

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
    """Decode a picture file of any common format.

    Colour becomes grey, transparency shows the ground, and the orientation a camera noted is
    applied.

    Args:
        data: The bytes of the file.
        polarity: What ink the picture has.

    Returns:
        uint8 (height, width), white ink on black.

    Raises:
        DataError: When the bytes are not a whole picture.
    """
    try:
        with Image.open(io.BytesIO(data)) as image:
            grey = _as_grey(ImageOps.exif_transpose(image), 0 if polarity == "light" else 255)
    except _BROKEN as error:
        raise DataError(_reason(error)) from error
    if polarity == "dark" or (polarity == "auto" and _has_light_ground(grey)):
        return 255 - grey
    return grey


def _reason(error: Exception) -> str:
    if isinstance(error, Image.UnidentifiedImageError):
        return "not a picture"
    return str(error)


def _as_grey(image: Image.Image, ground: int) -> np.ndarray:
    if image.mode.startswith("I;16") or image.mode == "I":
        return (np.asarray(image).astype(np.uint32) >> 8).astype(np.uint8)
    if image.has_transparency_data:
        layers = image.convert("RGBA")
        below = Image.new("RGBA", layers.size, (ground, ground, ground, 255))
        image = Image.alpha_composite(below, layers)
    return np.array(image.convert("L"))


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
    except _BROKEN as error:
        raise DataError(_reason(error)) from error


def _size_of(data: bytes) -> tuple[int, int]:
    with Image.open(io.BytesIO(data)) as image:
        turned = image.format in ("JPEG", "TIFF", "WEBP", "PNG") and (
            image.getexif().get(_ORIENTATION) in _ON_ITS_SIDE
        )
        return (image.width, image.height) if turned else (image.height, image.width)
