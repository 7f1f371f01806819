"""Greedy search that decodes all lines of an expression at once, in one or both directions."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from posformer.search.decoding_options import DecodingOptions, Hypothesis
from posformer.search.step_model import State, StepModel

_Integers = NDArray[np.int64]


@dataclass(frozen=True)
class LineTokens:
    """The special tokens of a decoder of lines."""

    sos: int
    eos: int
    line_break: int  # -1 if the vocabulary has none
    pad: int = 0


def line_search(
    model: StepModel[State], tokens: LineTokens, lines: int, options: DecodingOptions, batch: int
) -> list[list[Hypothesis]]:
    """Decode every image with the best token of every line at each step.

    Left to right, a line ends with a line break or the end token; right to left with the line
    break before it or the start token. A line that ends at once does not exist.

    Args:
        model: The decoder, with its images encoded; a step is one token of each line.
        tokens: Special tokens.
        lines: Maximum number of lines.
        options: Resolved options: directions, scales, `max_length` per line, `length_power`.
        batch: Number of images in the model: `scales` consecutive images per expression.

    Returns:
        For every expression, one hypothesis per direction and scale, best first, without repeats.
    """
    if batch == 0:
        return []
    starts = [tokens.sos, tokens.eos] if options.directions == "both" else [tokens.sos]
    ends = np.array([tokens.eos, tokens.sos][: len(starts)])
    decoded, scores = _decode(model, tokens, np.array(starts), ends, lines, options, batch)
    found: list[list[Hypothesis]] = []
    for first in range(0, batch, options.scales):
        best: dict[tuple[int, ...], Hypothesis] = {}
        for image in range(first, first + options.scales):
            for direction in range(len(starts)):
                one = _join(
                    decoded[image, direction], scores[image, direction], direction, tokens, options
                )
                if one.tokens not in best or one.score > best[one.tokens].score:
                    best[one.tokens] = one
        found.append(sorted(best.values(), key=lambda one: (-one.score, one.tokens)))
    return found


def _decode(
    model: StepModel[State],
    tokens: LineTokens,
    starts: _Integers,
    ends: _Integers,
    lines: int,
    options: DecodingOptions,
    batch: int,
) -> tuple[_Integers, NDArray[np.float64]]:
    """Return tokens and their log-probabilities, (batch, directions, lines, steps).

    A line ends with its last token; padding follows.
    """
    shape = batch, len(starts), lines
    inputs = np.broadcast_to(starts[:, None], shape).copy()
    active = np.ones(shape, dtype=bool)
    state = model.start()
    decoded, scores = [], []
    for length in range(options.max_length + 1):
        rows = int(np.flatnonzero(active.any(axis=(0, 1))).max()) + 1  # the others have ended
        output, state = model.step(inputs[..., :rows], state)
        output = output.astype(np.float64)
        output[..., tokens.pad] = -np.inf
        for direction, start in enumerate(starts):
            output[:, direction, :, start] = -np.inf
        best = output.argmax(axis=-1)
        if length == options.max_length:
            best = np.broadcast_to(ends[:, None], best.shape)
        chosen = np.take_along_axis(output, best[..., None], axis=-1)[..., 0]
        step, score = np.full(shape, tokens.pad, np.int64), np.zeros(shape)
        step[..., :rows], score[..., :rows] = best, chosen
        step[~active], score[~active] = tokens.pad, 0.0
        decoded.append(step)
        scores.append(score)
        ended = (step == ends[:, None]) | (step == tokens.line_break)
        active &= ~ended
        if not active.any():
            break
        inputs = np.where(active, step, tokens.pad)
    return np.stack(decoded, axis=-1), np.stack(scores, axis=-1)


def _join(
    rows: _Integers,
    scores: NDArray[np.float64],
    direction: int,
    tokens: LineTokens,
    options: DecodingOptions,
) -> Hypothesis:
    """Return the expression of decoded lines, (lines, steps)."""
    sequence: list[int] = []
    total, count = 0.0, 0
    for number, (row, row_scores) in enumerate(zip(rows, scores, strict=True)):
        length = int((row != tokens.pad).sum()) - 1  # without its end
        total, count = total + float(row_scores.sum()), count + length + 1
        end, content = int(row[length]), row[:length].tolist()
        if direction == 0:
            sequence += content
            if end != tokens.line_break:
                break
            sequence.append(end)
        elif number > 0 and end != tokens.line_break and not content:
            break
        else:
            sequence += [tokens.line_break] * (number > 0) + content[::-1]
    score = total / count**options.length_power
    known = (score, None) if direction == 0 else (None, score)
    return Hypothesis(tuple(sequence), score, *known)
