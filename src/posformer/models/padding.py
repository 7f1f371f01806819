"""Batches of images of different sizes; needs no PyTorch."""

from collections.abc import Sequence

import numpy as np

from posformer.models.model_config import STRIDE


def pad_images(
    images: Sequence[np.ndarray], whole_cells: bool = True
) -> tuple[np.ndarray, np.ndarray]:
    """Return a batch of images and its padding.

    Every image is first extended with paper to whole cells of the feature map; this border counts
    as part of the image. What is added to bring all images to one size is padding.

    Args:
        images: uint8 (height, width) each, 255 is ink.
        whole_cells: whether to extend images to whole cells; the authors' program does not.

    Returns:
        float32 (batch, 1, height, width) with ink 1, and bool (batch, height, width), true on
        padding.
    """
    cell = STRIDE if whole_cells else 1
    sizes = -(-np.array([image.shape for image in images]) // cell) * cell
    height, width = sizes.max(axis=0)
    batch = np.zeros((len(images), 1, height, width), np.float32)
    padding = np.ones((len(images), height, width), bool)
    for number, image in enumerate(images):
        batch[number, 0, : image.shape[0], : image.shape[1]] = image
        padding[number, : sizes[number, 0], : sizes[number, 1]] = False
    batch *= np.float32(1 / 255)
    return batch, padding
