"""Search with decoders that emit several tokens per step.

The tokens of one step are independent of each other given the steps before, so that the best
combinations of them are found exactly. Every combination becomes a token of its own: greedy and
beam search then run as with any other decoder.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic

import numpy as np
from numpy.typing import NDArray

from posformer.search.step_model import State, StepModel

Step = tuple[int, ...]  # the tokens of one step
_SPECIAL = 3  # pad, start and end


@dataclass(frozen=True)
class JointState(Generic[State]):
    """State of the decoder, and the inputs of the latest step of every beam."""

    inner: State
    inputs: tuple[tuple[Step, ...], ...]  # (batch, beams); empty before the first step


class JointStepModel(Generic[State]):
    """Steps of a decoder with several tokens each as tokens of a step model.

    The end token of the search stands for the step in which all tokens are the end.

    Args:
        model: The decoder. Its third axis holds the tokens of one step, padded with `pad`.
        next_inputs: Returns the inputs that follow the inputs and the decoded tokens of a step.
        count: How many combinations are considered for each beam and step.
        sos: Input of the first step, and start token of the search.
        eos: End token.
        pad: Padding token.
    """

    def __init__(
        self,
        model: StepModel[State],
        next_inputs: Callable[[Step, Step], Step],
        count: int,
        sos: int,
        eos: int,
        pad: int = 0,
    ) -> None:
        self._model, self._next_inputs, self._count = model, next_inputs, count
        self._sos, self._eos, self._pad = sos, eos, pad
        self._steps: list[Step] = [(number,) for number in range(_SPECIAL)]
        self._numbers: dict[Step, int] = {}

    def steps(self, tokens: Sequence[int]) -> tuple[Step, ...]:
        """Return the steps that tokens of the search stand for."""
        return tuple(self._steps[token] for token in tokens)

    def start(self) -> JointState[State]:
        """Return the state before the first step."""
        return JointState(self._model.start(), ())

    def step(
        self, tokens: NDArray[np.int64], state: JointState[State]
    ) -> tuple[NDArray[np.float32], JointState[State]]:
        """Return the distribution of the next step; the axis of tokens grows with the steps seen.

        Args:
            tokens: int64 (batch, beams, 1).
            state: The state before.
        """
        batch, beams, _ = tokens.shape
        if state.inputs:
            inputs = tuple(
                tuple(
                    self._next_inputs(before, self._steps[token])
                    for before, token in zip(row, chosen, strict=True)
                )
                for row, chosen in zip(state.inputs, tokens[..., 0].tolist(), strict=True)
            )
        else:
            inputs = (((self._sos,),) * beams,) * batch
        slots = max(len(one) for row in inputs for one in row)
        padded = np.full((batch, beams, slots), self._pad, np.int64)
        for index, row in enumerate(inputs):
            for beam, one in enumerate(row):
                padded[index, beam, : len(one)] = one
        output, inner = self._model.step(padded, state.inner)
        found = [
            (index, beam, *self._combine(output[index, beam, : len(one)]))
            for index, row in enumerate(inputs)
            for beam, one in enumerate(row)
        ]
        scores = np.full((batch, beams, 1, len(self._steps)), -np.inf, np.float32)
        for index, beam, numbers, totals, end in found:
            scores[index, beam, 0, numbers] = totals
            scores[index, beam, 0, self._eos] = end
        return scores, JointState(inner, inputs)

    def select(
        self, state: JointState[State], images: NDArray[np.int64], beams: NDArray[np.int64]
    ) -> JointState[State]:
        """Return the state of some images and, for each, of some beams."""
        inputs = tuple(
            tuple(state.inputs[image][beam] for beam in chosen)
            for image, chosen in zip(images.tolist(), beams.tolist(), strict=True)
        )
        return JointState(self._model.select(state.inner, images, beams), inputs)

    def _combine(self, log_probs: NDArray[np.float32]) -> tuple[list[int], list[float], float]:
        """Return the numbers and scores of the best combinations, and the score of the end.

        Args:
            log_probs: float32 (tokens of the step, vocab_size).
        """
        end = float(log_probs[:, self._eos].sum())
        best: list[tuple[float, Step]] = [(0.0, ())]
        for slot in log_probs:
            # One more than needed, because the combination of ends is left out.
            tokens = np.argsort(-slot, kind="stable")[: self._count + 1]
            longer = [
                (total + float(slot[token]), (*step, token))
                for total, step in best
                for token in tokens.tolist()
                if slot[token] > -np.inf
            ]
            best = sorted(longer, key=lambda one: -one[0])[: self._count + 1]
        kept = [one for one in best if any(token != self._eos for token in one[1])][: self._count]
        return [self._number(step) for _, step in kept], [total for total, _ in kept], end

    def _number(self, step: Step) -> int:
        if step not in self._numbers:
            self._numbers[step] = len(self._steps)
            self._steps.append(step)
        return self._numbers[step]
