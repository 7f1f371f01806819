"""What the search may decode."""

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray


class Constraint(Protocol):
    """A language to which all hypotheses belong.

    States are immutable; one state describes the tokens decoded so far in one direction.
    """

    def start(self, reverse: bool) -> Any:
        """Return the state before the first token.

        Args:
            reverse: Whether tokens are decoded in the reverse of reading order.
        """

    def advance(self, state: Any, token: int) -> Any:
        """Return the state after another token, which must be allowed."""

    def allowed(self, states: Sequence[Any], remaining: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Return which tokens may come next, the end token included: bool (states, vocab_size).

        Args:
            states: Any number of states.
            remaining: int64 (states,), how many more tokens each hypothesis may have. A token is
                allowed only if the hypothesis can be finished within this number.
        """
