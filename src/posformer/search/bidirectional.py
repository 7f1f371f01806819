"""Search in both directions, and what each direction thinks of the other's hypotheses."""

import math
from collections.abc import Callable

import numpy as np

from posformer.search.beam import Direction, Finished, decode
from posformer.search.greedy import greedy
from posformer.search.interface import State, StepModel
from posformer.search.options import Hypothesis, SearchOptions

__all__ = ["search"]

Scores = dict[tuple[int, ...], list[float]]  # tokens -> score of each direction, NaN if unknown


def search(
    model: StepModel[State],
    options: SearchOptions,
    sos: int,
    eos: int,
    pictures: int,
    pad: int = 0,
    is_sound: Callable[[tuple[int, ...]], bool] | None = None,
) -> list[list[Hypothesis]]:
    """Find the best token sequences of every picture.

    From left to right a sequence starts behind `sos` and ends with `eos`, from right to left the
    other way round.

    Args:
        model: the network, with its pictures encoded.
        options: how to search.
        sos: start token.
        eos: end token.
        pictures: how many pictures the model holds.
        pad: token that is never chosen.
        is_sound: whether a sequence can be meant at all; those that cannot come behind all that
            can. Greedy search finds but one, and gives it.

    Returns:
        For every picture up to `top_k` distinct sequences, best first.
    """
    if pictures == 0:
        return []
    if options.is_greedy:
        best = greedy(model, sos, eos, pictures, pad, options.max_length, options.length_power)
        return [[hypothesis] for hypothesis in best]
    directions = (Direction(sos, eos, reverse=False), Direction(eos, sos, reverse=True))
    searched = directions if options.directions == "both" else directions[:1]
    found = [_merge(pools) for pools in decode(model, options, searched, pictures, pad)]
    sound = [{tokens for tokens in scores if not is_sound or is_sound(tokens)} for scores in found]
    if options.rescore:
        found = [
            _contenders(scores, meant, options.top_k)
            for scores, meant in zip(found, sound, strict=True)
        ]
        _rescore(model, found, directions, options.length_power)
    return [_rank(scores, meant, options) for scores, meant in zip(found, sound, strict=True)]


def _merge(pools: list[list[Finished]]) -> Scores:
    """Join what the directions found in one picture; each has its own score of a sequence."""
    scores: Scores = {}
    for direction, pool in enumerate(pools):
        for hypothesis in pool:
            scores.setdefault(hypothesis.tokens, [math.nan, math.nan])
            scores[hypothesis.tokens][direction] = hypothesis.score
    return scores


def _contenders(scores: Scores, sound: set[tuple[int, ...]], top_k: int) -> Scores:
    """Leave out what cannot come among the best, since the other direction adds at most zero.

    The sequences that both directions found need no rescoring and set the mark to reach.
    """
    if len(sound) < top_k:
        return scores
    scores = {tokens: pair for tokens, pair in scores.items() if tokens in sound}
    known = sorted(sum(pair) for pair in scores.values() if not math.isnan(sum(pair)))
    mark = known[-top_k] if len(known) >= top_k else -math.inf
    return {tokens: pair for tokens, pair in scores.items() if np.nanmax(pair) >= mark}


def _rescore(
    model: StepModel[State],
    found: list[Scores],
    directions: tuple[Direction, Direction],
    length_power: float,
) -> None:
    """Fill in the unknown scores with one call of the network for all pictures."""
    missing = [
        (picture, tokens, direction)
        for picture, scores in enumerate(found)
        for tokens, pair in scores.items()
        for direction in (0, 1)
        if math.isnan(pair[direction])
    ]
    if not missing:
        return
    pictures, rows = _rows([picture for picture, _, _ in missing])
    steps = 1 + max(len(tokens) for _, tokens, _ in missing)
    # What stands behind a sequence is never looked at: any token will do as padding.
    sequences = np.full((len(found), rows.max() + 1, steps + 1), directions[0].end, np.int64)
    counted = np.zeros((*sequences.shape[:2], steps), dtype=bool)
    for picture, row, (_, tokens, number) in zip(pictures, rows, missing, strict=True):
        way = directions[number]
        sequence = (way.start, *(reversed(tokens) if way.reverse else tokens), way.end)
        sequences[picture, row, : len(sequence)] = sequence
        counted[picture, row, : len(sequence) - 1] = True
    output, _ = model.step(sequences[..., :-1], model.start())
    gains = np.take_along_axis(output, sequences[..., 1:, None], axis=-1)[..., 0]
    sums = np.where(counted, gains, 0.0).sum(axis=-1, dtype=np.float64)
    means = sums / np.maximum(counted.sum(axis=-1), 1) ** length_power
    for picture, row, (_, tokens, number) in zip(pictures, rows, missing, strict=True):
        found[picture][tokens][number] = float(means[picture, row])


def _rows(pictures: list[int]) -> tuple[np.ndarray, np.ndarray]:
    """Give each entry of a sorted list of pictures the next free row of its picture."""
    numbers = np.array(pictures)
    first = np.searchsorted(numbers, numbers, side="left")
    return numbers, np.arange(len(numbers)) - first


def _rank(scores: Scores, sound: set[tuple[int, ...]], options: SearchOptions) -> list[Hypothesis]:
    """The best sequences of one picture, sound ones first; of equal ones the smaller tokens."""
    combine = sum if options.rescore else np.nanmax
    ranked = [
        Hypothesis(tokens, float(combine(pair)), _known(pair[0]), _known(pair[1]))
        for tokens, pair in scores.items()
    ]
    ranked.sort(key=lambda one: (one.tokens not in sound, -one.score, one.tokens))
    return ranked[: options.top_k]


def _known(score: float) -> float | None:
    return None if math.isnan(score) else score
