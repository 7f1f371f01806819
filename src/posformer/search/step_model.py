"""What a network must offer to be searched."""

from typing import Protocol, TypeVar

import numpy as np

__all__ = ["State", "StepModel"]

State = TypeVar("State")


class StepModel(Protocol[State]):
    """A decoder over encoded images that goes on from a state, one or more tokens at a time.

    Rows are hypotheses, laid out as (images, rows): the rows of an image share its keys and
    values. One set of weights decodes both ways; only the first token tells the direction.
    """

    def start(self) -> State:
        """The state before the first token, for all encoded images, without rows."""

    def step(self, tokens: np.ndarray, state: State) -> tuple[np.ndarray, State]:
        """Feed tokens and read the distribution of what follows each of them.

        Args:
            tokens: int64 (images, rows, steps); steps is 1 while decoding, and a whole
                sequence when hypotheses are rescored.
            state: what came before these tokens.

        Returns:
            Log-probabilities float32 (images, rows, steps, words) and the state behind them.
        """

    def select(self, state: State, images: np.ndarray, rows: np.ndarray) -> State:
        """Keep some images, and some rows of each.

        Args:
            state: a state with rows.
            images: int64 (kept,), numbers of the images that stay.
            rows: int64 (kept, new rows), for each of them the rows that stay; repeats allowed.
        """
