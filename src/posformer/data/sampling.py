"""The interface between training and its data: images, ink or synthetic expressions."""

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from posformer.errors import DataError


class Sample(Protocol):
    """A training example. All random choices are made, but the image is not rendered yet."""

    @property
    def name(self) -> str:
        """Name of the example."""

    @property
    def tokens(self) -> tuple[str, ...]:
        """The caption."""

    @property
    def height(self) -> int:
        """Height in pixels of the image that `render` returns."""

    @property
    def width(self) -> int:
        """Width in pixels of the image that `render` returns."""

    def render(self) -> tuple[NDArray[np.uint8], NDArray[np.float32] | None]:
        """Render the image.

        Returns:
            The image, uint8 (height, width), white ink on black. For ink also the bounding boxes
            of the tokens in pixels, float32 (tokens, 4): left, top, right, bottom; NaN for a
            token without ink. None for other examples.
        """


class Sampler(Protocol):
    """A source of training examples."""

    def __len__(self) -> int:
        """Number of examples per epoch."""

    def sample(self, index: int, rng: np.random.Generator) -> Sample:
        """Make all random choices for one example, without rendering it."""


def check_scale_range(scale_range: tuple[float, float] | None) -> None:
    """Check the range of a scale augmentation.

    Raises:
        DataError: If it is not (smallest, largest) above 0.
    """
    if scale_range is not None and not 0 < scale_range[0] <= scale_range[1]:
        raise DataError(f"scale_range {scale_range} is not (smallest, largest) above 0")
