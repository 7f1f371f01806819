"""Adaptive search: greedy first, and wider only where that leaves a doubt."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from posformer.search.beam import Direction, FinishedHypothesis, beam_search
from posformer.search.bidirectional import (
    Scores,
    both_directions,
    merge,
    rank,
    rescore,
    score_sequences,
)
from posformer.search.constraint import Constraint
from posformer.search.decoding_options import DecodingOptions, Hypothesis
from posformer.search.step_model import State, StepModel

_Found = list[list[FinishedHypothesis]]  # of one image, by direction


@dataclass(frozen=True)
class FirstPass:
    """The result of greedy search in both directions for one image."""

    found: _Found
    length_power: float

    @property
    def agreed(self) -> bool:
        """Whether both directions found the same sequence."""
        forward, backward = self.found
        return bool(forward and backward) and forward[0].tokens == backward[0].tokens

    @property
    def total(self) -> float:
        """Log-probability of the sequence that both directions found, averaged over them."""
        best = self.hypothesis
        return float(best.score / 2 * (len(best.tokens) + 1) ** self.length_power)

    @property
    def hypothesis(self) -> Hypothesis:
        """The sequence that both directions found, with its scores."""
        forward, backward = (found[0] for found in self.found)
        score = forward.score + backward.score
        return Hypothesis(forward.tokens, score, forward.score, backward.score)

    def is_certain(self, threshold: float) -> bool:
        """Return whether both directions agree, with at least this log-probability."""
        return self.agreed and self.total >= threshold


def first_pass(
    model: StepModel[State],
    options: DecodingOptions,
    sos: int,
    eos: int,
    batch: int,
    pad: int = 0,
    constraint: Constraint | None = None,
    limits: Sequence[int] | None = None,
) -> list[FirstPass]:
    """Search every image greedily in both directions; arguments as for `search`."""
    greedy = _greedy(options)
    directions = both_directions(sos, eos)
    found = beam_search(model, greedy, directions, batch, pad, constraint, limits)
    return [FirstPass(one, options.length_power) for one in found]


@dataclass(frozen=True)
class Doubt:
    """An image whose first pass is not certain."""

    first: FirstPass
    model: StepModel[Any]  # of the first pass
    image: int  # index in this model
    limit: int  # maximum number of tokens


def second_pass(
    doubts: Sequence[Doubt],
    others: Sequence[StepModel[Any]],
    options: DecodingOptions,
    sos: int,
    eos: int,
    pad: int = 0,
    constraint: Constraint | None = None,
) -> list[list[Hypothesis]]:
    """Search the other scales of doubtful images, and score all hypotheses at all scales.

    Args:
        doubts: The images. Their first passes may have different models.
        others: The decoder at each other scale, with these images.
        options: Resolved options.
        sos: Start token.
        eos: End token.
        pad: Padding token, which is never chosen.
        constraint: The language of the hypotheses; any tokens if None.

    Returns:
        For every doubtful image the best hypothesis.
    """
    directions = both_directions(sos, eos)
    nothing: _Found = [[], []]
    expressions = [merge([one.first.found, *[nothing] * len(others)]) for one in doubts]
    for scale, model in enumerate(others, start=1):
        # To score what was found takes one call, a search one for every token. It is needed only
        # where scoring does not show that it would find the same again.
        images = [
            image
            for image, scores in enumerate(expressions)
            if not _is_found_again(model, image, scores, scale, directions, options.length_power)
        ]
        if not images:
            continue
        limits = [doubts[image].limit for image in images]
        selection = _Selection(model, images)
        greedy = _greedy(options)
        found = beam_search(selection, greedy, directions, len(images), pad, constraint, limits)
        for image, hypotheses in zip(images, found, strict=True):
            _add(expressions[image], scale, hypotheses)

    def place(expression: int, scale: int) -> tuple[StepModel[Any], int]:
        doubt = doubts[expression]
        return (others[scale - 1], expression) if scale else (doubt.model, doubt.image)

    def is_valid(tokens: tuple[int, ...]) -> bool:
        return True

    rescored = rescore(expressions, place, directions, is_valid, options)
    return [rank(scores, is_valid, options) for scores in rescored]


def _is_found_again(
    model: StepModel[Any],
    image: int,
    scores: Scores,
    scale: int,
    directions: tuple[Direction, Direction],
    length_power: float,
) -> bool:
    """Score the sequences of an image at a scale.

    Returns:
        Whether greedy search at this scale finds one of them in each direction.
    """
    sequences = [(tokens, direction) for tokens in scores for direction in directions]
    if not sequences:
        return False
    values, is_greedy = score_sequences(model, image, sequences, length_power)
    for table, pair in zip(scores.values(), values.reshape(-1, 2), strict=True):
        table[scale] = pair
    return bool(is_greedy.reshape(-1, 2).any(axis=0).all())


def _add(scores: Scores, scale: int, hypotheses: _Found) -> None:
    """Add what a search at a scale has found."""
    scales = len(next(iter(scores.values()))) if scores else scale + 1
    for tokens, table in merge([[[], []]] * scale + [hypotheses]).items():
        known = scores.setdefault(tokens, np.full((scales, 2), np.nan))
        known[scale] = np.where(np.isnan(table[scale]), known[scale], table[scale])


class _Selection:
    """Some images of a step model."""

    def __init__(self, model: StepModel[Any], images: Sequence[int]) -> None:
        self._model, self._images = model, np.array(images)
        self.step, self.select = model.step, model.select

    def start(self) -> Any:
        """Return the state before the first token."""
        beams = np.zeros((len(self._images), 1), dtype=np.int64)
        return self._model.select(self._model.start(), self._images, beams)


def _greedy(options: DecodingOptions) -> DecodingOptions:
    return replace(options, beam=1, finished=1)
