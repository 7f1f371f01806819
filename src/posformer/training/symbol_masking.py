"""Erases parts of symbols, so that a model learns to infer symbols from their context.

SSAN finds the symbols by the attention of the decoder. Here their boxes are known.
"""

import numpy as np
from numpy.typing import NDArray

_SHARES = (0.25, 0.5)  # of the longer side of a box


def mask_symbols(
    image: NDArray[np.uint8],
    boxes: NDArray[np.float32],
    probability: float,
    rng: np.random.Generator,
) -> NDArray[np.uint8]:
    r"""Return a copy of an image in which a band of some symbols is erased.

    The band crosses the symbol at a random place of its longer side, so that `=` does not become
    `-`. Symbols around others, such as `\sqrt`, are never chosen: a band would erase the others.

    Args:
        image: uint8 (height, width), white ink on black.
        boxes: float32 (tokens, 4), left, top, right, bottom; NaN without ink.
        probability: of each symbol.
        rng: Random generator.
    """
    result = image.copy()
    chosen = rng.random(len(boxes)) < probability
    shares, places = rng.uniform(*_SHARES, len(boxes)), rng.random(len(boxes))
    for token in np.flatnonzero(chosen & ~np.isnan(boxes[:, 0]) & ~_encloses(boxes)):
        low, high = boxes[token, :2].copy(), boxes[token, 2:].copy()
        side = int((high - low).argmax())
        length = high[side] - low[side]
        low[side] += places[token] * (1 - shares[token]) * length
        high[side] = low[side] + shares[token] * length
        (left, top), (right, bottom) = np.maximum(low.round().astype(int), 0), np.ceil(high)
        result[top : int(bottom), left : int(right)] = 0
    return result


def _encloses(boxes: NDArray[np.float32]) -> NDArray[np.bool_]:
    """Return which boxes have the center of another one inside, bool (tokens,)."""
    centers = (boxes[:, :2] + boxes[:, 2:]) / 2
    inside = ((centers >= boxes[:, None, :2]) & (centers <= boxes[:, None, 2:])).all(axis=-1)
    inside &= ~np.eye(len(boxes), dtype=bool)
    enclosing: NDArray[np.bool_] = inside.sum(axis=1) > 0
    return enclosing
