"""Cropping images to their ink and resizing them to the resolution of a model."""

from __future__ import annotations

import cv2
import numpy as np
from numpy.typing import NDArray


def ink_box(image: NDArray[np.uint8], margin: int) -> tuple[int, int, int, int]:
    """Return the bounding box of the ink, extended by a margin.

    Args:
        image: uint8 (height, width), white ink on black.
        margin: Pixels added on every side, as far as the image reaches.

    Returns:
        Left, top, right, bottom. The whole image if there is no ink.
    """
    height, width = image.shape
    left, top, ink_width, ink_height = cv2.boundingRect((image > 127).astype(np.uint8))
    if not ink_width:
        return 0, 0, width, height
    return (
        max(left - margin, 0),
        max(top - margin, 0),
        min(left + ink_width + margin, width),
        min(top + ink_height + margin, height),
    )


def fit_scale(
    height: float, width: float, max_pixels: int | None, max_size: tuple[int, int] | None
) -> float:
    """Return the largest factor at which an image respects the limits; infinity without limits.

    Args:
        height: Height of the image.
        width: Width of the image.
        max_pixels: Maximum area in pixels.
        max_size: Maximum height and width.
    """
    factors = [np.inf]
    if max_pixels is not None:
        factors.append(np.sqrt(max_pixels / (height * width)))
    if max_size is not None:
        factors += [max_size[0] / height, max_size[1] / width]
    return float(min(factors))


def covering_box(x: float, y: float, width: float, height: float) -> tuple[int, int, int, int]:
    """Return the smallest integer box (left, top, right, bottom) that covers a rectangle."""
    return int(x), int(y), int(np.ceil(x + width)), int(np.ceil(y + height))


def resample(image: NDArray[np.uint8], height: int, width: int) -> NDArray[np.uint8]:
    """Resize an image: area averaging when it shrinks, linear interpolation when it grows.

    Args:
        image: uint8 (any height, any width).
        height: Height of the result.
        width: Width of the result.

    Returns:
        uint8 (height, width).
    """
    if image.shape == (height, width):
        return image
    method = cv2.INTER_AREA if height * width < image.size else cv2.INTER_LINEAR
    return np.asarray(cv2.resize(image, (width, height), interpolation=method), np.uint8)


def at_working_size(
    image: NDArray[np.uint8], scale: float, margin: int | None, max_pixels: int
) -> NDArray[np.uint8]:
    """Crop an image of CROHME's size to its ink and resize it for a model.

    Args:
        image: uint8 (height, width), white ink on black.
        scale: Scale of the model's images relative to CROHME's.
        margin: Pixels, before scaling, kept around the ink; None to keep the whole image.
        max_pixels: A larger result is scaled down to this area.

    Returns:
        uint8 (new height, new width), white ink on black.
    """
    if margin is not None:
        left, top, right, bottom = ink_box(image, margin)
        image = image[top:bottom, left:right]
    height, width = image.shape
    scale *= min(1.0, float(np.sqrt(max_pixels / (height * width * scale**2))))
    size = max(1, int(height * scale)), max(1, int(width * scale))
    return resample(np.ascontiguousarray(image), *size)
