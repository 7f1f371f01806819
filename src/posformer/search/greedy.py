"""The best word at every step."""

import numpy as np

from posformer.search.decoding_options import Hypothesis
from posformer.search.step_model import State, StepModel

__all__ = ["greedy"]


def greedy(
    model: StepModel[State],
    sos: int,
    eos: int,
    images: int,
    pad: int = 0,
    max_length: int = 200,
    length_power: float = 1.0,
) -> list[Hypothesis]:
    """Decode every image from left to right with the best word at each step.

    Args:
        model: the network, with its images encoded.
        sos: token before the first.
        eos: token behind the last.
        images: how many images the model holds.
        pad: token that is never chosen.
        max_length: tokens behind which the end is forced.
        length_power: exponent of the length that the sum of log-probabilities is divided by.

    Returns:
        One hypothesis for each image.
    """
    if images == 0:
        return []
    words = np.full((images, max_length + 1), eos, dtype=np.int64)
    sums = np.zeros(images)
    lengths = np.zeros(images, dtype=np.int64)
    open_images = np.arange(images)
    last = np.full(images, sos, dtype=np.int64)
    state = model.start()
    for length in range(max_length + 1):
        output, state = model.step(last[:, None, None], state)
        output = output[:, 0, 0].copy()
        if length == max_length:
            last = np.full(len(open_images), eos, dtype=np.int64)
        else:
            output[:, [pad, sos]] = -np.inf
            last = output.argmax(axis=1)
        words[open_images, length] = last
        sums[open_images] += output[np.arange(len(last)), last]
        lengths[open_images] = length
        going = np.flatnonzero(last != eos)
        if len(going) == 0:
            break
        if len(going) < len(last):
            state = model.select(state, going, np.zeros((len(going), 1), dtype=np.int64))
            open_images, last = open_images[going], last[going]
    scores = sums / (lengths + 1.0) ** length_power
    return [
        Hypothesis(tuple(row[:length].tolist()), float(score), float(score), None)
        for row, length, score in zip(words, lengths, scores, strict=True)
    ]
