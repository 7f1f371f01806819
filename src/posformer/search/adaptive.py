"""Adaptive search: one scale first, and the others only where that leaves a doubt.

The first pass searches at one scale: from left to right with beams, from right to left greedily, as
beams in both directions find hardly more. Its hypotheses are scored in both directions. Where the
best one is ahead of all others by a margin, it is the result. Elsewhere the hypotheses within the
margin, and only these, are scored at the other scales, too.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from posformer.search.beam import beam_search
from posformer.search.bidirectional import Scores, both_directions, merge, rank, rescore
from posformer.search.constraint import Constraint
from posformer.search.decoding_options import DecodingOptions, Hypothesis
from posformer.search.ngram_model import Prior, no_prior
from posformer.search.step_model import State, StepModel

Tokens = tuple[int, ...]


@dataclass(frozen=True)
class FirstPass:
    """The hypotheses of one image after the first pass."""

    scores: Scores  # of those that may be within the margin; complete, float64 (1, 2) each
    length_power: float

    def near(self, margin: float) -> list[Tokens]:
        """Return the hypotheses that are behind the best one by less than the margin.

        The difference is one of log-probabilities, at the length of the best hypothesis.
        """
        return near(self.scores, margin, self.length_power)

    def is_certain(self, margin: float) -> bool:
        """Return whether the best hypothesis is ahead of all others by the margin."""
        return len(self.near(margin)) < 2


def near(scores: Scores, margin: float, length_power: float) -> list[Tokens]:
    """Return the hypotheses that are near the best one at the first scale; see `FirstPass`."""
    means = {tokens: float(table[0].mean()) for tokens, table in scores.items()}
    if not means:
        return []
    best = max(means, key=means.__getitem__)
    reach = margin / (len(best) + 1) ** length_power
    return [one for one in means if one == best or means[best] - means[one] < reach]


def first_pass(
    model: StepModel[State],
    options: DecodingOptions,
    margin: float,
    sos: int,
    eos: int,
    batch: int,
    pad: int = 0,
    constraint: Constraint | None = None,
    limits: Sequence[int] | None = None,
    prior: Prior = no_prior,
) -> list[FirstPass]:
    """Search every image at one scale.

    Args:
        model: The decoder, with its images encoded.
        options: Resolved options.
        margin: Hypotheses that are surely further behind the best one are left out.
        sos: Start token.
        eos: End token.
        batch: Number of images in the model.
        pad: Padding token, which is never chosen.
        constraint: The language of the hypotheses; any tokens if None.
        limits: Maximum number of tokens of each image; `max_length` for all if None.
        prior: Of the sequences.
    """
    directions = both_directions(sos, eos)
    searched = directions[0], replace(directions[1], greedy=True)
    found = beam_search(model, options, searched, batch, pad, constraint, limits)
    expressions = [merge([one], prior) for one in found]

    def place(expression: int, scale: int) -> tuple[StepModel[State], int]:
        return model, expression

    scored = rescore(expressions, place, directions, _any, options, margin, prior)
    return [FirstPass(scores, options.length_power) for scores in scored]


@dataclass(frozen=True)
class Doubt:
    """An image whose first pass is not certain."""

    first: FirstPass
    model: StepModel[Any]  # of the first pass
    image: int  # index in this model


def second_pass(
    doubts: Sequence[Doubt],
    others: Sequence[StepModel[Any]],
    options: DecodingOptions,
    margin: float,
    sos: int,
    eos: int,
    every: bool = False,
    prior: Prior = no_prior,
) -> list[Scores]:
    """Score the hypotheses of doubtful images at all scales.

    Args:
        doubts: The images.
        others: The decoder at each further scale, with these images.
        options: Resolved options.
        margin: Only hypotheses within the margin are scored.
        sos: Start token.
        eos: End token.
        every: Score all of these, not only those that may be the best.
        prior: Of the sequences.

    Returns:
        For every image the hypotheses that may be the best, float64 (scales, 2 directions) each.
    """
    expressions: list[Scores] = []
    for doubt in doubts:
        unknown = np.full((len(others), 2), np.nan)
        known = doubt.first.scores
        expressions.append(
            {one: np.concatenate([known[one], unknown]) for one in doubt.first.near(margin)}
        )

    def place(expression: int, scale: int) -> tuple[StepModel[Any], int]:
        return others[scale - 1], expression

    more = np.inf if every else 0.0
    return rescore(expressions, place, both_directions(sos, eos), _any, options, more, prior)


def best_of(scores: Scores, options: DecodingOptions, prior: Prior = no_prior) -> list[Hypothesis]:
    """Return the best of some hypotheses by their mean over all scales; none if there are none."""
    return rank(scores, _any, options, prior)


def adaptive_result(
    scores: Scores, margin: float, options: DecodingOptions, prior: Prior = no_prior
) -> list[Hypothesis]:
    """Return what adaptive search finds with a margin, if the scores at all scales are known."""
    left = near(scores, margin, options.length_power)
    tables = {one: scores[one][: None if len(left) > 1 else 1] for one in left}
    return best_of(tables, options, prior)


def _any(tokens: Tokens) -> bool:
    return True
