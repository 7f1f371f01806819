"""Search in both directions and at several scales, with every hypothesis scored by all of them."""

import math
from collections.abc import Callable, Sequence
from functools import cache

import numpy as np
from numpy.typing import NDArray

from posformer.search.beam import Direction, FinishedHypothesis, beam_search
from posformer.search.decoding_options import DecodingOptions, Hypothesis
from posformer.search.greedy import greedy_search
from posformer.search.step_model import State, StepModel

_Tokens = tuple[int, ...]
_Check = Callable[[_Tokens], bool]
# For each sequence its scores, float64 (scales, 2 directions), NaN where unknown.
_Scores = dict[_Tokens, NDArray[np.float64]]


def search(
    model: StepModel[State],
    options: DecodingOptions,
    sos: int,
    eos: int,
    batch: int,
    pad: int = 0,
    is_well_formed: _Check | None = None,
) -> list[list[Hypothesis]]:
    """Find the best token sequences of every expression.

    Left to right, a sequence starts with `sos` and ends with `eos`; right to left it is the other
    way round. Each scale of an expression is searched separately; the hypotheses of all scales
    are then scored at every scale.

    Args:
        model: The decoder, with its images encoded.
        options: How to search.
        sos: Start token.
        eos: End token.
        batch: Number of images in the model: `scales` consecutive images per expression.
        pad: Padding token, which is never chosen.
        is_well_formed: Tells whether a sequence is valid; invalid ones rank after all valid ones.
            Greedy search has one hypothesis and ignores it.

    Returns:
        For every expression, up to `top_k` distinct hypotheses, best first.
    """
    if batch == 0:
        return []
    options = options.resolve()
    if options.greedy:
        best = greedy_search(model, sos, eos, batch, pad, options.max_length, options.length_power)
        return [[hypothesis] for hypothesis in best]
    directions = (Direction(sos, eos, reverse=False), Direction(eos, sos, reverse=True))
    searched = directions if options.directions == "both" else directions[:1]
    finished = beam_search(model, options, searched, batch, pad)
    expressions = [
        _merge(finished[first : first + options.scales])
        for first in range(0, batch, options.scales)
    ]
    is_valid: _Check = cache(is_well_formed or (lambda tokens: True))
    if options.rescore:
        expressions = [_contenders(scores, is_valid, options.top_k) for scores in expressions]
        _rescore(model, expressions, directions, options)
    return [_rank(scores, is_valid, options) for scores in expressions]


def _merge(finished: Sequence[Sequence[Sequence[FinishedHypothesis]]]) -> _Scores:
    """Merge the hypotheses of all scales and directions of one expression."""
    scores: _Scores = {}
    for scale, directions in enumerate(finished):
        for direction, hypotheses in enumerate(directions):
            for hypothesis in hypotheses:
                table = scores.setdefault(hypothesis.tokens, np.full((len(finished), 2), np.nan))
                table[scale, direction] = hypothesis.score
    return scores


def _contenders(scores: _Scores, is_valid: _Check, top_k: int) -> _Scores:
    """Drop the sequences that cannot be among the `top_k` best.

    An unknown score is at most zero. Sequences whose scores are all known therefore set a bound
    that the others must be able to reach.
    """
    valid = {tokens: table for tokens, table in scores.items() if is_valid(tokens)}
    if len(valid) < top_k:
        return scores
    known = sorted(float(table.sum()) for table in valid.values() if not np.isnan(table).any())
    bound = known[-top_k] if len(known) >= top_k else -math.inf
    return {tokens: table for tokens, table in valid.items() if np.nansum(table) >= bound}


def _rescore(
    model: StepModel[State],
    expressions: Sequence[_Scores],
    directions: tuple[Direction, Direction],
    options: DecodingOptions,
) -> None:
    """Fill in the unknown scores with one decoder call for the batch."""
    scales = options.scales
    missing = [
        (expression * scales + scale, tokens, direction, table)
        for expression, scores in enumerate(expressions)
        for scale in range(scales)
        for tokens, table in scores.items()
        for direction in np.flatnonzero(np.isnan(table[scale]))
    ]
    if not missing:
        return
    images, beams = _assign_beams([image for image, *_ in missing])
    steps = 1 + max(len(tokens) for _, tokens, *_ in missing)
    # The decoder is causal: any token will do as padding after a sequence.
    sequences = np.full(
        (len(expressions) * scales, beams.max() + 1, steps + 1), directions[0].end, np.int64
    )
    counted = np.zeros((*sequences.shape[:2], steps), dtype=bool)
    for image, beam, (_, tokens, number, _) in zip(images, beams, missing, strict=True):
        direction = directions[number]
        ordered = reversed(tokens) if direction.reverse else tokens
        sequence = (direction.start, *ordered, direction.end)
        sequences[image, beam, : len(sequence)] = sequence
        counted[image, beam, : len(sequence) - 1] = True
    output, _ = model.step(sequences[..., :-1], model.start())
    log_probabilities = np.take_along_axis(output, sequences[..., 1:, None], axis=-1)[..., 0]
    totals = np.where(counted, log_probabilities, 0.0).sum(axis=-1, dtype=np.float64)
    scores = totals / np.maximum(counted.sum(axis=-1), 1) ** options.length_power
    for image, beam, (_, _, number, table) in zip(images, beams, missing, strict=True):
        table[image % scales, number] = scores[image, beam]


def _assign_beams(images: list[int]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Give each entry of a sorted list of images the next free beam of its image."""
    indices = np.array(images)
    first = np.searchsorted(indices, indices, side="left")
    return indices, np.arange(len(indices)) - first


def _rank(scores: _Scores, is_valid: _Check, options: DecodingOptions) -> list[Hypothesis]:
    """Return the best sequences of one expression, valid ones first; ties go by token ids."""
    ranked = []
    for tokens, table in scores.items():
        forward, backward = table.mean(axis=0)
        score = forward + backward if options.rescore else np.nanmax(table)
        known = (None if math.isnan(mean) else float(mean) for mean in (forward, backward))
        ranked.append(Hypothesis(tokens, float(score), *known))
    ranked.sort(key=lambda one: (not is_valid(one.tokens), -one.score, one.tokens))
    return ranked[: options.top_k]
