"""Pictures of different sizes as one array; needs no PyTorch."""

from collections.abc import Sequence

import numpy as np

__all__ = ["pad_pictures"]

_CELL = 16  # the encoder's map has one cell for 16×16 pixels


def pad_pictures(
    pictures: Sequence[np.ndarray], whole_cells: bool = True
) -> tuple[np.ndarray, np.ndarray]:
    """Puts pictures into one batch.

    Each picture is first padded with paper to whole cells; that much counts as the picture. What is
    added beyond, to bring all to one size, is padding.

    Args:
        pictures: uint8 (height, width) each, 255 is ink.
        whole_cells: leave the first step out if not; the authors' program does without it.

    Returns:
        float32 (pictures, 1, height, width) with ink 1, and bool (pictures, height, width), true on
        padding.
    """
    cell = _CELL if whole_cells else 1
    sizes = -(-np.array([picture.shape for picture in pictures]) // cell) * cell
    height, width = sizes.max(axis=0)
    batch = np.zeros((len(pictures), 1, height, width), np.float32)
    padding = np.ones((len(pictures), height, width), bool)
    for number, picture in enumerate(pictures):
        batch[number, 0, : picture.shape[0], : picture.shape[1]] = picture
        padding[number, : sizes[number, 0], : sizes[number, 1]] = False
    batch *= np.float32(1 / 255)
    return batch, padding
