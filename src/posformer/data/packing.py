"""Batches of images of similar size, so that little of a batch is padding.

Sizes are those after augmentation. The examples are split recursively along the dimension (height,
width or caption length) in which they differ most, until every part fits into one batch.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from posformer.errors import DataError
from posformer.models.model_config import STRIDE

# Padding in length costs decoder time only, padding in height or width also encoder time.
_LENGTH_WEIGHT = 0.5

# A part that needs more batches than this is halved. From a smaller one, full batches are split
# off one at a time, because halving would leave batches half empty.
_HALVE_ABOVE = 4


_Limits = tuple[float, float, float]
"""Maximum pixels, images, and (cell, step) pairs of a batch; infinity where there is no limit."""


def _load(count: np.ndarray, padded: np.ndarray, limits: _Limits) -> np.ndarray:
    """Return the share of the tightest limit that `count` images use.

    Args:
        count: Numbers of images, (…).
        padded: Height, width and length to which they are padded, (…, 3).
        limits: The limits.
    """
    height, width, length = padded.T
    pixels = count * height * width
    used = pixels, count, pixels / STRIDE**2 * length
    return np.maximum.reduce([one / limit for one, limit in zip(used, limits, strict=True)])


def pack_batches(
    sizes: NDArray[np.integer],
    *,
    max_pixels: int,
    max_images: int,
    rng: np.random.Generator,
    max_cells_steps: int | None = None,
) -> list[NDArray[np.int64]]:
    """Group examples of similar size into batches.

    Args:
        sizes: Integers (examples, 3): height, width and length (in decoder steps) of every
            example as it will be rendered.
        max_pixels: Maximum number of pixels per batch, padding included. Heights and widths are
            rounded up to multiples of 16, as in the encoder.
        max_images: Maximum number of images per batch.
        rng: Breaks ties and shuffles the batches; nothing else is random.
        max_cells_steps: Maximum number of (feature map cell, decoder step) pairs per batch,
            padding included: they determine the memory of attention. None for no limit.

    Returns:
        Arrays of example indices, int64 (batch,). Every example is in exactly one of them. An
        example that exceeds a limit by itself forms its own batch.

    Raises:
        DataError: If a limit is below 1.
    """
    if min(max_pixels, max_images, max_cells_steps or 1) < 1:
        raise DataError("the limits of a batch must be at least 1")
    limits = max_pixels, max_images, max_cells_steps or np.inf
    padded = _padded(sizes)
    spread = np.log(padded) * (1.0, 1.0, _LENGTH_WEIGHT)
    batches: list[np.ndarray] = []
    parts = [rng.permutation(len(padded))] if len(padded) else []
    while parts:
        part = parts.pop()
        load = _load(np.asarray(len(part)), padded[part].max(axis=0), limits)
        if load <= 1 or len(part) == 1:
            batches.append(part)
            continue
        side = int(np.argmax(spread[part].max(axis=0) - spread[part].mean(axis=0)))
        part = part[np.argsort(padded[part, side], kind="stable")]
        cut = _cut(padded[part], float(load), limits)
        parts += [part[:cut], part[cut:]]
    return [batches[index] for index in rng.permutation(len(batches))]


def _padded(sizes: np.ndarray) -> np.ndarray:
    """Round heights and widths up to multiples of the stride; int64 (examples, 3)."""
    padded = np.asarray(sizes, dtype=np.int64).reshape(-1, 3).copy()
    padded[:, :2] = -(-padded[:, :2] // STRIDE) * STRIDE
    return np.maximum(padded, 1)


def _cut(padded: np.ndarray, load: float, limits: _Limits) -> int:
    """Return after how many of the sorted examples (examples, 3) to split: 1 … examples - 1."""
    if load > _HALVE_ABOVE:
        batches = int(np.ceil(load))
        cut = round(len(padded) * (batches // 2) / batches)
    else:
        count = np.arange(1, len(padded) + 1)
        loads = _load(count, np.maximum.accumulate(padded, axis=0), limits)
        cut = int(np.searchsorted(loads, 1, side="right"))
    return min(max(cut, 1), len(padded) - 1)


def valid_share(sizes: NDArray[np.integer], batches: Sequence[np.ndarray]) -> float:
    """Return the share of pixels in the batches that are not padding.

    Args:
        sizes: Integers (examples, 3): height, width, length.
        batches: Arrays of example indices.

    Returns:
        Between 0 and 1; 1 if there are no batches.
    """
    real = np.asarray(sizes, dtype=np.int64).reshape(-1, 3)
    return _share(real[:, 0] * real[:, 1], _padded(real)[:, :2], batches)


def step_share(sizes: NDArray[np.integer], batches: Sequence[np.ndarray]) -> float:
    """Return the share of (decoder step, cell) pairs in the batches that are not padding.

    Args:
        sizes: Integers (examples, 3): height, width, length.
        batches: Arrays of example indices.

    Returns:
        Between 0 and 1; 1 if there are no batches.
    """
    padded = _padded(sizes)
    return _share(padded.prod(axis=1), padded, batches)


def _share(real: np.ndarray, padded: np.ndarray, batches: Sequence[np.ndarray]) -> float:
    used = sum(int(real[batch].sum()) for batch in batches)
    filled = sum(len(batch) * int(padded[batch].max(axis=0).prod()) for batch in batches)
    return used / filled if filled else 1.0


def shard(batches: Sequence[np.ndarray], rank: int, world: int) -> list[np.ndarray]:
    """Return the batches of one of several processes.

    All ranks get the same number of batches, because they must make the same number of steps, and
    together they see every example exactly once. If the number of batches is not a multiple of
    the number of ranks, the largest batches are halved.

    Args:
        batches: The batches of the epoch, the same on every rank.
        rank: Index of the process.
        world: Number of processes.

    Returns:
        The batches of this rank, in order.

    Raises:
        DataError: If there are fewer examples than processes, or the rank is out of range.
    """
    if not 0 <= rank < world:
        raise DataError(f"rank {rank} is not one of {world} processes")
    examples = sum(len(batch) for batch in batches)
    if examples < world:
        raise DataError(f"{examples} examples cannot be sharded over {world} processes")
    wanted = min(-(-len(batches) // world), examples // world) * world
    even = _halve_largest(batches, wanted)
    return _join_smallest(even, wanted)[rank::world]


def _halve_largest(batches: Sequence[np.ndarray], wanted: int) -> list[np.ndarray]:
    """Halve the largest batches until there are at least as many as wanted."""
    out = list(batches)
    while len(out) < wanted:
        largest = max(range(len(out)), key=lambda index: len(out[index]))
        middle = len(out[largest]) // 2
        out.append(out[largest][middle:])
        out[largest] = out[largest][:middle]
    return out


def _join_smallest(batches: list[np.ndarray], wanted: int) -> list[np.ndarray]:
    """Join the smallest batches until there are as few as wanted."""
    out = list(batches)
    while len(out) > wanted:
        first, second = sorted(range(len(out)), key=lambda index: len(out[index]))[:2]
        out[first] = np.concatenate([out[first], out[second]])
        del out[second]
    return out
