"""Beam search for a batch of images, in one or both directions at once.

Every direction of every image is a search of its own: its beams compete only with each other.
All searches advance together, with one decoder call per step.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from posformer.search.constraint import Constraint
from posformer.search.decoding_options import DecodingOptions
from posformer.search.step_model import State, StepModel

_Floats = NDArray[np.float64]
_Integers = NDArray[np.int64]
_States = NDArray[np.object_]


@dataclass(frozen=True)
class Direction:
    """Left to right or right to left."""

    start: int  # token before the first
    end: int  # token after the last
    reverse: bool  # whether tokens are decoded in the reverse of reading order
    greedy: bool = False  # whether it is searched with a single beam, whatever the options say


@dataclass(frozen=True)
class FinishedHypothesis:
    """A hypothesis that reached its end token in one direction."""

    tokens: tuple[int, ...]  # in reading order
    score: float


@dataclass(frozen=True)
class _Frontier:
    """The open beams of all unfinished searches."""

    images: _Integers  # (batch,), indices of the images in the model
    directions: _Integers  # (batch, directions), indices of the directions
    totals: _Floats  # (batch, directions, beams), sums of log-probabilities; -inf: no beam
    tokens: _Integers  # (batch, directions, beams, 1 + length), start token first
    states: _States | None  # (batch, directions, beams), of the constraint, if there is one


@dataclass(frozen=True)
class _Candidates:
    """The best continuations of each search, best first; all (batch, directions, candidates)."""

    totals: _Floats
    parents: _Integers  # index of the beam that is continued
    tokens: _Integers  # the token that is appended
    ended: NDArray[np.bool_]  # whether that is the end token


class _Finished:
    """The best finished hypotheses of every image and direction.

    Args:
        batch: Number of images.
        sizes: Maximum number of hypotheses of each direction.
    """

    def __init__(self, batch: int, sizes: Sequence[int]) -> None:
        self._sizes = sizes
        self.worst = np.full((batch, len(sizes)), -np.inf)  # -inf until there are as many
        self.hypotheses: list[list[list[FinishedHypothesis]]] = [
            [[] for _ in sizes] for _ in range(batch)
        ]

    def add(self, image: int, direction: int, hypothesis: FinishedHypothesis) -> None:
        """Keep a hypothesis if it is among the best."""
        if hypothesis.score <= self.worst[image, direction]:
            return
        best = self.hypotheses[image][direction]
        best.append(hypothesis)
        best.sort(key=lambda item: -item.score)
        del best[self._sizes[direction] :]
        if len(best) == self._sizes[direction]:
            self.worst[image, direction] = best[-1].score


def beam_search(
    model: StepModel[State],
    options: DecodingOptions,
    directions: Sequence[Direction],
    batch: int,
    pad: int,
    constraint: Constraint | None = None,
    limits: Sequence[int] | None = None,
) -> list[list[list[FinishedHypothesis]]]:
    """Find the best hypotheses of every image in every direction.

    Args:
        model: The decoder, with its images encoded.
        options: Resolved options, see `DecodingOptions.resolve`.
        directions: The directions to search in.
        batch: Number of images in the model.
        pad: Padding token, which is never chosen.
        constraint: The language of the hypotheses; any tokens if None.
        limits: Maximum number of tokens of each image; `max_length` for all if None.

    Returns:
        For every image and direction, the finished hypotheses, best first.
    """
    starts = np.array([direction.start for direction in directions])
    ends = np.array([direction.end for direction in directions])
    widths = np.array([1 if direction.greedy else options.beam for direction in directions])
    sizes = options.finished or options.beam
    finished = _Finished(batch, [1 if one.greedy else sizes for one in directions])
    frontier = _Frontier(
        images=np.arange(batch),
        directions=np.tile(np.arange(len(directions)), (batch, 1)),
        totals=np.zeros((batch, len(directions), 1)),
        tokens=np.tile(starts[:, None, None], (batch, 1, 1, 1)),
        states=_start_states(constraint, directions, batch),
    )
    longest = np.minimum(options.max_length, limits or [options.max_length] * batch)
    state = model.start()
    slots = np.broadcast_to(np.arange(len(directions)), (batch, len(directions)))
    for length in range(options.max_length + 1):
        last = frontier.tokens[..., -1].reshape(len(frontier.images), -1)
        inputs = np.take_along_axis(last, slots, axis=1)[..., None]
        output, state = model.step(inputs, state)
        totals = _extend(frontier, _unpacked(output, slots, last.shape[1]), starts, pad)
        remaining = longest[frontier.images] - length
        _exclude(totals, frontier, remaining, ends, constraint)
        candidates = _best_candidates(totals, 2 * options.beam, ends[frontier.directions])
        candidates = _narrowed(candidates, widths[frontier.directions])
        _collect_finished(finished, frontier, candidates, directions, options)
        frontier, images, parents = _advance(
            frontier, candidates, finished, widths, options, constraint
        )
        if len(images) == 0:
            break
        places = np.zeros(last.shape, np.int64)  # of the beams in the state of the model
        np.put_along_axis(places, slots, np.arange(slots.shape[1])[None], axis=1)
        slots = _open_slots(frontier.totals)
        chosen = np.take_along_axis(parents, slots, axis=1)
        beams = places[images[:, None], chosen]
        if not _is_identity(beams, inputs.shape):
            state = model.select(state, images, beams)
    return finished.hypotheses


def _open_slots(totals: _Floats) -> _Integers:
    """Return the indices of the open beams, which are all that the model need decode.

    Args:
        totals: float64 (batch, directions, beams), -inf: no beam.

    Returns:
        int64 (batch, most open beams of an image), indices into directions · beams. Images with
        fewer open beams have others, too.
    """
    is_open = (totals > -np.inf).reshape(len(totals), -1)
    order = np.argsort(~is_open, axis=1, kind="stable")
    return np.asarray(order[:, : max(1, is_open.sum(axis=1).max())])


def _unpacked(output: NDArray[np.float32], slots: _Integers, count: int) -> NDArray[np.float32]:
    """Return the output of the model for all beams, (batch, count, vocab_size)."""
    if slots.shape[1] == count and bool((slots == np.arange(count)).all()):
        return output[:, :, 0]
    full = np.zeros((len(output), count, output.shape[-1]), np.float32)
    np.put_along_axis(full, slots[..., None], output[:, :, 0], axis=1)
    return full


def _narrowed(candidates: _Candidates, widths: _Integers) -> _Candidates:
    """Leave directions with fewer beams fewer candidates: twice as many as beams.

    Args:
        candidates: The candidates of each search.
        widths: int64 (batch, directions), beams of each search.
    """
    ranks = np.arange(candidates.totals.shape[-1])
    totals = np.where(ranks < 2 * widths[..., None], candidates.totals, -np.inf)
    return replace(candidates, totals=totals)


def _extend(
    frontier: _Frontier, output: NDArray[np.float32], starts: _Integers, pad: int
) -> _Floats:
    """Return the totals of all continuations, (batch, directions, beams, vocab_size)."""
    totals: _Floats = frontier.totals[..., None] + output.reshape(*frontier.totals.shape, -1)
    totals[..., pad] = -np.inf
    image, direction = np.indices(frontier.directions.shape)
    totals[image, direction, :, starts[frontier.directions]] = -np.inf
    return totals


def _exclude(
    totals: _Floats,
    frontier: _Frontier,
    remaining: _Integers,
    ends: _Integers,
    constraint: Constraint | None,
) -> None:
    """Set the totals of continuations that are not allowed to -inf.

    Args:
        totals: float64 (batch, directions, beams, vocab_size), changed in place.
        frontier: The open beams.
        remaining: int64 (batch,), how many more tokens each image may have.
        ends: End tokens of the directions.
        constraint: The language of the hypotheses.
    """
    if constraint is not None and frontier.states is not None:
        states = frontier.states
        left = np.broadcast_to(remaining[:, None, None], states.shape)
        allowed = constraint.allowed(states.ravel().tolist(), left.ravel())
        totals[~allowed.reshape(totals.shape)] = -np.inf
    if (remaining <= 0).any():  # so that the longest hypotheses finish too
        others = np.arange(totals.shape[-1]) != ends[frontier.directions][..., None, None]
        full = (remaining <= 0)[:, None, None, None]
        totals[np.broadcast_to(others & full, totals.shape)] = -np.inf


def _start_states(
    constraint: Constraint | None, directions: Sequence[Direction], batch: int
) -> _States | None:
    if constraint is None:
        return None
    states = np.empty((batch, len(directions), 1), dtype=object)
    for number, direction in enumerate(directions):
        start = constraint.start(direction.reverse)
        for image in range(batch):
            states[image, number, 0] = start
    return states


def _next_states(
    constraint: Constraint, states: _States, tokens: _Integers, totals: _Floats
) -> _States:
    """Return the states of new beams; beams that do not exist keep the state before."""
    new = states.copy()
    for place in zip(*np.nonzero(totals > -np.inf), strict=True):
        new[place] = constraint.advance(states[place], int(tokens[place]))
    return new


def _best_candidates(totals: _Floats, count: int, ends: _Integers) -> _Candidates:
    """Return the best continuations; ties go to the first beam and the smallest token."""
    batch, directions, beams, vocab_size = totals.shape
    flat = totals.reshape(batch, directions, beams * vocab_size)
    image, direction = np.ogrid[:batch, :directions, :1][:2]
    if count < flat.shape[-1]:
        chosen = np.argpartition(-flat, count - 1, axis=-1)[..., :count]
        chosen.sort(axis=-1)
    else:
        chosen = np.broadcast_to(np.arange(flat.shape[-1]), flat.shape)
    order = np.argsort(-flat[image, direction, chosen], axis=-1, kind="stable")
    chosen = chosen[image, direction, order]
    parents, tokens = np.divmod(chosen, vocab_size)
    return _Candidates(flat[image, direction, chosen], parents, tokens, tokens == ends[..., None])


def _collect_finished(
    finished: _Finished,
    frontier: _Frontier,
    candidates: _Candidates,
    directions: Sequence[Direction],
    options: DecodingOptions,
) -> None:
    """Store the candidates that ended.

    Only the first `beam` candidates of a search count: an ended candidate is stored only if it
    would have survived as an open beam.
    """
    length = frontier.tokens.shape[-1] - 1
    totals = candidates.totals[..., : options.beam]
    scores = totals / (length + 1) ** options.length_power
    worst = finished.worst[frontier.images[:, None], frontier.directions]
    stored = candidates.ended[..., : options.beam] & (scores > worst[..., None])
    is_greedy = np.array([direction.greedy for direction in directions])
    stored[..., 1:] &= ~is_greedy[frontier.directions][..., None]
    for image, search, rank in zip(*np.nonzero(stored), strict=True):
        direction = frontier.directions[image, search]
        parent = candidates.parents[image, search, rank]
        tokens = frontier.tokens[image, search, parent, 1:].tolist()
        if directions[direction].reverse:
            tokens.reverse()
        hypothesis = FinishedHypothesis(tuple(tokens), float(scores[image, search, rank]))
        finished.add(frontier.images[image], direction, hypothesis)


def _advance(
    frontier: _Frontier,
    candidates: _Candidates,
    finished: _Finished,
    widths: _Integers,
    options: DecodingOptions,
    constraint: Constraint | None,
) -> tuple[_Frontier, _Integers, _Integers]:
    """Make the open candidates the new beams, and drop the searches and images that are done.

    Returns:
        The new frontier, and where it comes from: images int64 (new batch,), and the beams that
        its beams continue, int64 (new batch, directions · beams).
    """
    totals = np.where(candidates.ended, -np.inf, candidates.totals)
    length = frontier.tokens.shape[-1]
    horizon = length if options.stopping == "likely" else options.max_length + 1
    reachable = totals.max(axis=-1) / horizon**options.length_power
    done = reachable <= finished.worst[frontier.images[:, None], frontier.directions]
    totals[done] = -np.inf

    images = np.flatnonzero(~done.all(axis=1))
    # Unfinished searches come first, so that the axis can be cut to the largest number of them.
    searches = np.argsort(done[images], axis=1, kind="stable")
    searches = searches[:, : (~done[images]).sum(axis=1).max(initial=0)]
    image, search = images[:, None, None], searches[..., None]
    order = np.argsort(candidates.ended[images[:, None], searches], axis=-1, kind="stable")
    order = order[..., : options.beam]
    parents = candidates.parents[image, search, order]
    earlier = frontier.tokens[image, search, parents]
    added = candidates.tokens[image, search, order]
    totals = totals[image, search, order]
    ranks = np.arange(totals.shape[-1])
    totals[ranks >= widths[frontier.directions[images[:, None], searches]][..., None]] = -np.inf
    states = None
    if constraint is not None and frontier.states is not None:
        states = _next_states(constraint, frontier.states[image, search, parents], added, totals)
    new = _Frontier(
        images=frontier.images[images],
        directions=frontier.directions[images[:, None], searches],
        totals=totals,
        tokens=np.concatenate([earlier, added[..., None]], axis=-1),
        states=states,
    )
    beams = search * frontier.totals.shape[-1] + parents
    return new, images, beams.reshape(len(images), searches.shape[1] * beams.shape[2])


def _is_identity(beams: _Integers, shape: tuple[int, ...]) -> bool:
    """Return whether a selection changes nothing, so that the state need not be copied."""
    return beams.shape == shape[:2] and bool((beams == np.arange(shape[1])).all())
