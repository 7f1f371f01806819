"""The vertical extent of symbols, and the baseline and x-height of rows.

The unit is the x-height of the row, so `x` reaches from 0 to 1. Extents are in the symbol table.
Symbols that grow with their content say nothing about the size of a row.
"""

from __future__ import annotations

from collections.abc import Sequence

from posformer.latex.symbols import SYMBOLS, Extent

SCRIPT_SIZE = 0.54
"""X-height of a script relative to that of the row it belongs to."""

_UNKNOWN = Extent(1.65, 0.0)


def vertical_extent(token: str) -> Extent:
    r"""Return the usual vertical extent of a token in a plain row.

    A styled letter such as `\mathbb{R}` is as tall as the letter.
    """
    symbol = SYMBOLS.get(token[-2] if token.startswith("\\math") else token)
    return _UNKNOWN if symbol is None or symbol.extent is None else symbol.extent


def fit_row(
    tokens: Sequence[str], tops: Sequence[float], bottoms: Sequence[float]
) -> tuple[float, float] | None:
    """Baseline and x-height of a row from the boxes of its symbols, y down.

    Flat symbols (`-`, `.`) say where the row stands but little about its size; they count less.

    Args:
        tokens: What the boxes hold.
        tops: The upper edges of the boxes.
        bottoms: The lower edges.

    Returns:
        The y of the baseline and the x-height, or None without a symbol of fixed extent.
    """
    edges: list[tuple[float, float, float]] = []  # level, y, weight
    tall = False
    for token, top, bottom in zip(tokens, tops, bottoms, strict=True):
        symbol = SYMBOLS.get(token)
        usual = None if symbol is None or symbol.grows else symbol.extent
        if usual is not None:
            weight = min(usual.height, 1.0) + 0.05
            edges += [(usual.top, top, weight), (usual.bottom, bottom, weight)]
            tall = tall or usual.height > 0.5
    if not tall:
        return None
    weights = [edge[2] for edge in edges]
    for _ in range(3):
        baseline, unit = _line(edges, weights)
        if unit <= 0:
            return None
        weights = [
            weight / (1 + ((y - baseline + unit * level) / (0.4 * unit)) ** 2)
            for level, y, weight in edges
        ]
    return baseline, unit


def _line(
    edges: Sequence[tuple[float, float, float]], weights: Sequence[float]
) -> tuple[float, float]:
    """Weighted least squares for y = baseline - unit · level."""
    total = sum(weights)
    mean_level = sum(w * level for w, (level, _, _) in zip(weights, edges, strict=True)) / total
    mean_y = sum(w * y for w, (_, y, _) in zip(weights, edges, strict=True)) / total
    spread = slope = 0.0
    for weight, (level, y, _) in zip(weights, edges, strict=True):
        spread += weight * (level - mean_level) ** 2
        slope += weight * (level - mean_level) * (y - mean_y)
    unit = -slope / max(spread, 1e-9)
    return mean_y + unit * mean_level, unit
