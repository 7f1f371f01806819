"""The interface between the search and a decoder."""

from typing import Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

State = TypeVar("State")


class StepModel(Protocol[State]):
    """A decoder over a batch of encoded images that advances by one or more tokens per call.

    All beams of an image share its encoder features. The same weights decode in both directions:
    only the first token tells the direction.
    """

    def start(self) -> State:
        """Return the state before the first token of every image."""

    def step(self, tokens: NDArray[np.int64], state: State) -> tuple[NDArray[np.float32], State]:
        """Return the distribution of the token that follows each given token.

        Args:
            tokens: int64 (batch, beams, steps); one step while decoding, full sequences when
                hypotheses are rescored.
            state: The state before these tokens.

        Returns:
            Log-probabilities, float32 (batch, beams, steps, vocab_size), and the state after
            these tokens.
        """

    def select(self, state: State, images: NDArray[np.int64], beams: NDArray[np.int64]) -> State:
        """Return the state of some images and, for each, of some beams.

        Args:
            state: A state returned by `start`, `step` or `select`. Before the first token, an
                image has one beam.
            images: int64 (new batch,), batch indices of the images to keep.
            beams: int64 (new batch, new beams), beam indices to keep; repeats are allowed.
        """
