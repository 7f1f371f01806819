"""Batches of images that are alike in size, so that little of a batch is padding.

Sizes are those after augmentation: an image that will be drawn at 1.4 times its size belongs with
other large ones. The set is halved again and again along the side (height, width or length) in
which its members differ most, until every part fits into one batch.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from posformer.errors import DataError

__all__ = ["CELL", "pack_batches", "shard", "step_share", "valid_share"]

CELL = 16
"""Pixels, in height and in width, that become one cell of the encoder's map."""

# A unit of spread in length costs only the decoder's time, in height or width the encoder's too.
_LENGTH_WEIGHT = 0.5

# A part that needs more batches than this is halved; a smaller one gives up one full batch at a
# time, because halving would leave batches half empty.
_HALVE_ABOVE = 4


@dataclass(frozen=True)
class _Limits:
    """What a batch may hold at most; `math.inf` where there is no limit."""

    pixels: float
    images: float
    cell_steps: float

    def load(
        self, count: np.ndarray, height: np.ndarray, width: np.ndarray, length: np.ndarray
    ) -> np.ndarray:
        """Give the share of the tightest limit that `count` images padded to one size take."""
        pixels = count * height * width
        cell_steps = pixels / CELL**2 * length
        return np.maximum.reduce(
            [pixels / self.pixels, count / self.images, cell_steps / self.cell_steps]
        )


def pack_batches(
    sizes: np.ndarray,
    *,
    max_pixels: int,
    max_images: int,
    rng: np.random.Generator,
    max_cells_steps: int | None = None,
) -> list[np.ndarray]:
    """Group examples of similar size into batches.

    Args:
        sizes: Integers (examples, 3): height, width and length (in steps) of every example as it
            will be rendered.
        max_pixels: Most pixels of a batch, padding included. Heights and widths count as
            multiples of 16, as the encoder pads them.
        max_images: Most images of a batch.
        rng: Decides between equals and in which order the batches come; nothing else is random.
        max_cells_steps: Most (cell, step) pairs of a batch, padding included: they decide the
            memory that attention takes. None for no limit.

    Returns:
        Arrays of example indices; every example is in exactly one of them. One that breaks a limit
        by itself is alone in its batch.
    """
    if min(max_pixels, max_images, max_cells_steps or 1) < 1:
        raise DataError("the limits of a batch must be at least 1")
    limits = _Limits(max_pixels, max_images, max_cells_steps or np.inf)
    padded = _padded(sizes)
    spread = np.log(padded) * (1.0, 1.0, _LENGTH_WEIGHT)
    batches: list[np.ndarray] = []
    parts = [rng.permutation(len(padded))] if len(padded) else []
    while parts:
        part = parts.pop()
        load = limits.load(np.asarray(len(part)), *padded[part].max(axis=0))
        if load <= 1 or len(part) == 1:
            batches.append(part)
            continue
        side = int(np.argmax(spread[part].max(axis=0) - spread[part].mean(axis=0)))
        part = part[np.argsort(padded[part, side], kind="stable")]
        cut = _cut(padded[part], float(load), limits)
        parts += [part[:cut], part[cut:]]
    return [batches[place] for place in rng.permutation(len(batches))]


def _padded(sizes: np.ndarray) -> np.ndarray:
    """Round heights and widths up to whole cells; int64 (examples, 3)."""
    padded = np.asarray(sizes, dtype=np.int64).reshape(-1, 3).copy()
    padded[:, :2] = -(-padded[:, :2] // CELL) * CELL
    return np.maximum(padded, 1)


def _cut(padded: np.ndarray, load: float, limits: _Limits) -> int:
    """Choose after how many of the sorted examples (examples, 3) to part them; 1 … examples - 1."""
    if load > _HALVE_ABOVE:
        batches = int(np.ceil(load))
        cut = round(len(padded) * (batches // 2) / batches)
    else:
        count = np.arange(1, len(padded) + 1)
        loads = limits.load(count, *np.maximum.accumulate(padded, axis=0).T)
        cut = int(np.searchsorted(loads, 1, side="right"))
    return min(max(cut, 1), len(padded) - 1)


def valid_share(sizes: np.ndarray, batches: Sequence[np.ndarray]) -> float:
    """Tell which share of all pixels in the batches is image and not padding.

    Args:
        sizes: Integers (examples, 3): height, width, length.
        batches: Arrays of example indices.

    Returns:
        Between 0 and 1; 1 when there are no batches.
    """
    real = np.asarray(sizes, dtype=np.int64).reshape(-1, 3)
    return _share(real[:, 0] * real[:, 1], _padded(real)[:, :2], batches)


def step_share(sizes: np.ndarray, batches: Sequence[np.ndarray]) -> float:
    """Tell which share of the (step, cell) pairs in the batches is real: what attention computes.

    Args:
        sizes: Integers (examples, 3): height, width, length.
        batches: Arrays of example indices.

    Returns:
        Between 0 and 1; 1 when there are no batches.
    """
    padded = _padded(sizes)
    return _share(padded.prod(axis=1), padded, batches)


def _share(real: np.ndarray, padded: np.ndarray, batches: Sequence[np.ndarray]) -> float:
    used = sum(int(real[batch].sum()) for batch in batches)
    filled = sum(len(batch) * int(padded[batch].max(axis=0).prod()) for batch in batches)
    return used / filled if filled else 1.0


def shard(batches: Sequence[np.ndarray], rank: int, world: int) -> list[np.ndarray]:
    """Give one of several processes its part of an epoch.

    All ranks get the same number of batches, for they must make the same number of steps, and
    together they see every example exactly once. Where the batches cannot be sharded out evenly the
    largest are halved until they can.

    Args:
        batches: The batches of the whole epoch, the same on every rank.
        rank: Which process this is, from 0.
        world: How many processes there are.

    Returns:
        The batches of this rank, in order.

    Raises:
        DataError: When there are fewer examples than processes.
    """
    if not 0 <= rank < world:
        raise DataError(f"rank {rank} is not one of {world} processes")
    examples = sum(len(batch) for batch in batches)
    if examples < world:
        raise DataError(f"{examples} examples cannot be sharded to {world} processes")
    wanted = min(-(-len(batches) // world), examples // world) * world
    even = _halve_largest(batches, wanted)
    return _join_smallest(even, wanted)[rank::world]


def _halve_largest(batches: Sequence[np.ndarray], wanted: int) -> list[np.ndarray]:
    """Halve the largest batches until there are at least as many as wanted."""
    out = list(batches)
    while len(out) < wanted:
        place = max(range(len(out)), key=lambda index: len(out[index]))
        middle = len(out[place]) // 2
        out.append(out[place][middle:])
        out[place] = out[place][:middle]
    return out


def _join_smallest(batches: list[np.ndarray], wanted: int) -> list[np.ndarray]:
    """Join the smallest batches until there are as few as wanted: some are too small to halve."""
    out = list(batches)
    while len(out) > wanted:
        first, second = sorted(range(len(out)), key=lambda index: len(out[index]))[:2]
        out[first] = np.concatenate([out[first], out[second]])
        del out[second]
    return out
