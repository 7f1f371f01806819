"""Images cropped to their ink and brought to the size that a model works at."""

from __future__ import annotations

import cv2
import numpy as np

from posformer.ink.render import resample

__all__ = ["at_working_size", "ink_box"]


def ink_box(image: np.ndarray, margin: int) -> tuple[int, int, int, int]:
    """Where the ink is, with what there is of a margin around it; all of an image without ink.

    Args:
        image: uint8 (height, width), white ink on black.
        margin: Pixels to keep on every side.

    Returns:
        Left, top, right, bottom.
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


def at_working_size(
    image: np.ndarray, scale: float, margin: int | None, max_pixels: int
) -> np.ndarray:
    """What a model is given of an image in the size of CROHME's.

    Args:
        image: uint8 (height, width), white ink on black.
        scale: Of the model against CROHME's images.
        margin: Pixels, before scaling, left around the ink; None to leave all.
        max_pixels: A larger result is made smaller still.
    """
    if margin is not None:
        left, top, right, bottom = ink_box(image, margin)
        image = image[top:bottom, left:right]
    height, width = image.shape
    scale *= min(1.0, float(np.sqrt(max_pixels / (height * width * scale**2))))
    size = max(1, int(height * scale)), max(1, int(width * scale))
    return resample(np.ascontiguousarray(image), *size)
