"""Greedy search: the best token at each step."""

from collections.abc import Sequence

import numpy as np

from posformer.search.constraint import Constraint
from posformer.search.decoding_options import Hypothesis
from posformer.search.step_model import State, StepModel


def greedy_search(
    model: StepModel[State],
    sos: int,
    eos: int,
    batch: int,
    pad: int = 0,
    max_length: int = 200,
    length_power: float = 1.0,
    constraint: Constraint | None = None,
    limits: Sequence[int] | None = None,
) -> list[Hypothesis]:
    """Decode every image from left to right with the best token at each step.

    Args:
        model: The decoder, with its images encoded.
        sos: Start token.
        eos: End token.
        batch: Number of images in the model.
        pad: Padding token, which is never chosen.
        max_length: Number of tokens after which the end is forced.
        length_power: See `DecodingOptions.length_power`.
        constraint: The language of the hypotheses; any tokens if None.
        limits: Maximum number of tokens of each image; `max_length` for all if None.

    Returns:
        One hypothesis per image.
    """
    if batch == 0:
        return []
    tokens = np.full((batch, max_length + 1), eos, dtype=np.int64)
    totals = np.zeros(batch)
    lengths = np.zeros(batch, dtype=np.int64)
    active = np.arange(batch)
    last = np.full(batch, sos, dtype=np.int64)
    longest = np.minimum(max_length, limits or [max_length] * batch)
    states = [constraint.start(reverse=False)] * batch if constraint else []
    state = model.start()
    for length in range(max_length + 1):
        output, state = model.step(last[:, None, None], state)
        log_probabilities = output[:, 0, 0].copy()
        remaining = longest[active] - length
        log_probabilities[:, [pad, sos]] = -np.inf
        if constraint:
            allowed = constraint.allowed(states, remaining)
            log_probabilities[~allowed] = -np.inf
        last = np.where(remaining > 0, log_probabilities.argmax(axis=1), eos)
        tokens[active, length] = last
        totals[active] += log_probabilities[np.arange(len(last)), last]
        lengths[active] = length
        unfinished = np.flatnonzero(last != eos)
        if len(unfinished) == 0:
            break
        if len(unfinished) < len(last):
            state = model.select(state, unfinished, np.zeros((len(unfinished), 1), dtype=np.int64))
            active, last = active[unfinished], last[unfinished]
        if constraint:
            states = [
                constraint.advance(states[beam], token)
                for beam, token in zip(unfinished.tolist(), last.tolist(), strict=True)
            ]
    scores = totals / (lengths + 1.0) ** length_power
    return [
        Hypothesis(tuple(sequence[:length].tolist()), float(score), float(score), None)
        for sequence, length, score in zip(tokens, lengths, scores, strict=True)
    ]
