"""Beam search over the lanes of many images at once.

A lane is one direction of one image: its beams compete with each other and with no others.
All lanes take a step together, as rows of one call of the network.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from posformer.search.decoding_options import DecodingOptions
from posformer.search.step_model import State, StepModel

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

    images: np.ndarray  # int64 (images,), their numbers in the model
    directions: np.ndarray  # int64 (images, lanes), which direction a lane goes
    sums: np.ndarray  # float64 (images, lanes, beams), -inf where there is no beam
    tokens: np.ndarray  # int64 (images, lanes, beams, 1 + length), start token first


@dataclass(frozen=True)
class _Candidates:
    """The best continuations of each lane, best first; all (images, lanes, candidates)."""

    sums: np.ndarray
    parents: np.ndarray  # beam of the lane that is continued
    tokens: np.ndarray  # by which token
    ended: np.ndarray  # whether that word is the end


class _Pools:
    """The best finished hypotheses of every image and direction, `size` of each at most."""

    def __init__(self, images: int, directions: int, size: int) -> None:
        self.size = size
        self.worst = np.full((images, directions), -np.inf)  # -inf until a pool is full
        self.lists: list[list[list[Finished]]] = [
            [[] for _ in range(directions)] for _ in range(images)
        ]

    def add(self, image: int, direction: int, hypothesis: Finished) -> None:
        """Take a hypothesis in if it is among the best."""
        if hypothesis.score <= self.worst[image, direction]:
            return
        pool = self.lists[image][direction]
        pool.append(hypothesis)
        pool.sort(key=lambda item: -item.score)
        del pool[self.size :]
        if len(pool) == self.size:
            self.worst[image, direction] = pool[-1].score


def decode(
    model: StepModel[State],
    options: DecodingOptions,
    directions: Sequence[Direction],
    images: int,
    pad: int,
) -> list[list[list[Finished]]]:
    """Find the best hypotheses of every image in every direction.

    Args:
        model: the network, with its images encoded.
        options: how to search.
        directions: the ways to read.
        images: how many images the model holds.
        pad: token that is never chosen.

    Returns:
        For every image and direction the finished hypotheses, best first.
    """
    starts = np.array([direction.start for direction in directions])
    ends = np.array([direction.end for direction in directions])
    pools = _Pools(images, len(directions), options.finished or options.beam)
    front = _Front(
        images=np.arange(images),
        directions=np.tile(np.arange(len(directions)), (images, 1)),
        sums=np.zeros((images, len(directions), 1)),
        tokens=np.tile(starts[:, None, None], (images, 1, 1, 1)),
    )
    state = model.start()
    for length in range(options.max_length + 1):
        last = front.tokens[..., -1].reshape(len(front.images), -1, 1)
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
    """Sums of all continuations, (images, lanes, beams, words)."""
    totals = front.sums[..., None] + output.reshape(*front.sums.shape, output.shape[-1])
    totals[..., pad] = -np.inf
    image, lane = np.indices(front.directions.shape)
    totals[image, lane, :, starts[front.directions]] = -np.inf
    return totals


def _only_end(totals: np.ndarray, ends: np.ndarray) -> np.ndarray:
    """Forbid everything but the end, so that the longest hypotheses are finished ones too."""
    image, lane = np.indices(ends.shape)
    closed = np.full_like(totals, -np.inf)
    closed[image, lane, :, ends] = totals[image, lane, :, ends]
    return closed


def _best(totals: np.ndarray, count: int, ends: np.ndarray) -> _Candidates:
    """The best continuations of each lane in order; of equal ones the first beam and word."""
    images, lanes, beams, words = totals.shape
    flat = totals.reshape(images, lanes, beams * words)
    image, lane = np.ogrid[:images, :lanes, :1][:2]
    if count < flat.shape[-1]:
        places = np.argpartition(-flat, count - 1, axis=-1)[..., :count]
        places.sort(axis=-1)
    else:
        places = np.broadcast_to(np.arange(flat.shape[-1]), flat.shape)
    order = np.argsort(-flat[image, lane, places], axis=-1, kind="stable")
    places = places[image, lane, order]
    parents, chosen = np.divmod(places, words)
    return _Candidates(flat[image, lane, places], parents, chosen, chosen == ends[..., None])


def _store(
    pools: _Pools,
    front: _Front,
    candidates: _Candidates,
    directions: Sequence[Direction],
    options: DecodingOptions,
) -> None:
    """Put the candidates that ended into their pools.

    Only the first `beam` of a lane count: an end that would not have been kept as an open beam
    is no better a hypothesis for being an end.
    """
    length = front.tokens.shape[-1] - 1
    sums = candidates.sums[..., : options.beam]
    scores = sums / (length + 1) ** options.length_power
    worst = pools.worst[front.images[:, None], front.directions]
    stored = candidates.ended[..., : options.beam] & (scores > worst[..., None])
    for place, lane, rank in zip(*np.nonzero(stored), strict=True):
        direction = front.directions[place, lane]
        words = front.tokens[place, lane, candidates.parents[place, lane, rank], 1:].tolist()
        if directions[direction].reverse:
            words.reverse()
        hypothesis = Finished(tuple(words), float(scores[place, lane, rank]))
        pools.add(front.images[place], direction, hypothesis)


def _advance(
    front: _Front, candidates: _Candidates, pools: _Pools, options: DecodingOptions
) -> tuple[_Front, np.ndarray, np.ndarray]:
    """Make the candidates that did not end the new beams; lanes and images that are done leave.

    Returns:
        The new front, and what of the model's state it needs: images int64 (kept,) and rows
        int64 (kept, lanes * beams).
    """
    sums = np.where(candidates.ended, -np.inf, candidates.sums)
    length = front.tokens.shape[-1]
    horizon = length if options.stopping == "likely" else options.max_length + 1
    reachable = sums.max(axis=-1) / horizon**options.length_power
    done = reachable <= pools.worst[front.images[:, None], front.directions]
    sums[done] = -np.inf

    kept = np.flatnonzero(~done.all(axis=1))
    lanes = np.argsort(done[kept], axis=1, kind="stable")
    lanes = lanes[:, : (~done[kept]).sum(axis=1).max(initial=0)]
    image, lane = kept[:, None, None], lanes[..., None]
    order = np.argsort(candidates.ended[kept[:, None], lanes], axis=-1, kind="stable")
    order = order[..., : options.beam]
    parents = candidates.parents[image, lane, order]
    words = candidates.tokens[image, lane, order]
    new = _Front(
        images=front.images[kept],
        directions=front.directions[kept[:, None], lanes],
        sums=sums[image, lane, order],
        tokens=np.concatenate([front.tokens[image, lane, parents], words[..., None]], axis=-1),
    )
    rows = lane * front.sums.shape[-1] + parents
    return new, kept, rows.reshape(len(kept), lanes.shape[1] * rows.shape[2])


def _is_identity(rows: np.ndarray, shape: tuple[int, ...]) -> bool:
    """Whether a selection changes nothing, so that the state need not be copied."""
    return rows.shape == shape[:2] and bool((rows == np.arange(shape[1])).all())
