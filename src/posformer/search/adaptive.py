"""Adaptive search: greedy first, and wider only where that leaves a doubt."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from posformer.search.beam import FinishedHypothesis, beam_search
from posformer.search.bidirectional import both_directions, merge, rank, rescore
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


def second_pass(
    models: Sequence[StepModel[Any]],
    first: Sequence[FirstPass],
    images: Sequence[int],
    options: DecodingOptions,
    sos: int,
    eos: int,
    pad: int = 0,
    constraint: Constraint | None = None,
    limits: Sequence[int] | None = None,
) -> list[list[Hypothesis]]:
    """Search the other scales of doubtful images, and score all hypotheses at all scales.

    Args:
        models: The decoder at each scale. The first one is that of the first pass, with all its
            images; the others have the doubtful ones only.
        first: The first pass of the doubtful images.
        images: Index of each of them in the first model.
        options: Resolved options.
        sos: Start token.
        eos: End token.
        pad: Padding token, which is never chosen.
        constraint: The language of the hypotheses; any tokens if None.
        limits: Maximum number of tokens of each doubtful image; `max_length` for all if None.

    Returns:
        For every doubtful image the best hypothesis.
    """
    greedy, directions = _greedy(options), both_directions(sos, eos)
    others = [
        beam_search(model, greedy, directions, len(first), pad, constraint, limits)
        for model in models[1:]
    ]
    by_scale = [[one.found for one in first], *others]
    expressions = [merge(found) for found in zip(*by_scale, strict=True)]

    def place(expression: int, scale: int) -> tuple[StepModel[Any], int]:
        return models[scale], expression if scale else images[expression]

    def is_valid(tokens: tuple[int, ...]) -> bool:
        return True

    rescored = rescore(expressions, place, directions, is_valid, options)
    return [rank(scores, is_valid, options) for scores in rescored]


def _greedy(options: DecodingOptions) -> DecodingOptions:
    return replace(options, beam=1, finished=1)
