"""Beam search over the lanes of many pictures at once.

A lane is one direction of one picture: its beams compete with each other and with no others.
All lanes take a step together, as rows of one call of the network.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from posformer.search.interface import State, StepModel
from posformer.search.options import SearchOptions

__all__ = ["Direction", "Finished", "decode"]


@dataclass(frozen=True)
class Direction:
    """One way of reading: where it starts and where it ends."""

    start: int  # token before the first
    end: int  # token behind the last
    reverse: bool  # whether tokens come in the reverse of reading order


@dataclass(frozen=True)
class Finished:
    """A hypothesis that reached its end in one direction."""

    tokens: tuple[int, ...]  # in reading order
    score: float


@dataclass(frozen=True)
class _Front:
    """The open beams of all lanes that are not done."""

    pictures: np.ndarray  # int64 (pictures,), their numbers in the model
    directions: np.ndarray  # int64 (pictures, lanes), which direction a lane goes
    sums: np.ndarray  # float64 (pictures, lanes, beams), -inf where there is no beam
    words: np.ndarray  # int64 (pictures, lanes, beams, 1 + length), start token first


@dataclass(frozen=True)
class _Candidates:
    """The best continuations of each lane, best first; all (pictures, lanes, candidates)."""

    sums: np.ndarray
    parents: np.ndarray  # beam of the lane that is continued
    words: np.ndarray  # by which word
    ended: np.ndarray  # whether that word is the end


class _Pools:
    """The best finished hypotheses of every picture and direction, `size` of each at most."""

    def __init__(self, pictures: int, directions: int, size: int) -> None:
        self.size = size
        self.worst = np.full((pictures, directions), -np.inf)  # -inf until a pool is full
        self.lists: list[list[list[Finished]]] = [
            [[] for _ in range(directions)] for _ in range(pictures)
        ]

    def add(self, picture: int, direction: int, hypothesis: Finished) -> None:
        """Take a hypothesis in if it is among the best."""
        if hypothesis.score <= self.worst[picture, direction]:
            return
        pool = self.lists[picture][direction]
        pool.append(hypothesis)
        pool.sort(key=lambda item: -item.score)
        del pool[self.size :]
        if len(pool) == self.size:
            self.worst[picture, direction] = pool[-1].score


def decode(
    model: StepModel[State],
    options: SearchOptions,
    directions: Sequence[Direction],
    pictures: int,
    pad: int,
) -> list[list[list[Finished]]]:
    """Find the best hypotheses of every picture in every direction.

    Args:
        model: the network, with its pictures encoded.
        options: how to search.
        directions: the ways to read.
        pictures: how many pictures the model holds.
        pad: token that is never chosen.

    Returns:
        For every picture and direction the finished hypotheses, best first.
    """
    starts = np.array([direction.start for direction in directions])
    ends = np.array([direction.end for direction in directions])
    pools = _Pools(pictures, len(directions), options.finished or options.beam)
    front = _Front(
        pictures=np.arange(pictures),
        directions=np.tile(np.arange(len(directions)), (pictures, 1)),
        sums=np.zeros((pictures, len(directions), 1)),
        words=np.tile(starts[:, None, None], (pictures, 1, 1, 1)),
    )
    state = model.start()
    for length in range(options.max_length + 1):
        last = front.words[..., -1].reshape(len(front.pictures), -1, 1)
        output, state = model.step(last, state)
        totals = _totals(front, output, starts, pad)
        if length == options.max_length:
            totals = _only_end(totals, ends[front.directions])
        candidates = _best(totals, 2 * options.beam, ends[front.directions])
        _store(pools, front, candidates, directions, options)
        front, kept, rows = _advance(front, candidates, pools, options)
        if len(kept) == 0:
            break
        if not _is_identity(rows, last.shape):
            state = model.select(state, kept, rows)
    return pools.lists


def _totals(front: _Front, output: np.ndarray, starts: np.ndarray, pad: int) -> np.ndarray:
    """Sums of all continuations, (pictures, lanes, beams, words)."""
    totals = front.sums[..., None] + output.reshape(*front.sums.shape, output.shape[-1])
    totals[..., pad] = -np.inf
    picture, lane = np.indices(front.directions.shape)
    totals[picture, lane, :, starts[front.directions]] = -np.inf
    return totals


def _only_end(totals: np.ndarray, ends: np.ndarray) -> np.ndarray:
    """Forbid everything but the end, so that the longest hypotheses are finished ones too."""
    picture, lane = np.indices(ends.shape)
    closed = np.full_like(totals, -np.inf)
    closed[picture, lane, :, ends] = totals[picture, lane, :, ends]
    return closed


def _best(totals: np.ndarray, count: int, ends: np.ndarray) -> _Candidates:
    """The best continuations of each lane in order; of equal ones the first beam and word."""
    pictures, lanes, beams, words = totals.shape
    flat = totals.reshape(pictures, lanes, beams * words)
    picture, lane = np.ogrid[:pictures, :lanes, :1][:2]
    if count < flat.shape[-1]:
        places = np.argpartition(-flat, count - 1, axis=-1)[..., :count]
        places.sort(axis=-1)
    else:
        places = np.broadcast_to(np.arange(flat.shape[-1]), flat.shape)
    order = np.argsort(-flat[picture, lane, places], axis=-1, kind="stable")
    places = places[picture, lane, order]
    parents, chosen = np.divmod(places, words)
    return _Candidates(flat[picture, lane, places], parents, chosen, chosen == ends[..., None])


def _store(
    pools: _Pools,
    front: _Front,
    candidates: _Candidates,
    directions: Sequence[Direction],
    options: SearchOptions,
) -> None:
    """Put the candidates that ended into their pools.

    Only the first `beam` of a lane count: an end that would not have been kept as an open beam
    is no better a hypothesis for being an end.
    """
    length = front.words.shape[-1] - 1
    sums = candidates.sums[..., : options.beam]
    scores = sums / (length + 1) ** options.length_power
    worst = pools.worst[front.pictures[:, None], front.directions]
    stored = candidates.ended[..., : options.beam] & (scores > worst[..., None])
    for place, lane, rank in zip(*np.nonzero(stored), strict=True):
        direction = front.directions[place, lane]
        words = front.words[place, lane, candidates.parents[place, lane, rank], 1:].tolist()
        if directions[direction].reverse:
            words.reverse()
        hypothesis = Finished(tuple(words), float(scores[place, lane, rank]))
        pools.add(front.pictures[place], direction, hypothesis)


def _advance(
    front: _Front, candidates: _Candidates, pools: _Pools, options: SearchOptions
) -> tuple[_Front, np.ndarray, np.ndarray]:
    """Make the candidates that did not end the new beams; lanes and pictures that are done leave.

    Returns:
        The new front, and what of the model's state it needs: pictures int64 (kept,) and rows
        int64 (kept, lanes * beams).
    """
    sums = np.where(candidates.ended, -np.inf, candidates.sums)
    length = front.words.shape[-1]
    horizon = length if options.stopping == "likely" else options.max_length + 1
    reachable = sums.max(axis=-1) / horizon**options.length_power
    done = reachable <= pools.worst[front.pictures[:, None], front.directions]
    sums[done] = -np.inf

    kept = np.flatnonzero(~done.all(axis=1))
    lanes = np.argsort(done[kept], axis=1, kind="stable")
    lanes = lanes[:, : (~done[kept]).sum(axis=1).max(initial=0)]
    picture, lane = kept[:, None, None], lanes[..., None]
    order = np.argsort(candidates.ended[kept[:, None], lanes], axis=-1, kind="stable")
    order = order[..., : options.beam]
    parents = candidates.parents[picture, lane, order]
    words = candidates.words[picture, lane, order]
    new = _Front(
        pictures=front.pictures[kept],
        directions=front.directions[kept[:, None], lanes],
        sums=sums[picture, lane, order],
        words=np.concatenate([front.words[picture, lane, parents], words[..., None]], axis=-1),
    )
    rows = lane * front.sums.shape[-1] + parents
    return new, kept, rows.reshape(len(kept), lanes.shape[1] * rows.shape[2])


def _is_identity(rows: np.ndarray, shape: tuple[int, ...]) -> bool:
    """Whether a selection changes nothing, so that the state need not be copied."""
    return rows.shape == shape[:2] and bool((rows == np.arange(shape[1])).all())
