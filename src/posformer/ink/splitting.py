"""Splitting ink that holds several formulas, one below the other."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from posformer.image.cleanup import MARGINS, PEN_WIDTH
from posformer.image.lines import find_lines
from posformer.ink.render import render


def split_strokes(strokes: Sequence[np.ndarray]) -> list[tuple[np.ndarray, ...]]:
    """Split strokes where `posformer.image.lines.split_lines` would cut their image.

    Formulas are written one after the other, their parts often in any order: there is no cut
    where a stroke above it was written after one below.

    Args:
        strokes: float (points, 2) each, in pixels as returned by `strokes_in_pixels`, in the
            order of writing.

    Returns:
        The strokes of each formula, from top to bottom.
    """
    lines = find_lines(render(strokes))
    top = min(np.floor(stroke[:, 1].min()) for stroke in strokes)
    centers = np.array([(stroke[:, 1].min() + stroke[:, 1].max()) / 2 for stroke in strokes])
    centers += MARGINS[0] - top + PEN_WIDTH / 2
    cuts = []
    for upper, lower in pairwise(lines):
        above = centers < (upper[1] + lower[0]) / 2
        if np.flatnonzero(above).max() < np.flatnonzero(~above).min():
            cuts.append(int(above.sum()))
    return [tuple(strokes[start:end]) for start, end in pairwise([0, *cuts, len(strokes)])]
