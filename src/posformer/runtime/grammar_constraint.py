"""The constraint of the search to expressions that LaTeX accepts."""

from collections.abc import Sequence
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from posformer.latex import Vocabulary
from posformer.latex.automaton import Automaton, State


class GrammarConstraint:
    """Allows the tokens of a vocabulary wherever the grammar does; see `Constraint`.

    The masks of all modes of the automaton are computed in advance.
    """

    def __init__(self, vocabulary: Vocabulary) -> None:
        self._automaton = Automaton(vocabulary.tokens)
        self._special = len(vocabulary) - len(vocabulary.tokens)  # they come first
        growth = self._automaton.growth
        modes = len(growth)
        never = np.iinfo(np.int64).max // 2
        by_class = np.array(
            [[never if change is None else change for change in changes] for changes in growth],
            np.int64,
        ).reshape(modes, -1)
        # By how much each token changes the number of tokens that are needed to finish.
        self._growth = np.full((modes, len(vocabulary)), never)
        self._growth[:, self._special :] = by_class[:, self._automaton.class_of]
        # The end is not a token: it must fit even if no more tokens may follow.
        for mode in np.flatnonzero(self._automaton.complete):
            self._growth[mode, [vocabulary.sos, vocabulary.eos]] = -1
        self._allowed = self._growth < never
        self._most_growth = int(self._growth[self._allowed].max(initial=0))

    def start(self, reverse: bool) -> State:
        """Return the state before the first token; see `Constraint`."""
        return self._automaton.start(reverse)

    def advance(self, state: State, token: int) -> State:
        """Return the state after another token."""
        return self._automaton.advance(state, token - self._special)

    def allowed(self, states: Sequence[State], remaining: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Return the tokens that may come next, bool (states, vocab_size)."""
        modes = [state.mode for state in states]
        missing = np.array([state.missing for state in states])
        if (missing + self._most_growth < remaining).all():  # nearly always
            return self._allowed[modes]
        fits: NDArray[np.bool_] = missing[:, None] + self._growth[modes] < remaining[:, None]
        return fits


@lru_cache(maxsize=8)
def grammar_constraint(vocabulary: Vocabulary) -> GrammarConstraint:
    """Return the constraint for a vocabulary; a repeated call returns the same one."""
    return GrammarConstraint(vocabulary)
