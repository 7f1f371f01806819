"""Search in both directions and all views, and what each thinks of the others' hypotheses."""

import math
from collections.abc import Callable

import numpy as np

from posformer.search.beam import Direction, Finished, decode
from posformer.search.decoding_options import DecodingOptions, Hypothesis
from posformer.search.greedy import greedy
from posformer.search.step_model import State, StepModel

__all__ = ["search"]

# tokens -> score float64 (views, directions), NaN where it is unknown
Scores = dict[tuple[int, ...], np.ndarray]


def search(
    model: StepModel[State],
    options: DecodingOptions,
    sos: int,
    eos: int,
    images: int,
    pad: int = 0,
    is_well_formed: Callable[[tuple[int, ...]], bool] | None = None,
) -> list[list[Hypothesis]]:
    """Find the best token sequences of every expression.

    From left to right a sequence starts behind `sos` and ends with `eos`, from right to left the
    other way round. Each view of an expression is searched by itself; what was found in any of
    them is judged in all.

    Args:
        model: the network, with its images encoded.
        options: how to search.
        sos: start token.
        eos: end token.
        images: how many images the model holds: `views` of each expression.
        pad: token that is never chosen.
        is_well_formed: whether a sequence is valid; those that are not rank behind all that
            are. Greedy search finds but one in a view, and gives the one that scores best.

    Returns:
        For every expression up to `top_k` distinct sequences, best first.
    """
    if images == 0:
        return []
    starts = range(0, images, options.views)
    if options.is_greedy:
        seen = greedy(model, sos, eos, images, pad, options.max_length, options.length_power)
        views = (seen[start : start + options.views] for start in starts)
        return [[max(found, key=lambda hypothesis: hypothesis.score)] for found in views]
    directions = (Direction(sos, eos, reverse=False), Direction(eos, sos, reverse=True))
    searched = directions if options.directions == "both" else directions[:1]
    pools = decode(model, options, searched, images, pad)
    found = [_merge(pools[start : start + options.views]) for start in starts]
    sound = [
        {tokens for tokens in scores if not is_well_formed or is_well_formed(tokens)}
        for scores in found
    ]
    if options.rescore:
        found = [
            _contenders(scores, meant, options.top_k)
            for scores, meant in zip(found, sound, strict=True)
        ]
        _rescore(model, found, directions, options)
    return [_rank(scores, meant, options) for scores, meant in zip(found, sound, strict=True)]


def _merge(pools: list[list[list[Finished]]]) -> Scores:
    """Join what the views and directions found of one expression; each has its own score."""
    scores: Scores = {}
    for view, directions in enumerate(pools):
        for direction, pool in enumerate(directions):
            for hypothesis in pool:
                table = scores.setdefault(hypothesis.tokens, np.full((len(pools), 2), np.nan))
                table[view, direction] = hypothesis.score
    return scores


def _contenders(scores: Scores, sound: set[tuple[int, ...]], top_k: int) -> Scores:
    """Leave out what cannot come among the best, since an unknown score is at most zero.

    The sequences that every view found in both directions need no rescoring and set the mark to
    reach.
    """
    if len(sound) < top_k:
        return scores
    scores = {tokens: table for tokens, table in scores.items() if tokens in sound}
    known = sorted(float(table.sum()) for table in scores.values() if not np.isnan(table).any())
    mark = known[-top_k] if len(known) >= top_k else -math.inf
    return {tokens: table for tokens, table in scores.items() if np.nansum(table) >= mark}


def _rescore(
    model: StepModel[State],
    found: list[Scores],
    directions: tuple[Direction, Direction],
    options: DecodingOptions,
) -> None:
    """Fill in the unknown scores with one call of the network for all images."""
    views = options.views
    missing = [
        (expression * views + view, tokens, direction, table)
        for expression, scores in enumerate(found)
        for view in range(views)
        for tokens, table in scores.items()
        for direction in np.flatnonzero(np.isnan(table[view]))
    ]
    if not missing:
        return
    images, rows = _rows([image for image, *_ in missing])
    steps = 1 + max(len(tokens) for _, tokens, *_ in missing)
    # What stands behind a sequence is never looked at: any token will do as padding.
    sequences = np.full(
        (len(found) * views, rows.max() + 1, steps + 1), directions[0].end, np.int64
    )
    counted = np.zeros((*sequences.shape[:2], steps), dtype=bool)
    for image, row, (_, tokens, number, _) in zip(images, rows, missing, strict=True):
        way = directions[number]
        sequence = (way.start, *(reversed(tokens) if way.reverse else tokens), way.end)
        sequences[image, row, : len(sequence)] = sequence
        counted[image, row, : len(sequence) - 1] = True
    output, _ = model.step(sequences[..., :-1], model.start())
    gains = np.take_along_axis(output, sequences[..., 1:, None], axis=-1)[..., 0]
    sums = np.where(counted, gains, 0.0).sum(axis=-1, dtype=np.float64)
    means = sums / np.maximum(counted.sum(axis=-1), 1) ** options.length_power
    for image, row, (_, _, number, table) in zip(images, rows, missing, strict=True):
        table[image % views, number] = means[image, row]


def _rows(images: list[int]) -> tuple[np.ndarray, np.ndarray]:
    """Give each entry of a sorted list of images the next free row of its image."""
    numbers = np.array(images)
    first = np.searchsorted(numbers, numbers, side="left")
    return numbers, np.arange(len(numbers)) - first


def _rank(
    scores: Scores, sound: set[tuple[int, ...]], options: DecodingOptions
) -> list[Hypothesis]:
    """The best sequences of one expression, sound ones first; of equal ones the smaller tokens."""
    ranked = []
    for tokens, table in scores.items():
        forward, backward = table.mean(axis=0)
        score = forward + backward if options.rescore else np.nanmax(table)
        ranked.append(Hypothesis(tokens, float(score), _known(forward), _known(backward)))
    ranked.sort(key=lambda one: (one.tokens not in sound, -one.score, one.tokens))
    return ranked[: options.top_k]


def _known(score: float) -> float | None:
    return None if math.isnan(score) else float(score)
