"""Search in both directions and at several scales, with every hypothesis scored by all of them."""

import math
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from posformer.search.beam import Direction, FinishedHypothesis, beam_search
from posformer.search.constraint import Constraint
from posformer.search.decoding_options import DecodingOptions, Hypothesis
from posformer.search.greedy import greedy_search
from posformer.search.ngram_model import Prior, no_prior
from posformer.search.step_model import State, StepModel

_Tokens = tuple[int, ...]
Check = Callable[[_Tokens], bool]
Scores = dict[_Tokens, NDArray[np.float64]]
"""For each sequence its scores, prior included, float64 (scales, 2 directions), NaN if unknown."""
# A score to compute: model, image, tokens, number of the direction, array of both directions.
_Entry = tuple[StepModel[Any], int, _Tokens, int, NDArray[np.float64]]


def search(
    model: StepModel[State],
    options: DecodingOptions,
    sos: int,
    eos: int,
    batch: int,
    pad: int = 0,
    is_well_formed: Check | None = None,
    constraint: Constraint | None = None,
    limits: Sequence[int] | None = None,
    prior: Prior = no_prior,
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
        constraint: The language of the hypotheses; any tokens if None.
        limits: Maximum number of tokens of each image; `max_length` for all if None.
        prior: Of the sequences, for the choice among finished ones; greedy search ignores it.

    Returns:
        For every expression, up to `top_k` distinct hypotheses, best first.
    """
    if batch == 0:
        return []
    options = options.resolve()
    if options.greedy:
        length, power = options.max_length, options.length_power
        best = greedy_search(model, sos, eos, batch, pad, length, power, constraint, limits)
        return [[hypothesis] for hypothesis in best]
    directions = both_directions(sos, eos)
    searched = directions if options.directions == "both" else directions[:1]
    finished = beam_search(model, options, searched, batch, pad, constraint, limits)
    scales = options.scales
    groups = [finished[first : first + scales] for first in range(0, batch, scales)]
    expressions = [merge(group, prior) for group in groups]
    is_valid: Check = cache(is_well_formed or (lambda tokens: True))
    if options.rescore:

        def place(expression: int, scale: int) -> tuple[StepModel[State], int]:
            return model, expression * scales + scale

        expressions = rescore(expressions, place, directions, is_valid, options, prior=prior)
    return [rank(scores, is_valid, options, prior) for scores in expressions]


def both_directions(sos: int, eos: int) -> tuple[Direction, Direction]:
    """Return left to right and right to left."""
    return Direction(sos, eos, reverse=False), Direction(eos, sos, reverse=True)


def merge(
    finished: Sequence[Sequence[Sequence[FinishedHypothesis]]], prior: Prior = no_prior
) -> Scores:
    """Merge the hypotheses of all scales and directions of one expression; add their prior."""
    scores: Scores = {}
    for scale, directions in enumerate(finished):
        for direction, hypotheses in enumerate(directions):
            for hypothesis in hypotheses:
                table = scores.setdefault(hypothesis.tokens, np.full((len(finished), 2), np.nan))
                table[scale, direction] = hypothesis.score + prior(hypothesis.tokens)
    return scores


def rescore(
    expressions: Sequence[Scores],
    place: Callable[[int, int], tuple[StepModel[Any], int]],
    directions: tuple[Direction, Direction],
    is_valid: Check,
    options: DecodingOptions,
    margin: float = 0.0,
    prior: Prior = no_prior,
) -> list[Scores]:
    """Fill in unknown scores until it is certain which sequences are the best.

    An unknown score is at most zero, so a sequence whose known scores sum to less than the sum of
    all scores of `top_k` others need not be scored further. All unknown scores of the most
    promising sequences and one of each other are computed in a decoder call per image, again and
    again until none is left.

    Args:
        expressions: The sequences of each expression; their tables are changed.
        place: Returns the model and the image of an expression at a scale.
        directions: Left to right and right to left.
        is_valid: Tells whether a sequence is valid.
        options: Resolved options.
        margin: Log-probability by which a sequence may be behind the best ones and still counts
            as one of them.
        prior: Added to each score.

    Returns:
        For each expression the sequences that may be among the best; their scores are all known.
    """
    while True:
        open_sequences = [_open(scores, is_valid, options, margin) for scores in expressions]
        missing: list[_Entry] = [
            (*place(expression, int(scale)), tokens, int(direction), table[scale])
            for expression, unknown in enumerate(open_sequences)
            for tokens, table, cells in unknown
            for scale, direction in cells
        ]
        if not missing:
            return [
                {tokens: table for tokens, table in scores.items() if _is_complete(table)}
                for scores in expressions
            ]
        for model in {id(one): one for one, *_ in missing}.values():
            entries = [entry for entry in missing if entry[0] is model]
            _score(model, entries, directions, options.length_power, prior)


def _open(
    scores: Scores, is_valid: Check, options: DecodingOptions, margin: float
) -> list[tuple[_Tokens, NDArray[np.float64], NDArray[np.int64]]]:
    """Return the sequences to score next: tokens, table, and the cells to compute, (cells, 2)."""
    top_k = options.top_k
    valid = {tokens: table for tokens, table in scores.items() if is_valid(tokens)}
    candidates = valid if len(valid) >= top_k else scores
    known = sorted(
        float(table.sum()) - margin * table.size / (len(tokens) + 1) ** options.length_power
        for tokens, table in candidates.items()
        if _is_complete(table)
    )
    bound = known[-top_k] if len(known) >= top_k and candidates is valid else -math.inf
    unknown = [
        (tokens, table)
        for tokens, table in candidates.items()
        if not _is_complete(table) and np.nansum(table) >= bound
    ]
    unknown.sort(key=lambda item: -float(np.nanmean(item[1])))
    leaders = max(0, top_k - len(known)) if candidates is valid else len(unknown)
    if leaders:  # once they are known, the bound excludes most of the others
        return [
            (tokens, table, np.argwhere(np.isnan(table))) for tokens, table in unknown[:leaders]
        ]
    return [(tokens, table, np.argwhere(np.isnan(table))[:1]) for tokens, table in unknown]


def _is_complete(table: NDArray[np.float64]) -> bool:
    return not np.isnan(table).any()


def _score(
    model: StepModel[State],
    missing: Sequence[_Entry],
    directions: tuple[Direction, Direction],
    length_power: float,
    prior: Prior,
) -> None:
    """Compute scores, with one decoder call per image.

    Images differ in the number and length of their sequences: together in one call, the decoder
    would spend half of its time on padding.

    Args:
        model: The decoder.
        missing: What to compute.
        directions: Both directions.
        length_power: See `DecodingOptions.length_power`.
        prior: Added to each score.
    """
    by_image: dict[int, list[_Entry]] = {}
    for entry in missing:
        by_image.setdefault(entry[1], []).append(entry)
    for image, entries in by_image.items():
        sequences = [(tokens, directions[number]) for _, _, tokens, number, _ in entries]
        scores = _score_sequences(model, image, sequences, length_power)
        for score, (_, _, tokens, number, row) in zip(scores, entries, strict=True):
            row[number] = score + prior(tokens)


def _score_sequences(
    model: StepModel[State],
    image: int,
    sequences: Sequence[tuple[_Tokens, Direction]],
    length_power: float,
) -> NDArray[np.float64]:
    """Score sequences of one image with one decoder call.

    Args:
        model: The decoder.
        image: Index of the image in the model.
        sequences: Tokens in reading order, and the direction in which they are decoded.
        length_power: See `DecodingOptions.length_power`.

    Returns:
        float64 (sequences,).
    """
    steps = 1 + max(len(tokens) for tokens, _ in sequences)
    # The decoder is causal: any token will do as padding after a sequence.
    inputs = np.full((len(sequences), steps + 1), sequences[0][1].end, np.int64)
    counted = np.zeros((len(sequences), steps), dtype=bool)
    for beam, (tokens, direction) in enumerate(sequences):
        ordered = reversed(tokens) if direction.reverse else tokens
        sequence = (direction.start, *ordered, direction.end)
        inputs[beam, : len(sequence)] = sequence
        counted[beam, : len(sequence) - 1] = True
    state = model.select(model.start(), np.array([image]), np.zeros((1, 1), dtype=np.int64))
    output, _ = model.step(inputs[None, :, :-1], state)
    chosen = np.take_along_axis(output[0], inputs[:, 1:, None], axis=-1)[..., 0]
    totals = np.where(counted, chosen, 0.0).sum(axis=-1, dtype=np.float64)
    return np.asarray(totals / counted.sum(axis=-1) ** length_power, np.float64)


def rank(
    scores: Scores, is_valid: Check, options: DecodingOptions, prior: Prior = no_prior
) -> list[Hypothesis]:
    """Return the best sequences of one expression, valid ones first; ties go by token ids."""
    ranked = []
    for tokens, table in scores.items():
        means = table.mean(axis=0)
        score = means.sum() if options.rescore else np.nanmax(table)
        forward, backward = means - prior(tokens)
        known = (None if math.isnan(mean) else float(mean) for mean in (forward, backward))
        ranked.append(Hypothesis(tokens, float(score), *known))
    ranked.sort(key=lambda one: (not is_valid(one.tokens), -one.score, one.tokens))
    return ranked[: options.top_k]
