"""Images of different sizes as one array; needs no PyTorch."""

from collections.abc import Sequence

import numpy as np

__all__ = ["pad_images"]

_CELL = 16  # the encoder's map has one cell for 16×16 pixels


def pad_images(
    images: Sequence[np.ndarray], whole_cells: bool = True
) -> tuple[np.ndarray, np.ndarray]:
    """Puts images into one batch.

    Each image is first padded with paper to whole cells; that much counts as the image. What is
    added beyond, to bring all to one size, is padding.

    Args:
        images: uint8 (height, width) each, 255 is ink.
        whole_cells: leave the first step out if not; the authors' program does without it.

    Returns:
        float32 (images, 1, height, width) with ink 1, and bool (images, height, width), true on
        padding.
    """
    cell = _CELL if whole_cells else 1
    sizes = -(-np.array([image.shape for image in images]) // cell) * cell
    height, width = sizes.max(axis=0)
    batch = np.zeros((len(images), 1, height, width), np.float32)
    padding = np.ones((len(images), height, width), bool)
    for number, image in enumerate(images):
        batch[number, 0, : image.shape[0], : image.shape[1]] = image
        padding[number, : sizes[number, 0], : sizes[number, 1]] = False
    batch *= np.float32(1 / 255)
    return batch, padding
