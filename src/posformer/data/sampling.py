"""What training asks of anything that gives examples: images, ink or made-up expressions."""

from typing import Protocol

import numpy as np

__all__ = ["Sample", "Sampler"]


class Sample(Protocol):
    """One example with all random choices made, but not rendered yet."""

    @property
    def name(self) -> str:
        """Which example it is."""

    @property
    def tokens(self) -> tuple[str, ...]:
        """The expression in caption form."""

    @property
    def height(self) -> int:
        """Height in pixels of the image that `render` will give."""

    @property
    def width(self) -> int:
        """Width in pixels of the image that `render` will give."""

    def render(self) -> tuple[np.ndarray, np.ndarray | None]:
        """Make the image.

        Returns:
            The image, uint8 (height, width), white ink on black; and, where the ink is known,
            the box of every token in pixels, float32 (tokens, 4) as left, top, right, bottom,
            NaN for a token without ink.
        """


class Sampler(Protocol):
    """A supply of training examples."""

    def __len__(self) -> int:
        """How many examples an epoch has."""

    def sample(self, index: int, rng: np.random.Generator) -> Sample:
        """Make all random choices for one example; cheap, for nothing is rendered."""
