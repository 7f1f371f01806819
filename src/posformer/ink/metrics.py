"""Where each symbol stands in its row: how far it reaches above and below the baseline.

The unit is the x-height of the row, so `x` reaches from 0 to 1. Symbols that grow with what they
enclose or sum over have no fixed reach; they say nothing about the size of a row.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Reach:
    """The vertical extent of a symbol relative to its baseline, in x-heights, upwards."""

    top: float
    bottom: float

    @property
    def height(self) -> float:
        """From bottom to top."""
        return self.top - self.bottom


_SHAPES: Mapping[Reach, str] = {
    Reach(1.0, 0.0): "a c e m n o r s u v w x z \\alpha \\sigma \\pi",
    Reach(1.0, -0.85): "g p q y \\mu \\gamma",
    Reach(1.45, -0.8): "j",
    Reach(1.45, 0.0): "i",
    Reach(1.75, 0.0): "b d h k l \\theta \\lambda",
    Reach(1.55, 0.0): "t",
    Reach(1.75, -0.55): "f \\beta \\phi",
    Reach(1.65, 0.0): "0 1 2 3 4 5 6 7 8 9 A B C D E F G H I J K L M N O P Q R S T U V W X Y Z "
    "\\Delta \\Pi \\forall \\exists !",
    Reach(1.15, 0.1): "+ \\pm \\times \\div",
    Reach(0.7, 0.55): "-",
    Reach(0.85, 0.35): "=",
    Reach(1.1, 0.1): "< > \\neq \\in",
    Reach(1.2, 0.0): "\\leq \\geq",
    Reach(0.9, 0.25): "\\rightarrow",
    Reach(1.0, 0.1): "\\infty",
    Reach(0.65, 0.5): "\\cdot \\cdots",
    Reach(0.1, 0.0): ". \\ldots",
    Reach(0.15, -0.4): ",",
    Reach(0.8, 0.0): "\\prime",
    Reach(1.7, 0.0): "\\cos \\sin \\tan \\lim",
    Reach(1.7, -0.8): "\\log",
}

REACH: Mapping[str, Reach] = {
    token: reach for reach, tokens in _SHAPES.items() for token in tokens.split()
}
"""Symbols of fixed reach."""

DELIMITERS = frozenset(("(", ")", "[", "]", "\\{", "\\}", "|", "/"))
"""Symbols that grow with what they enclose."""

OPERATORS = frozenset(("\\sum", "\\int", "\\prod", "\\lim"))
"""Symbols whose scripts are limits."""

STRETCHED: Mapping[str, Reach] = {
    **dict.fromkeys(DELIMITERS, Reach(1.9, -0.3)),
    "\\sum": Reach(1.9, -0.4),
    "\\prod": Reach(1.9, -0.4),
    "\\int": Reach(2.3, -0.9),
    "\\sqrt": Reach(2.0, -0.2),
    "\\frac": Reach(0.65, 0.55),
}
"""What symbols without a fixed reach measure in a plain row of letters."""

UNKNOWN = Reach(1.65, 0.0)


def reach(token: str) -> Reach:
    """The usual reach of a token in a plain row."""
    return REACH.get(token) or STRETCHED.get(token, UNKNOWN)


def fit_row(tokens: list[str], tops: np.ndarray, bottoms: np.ndarray) -> tuple[float, float] | None:
    """Baseline and x-height of a row from the boxes of its symbols, y down.

    Flat symbols (`-`, `.`) say where the row stands but little about its size; they count less.

    Args:
        tokens: What the boxes hold.
        tops: float (symbols,).
        bottoms: float (symbols,).

    Returns:
        The y of the baseline and the x-height, or None when no symbol of fixed reach is there.
    """
    known = [place for place, token in enumerate(tokens) if token in REACH]
    reaches = [REACH[tokens[place]] for place in known]
    if not any(reach.height > 0.5 for reach in reaches):
        return None
    levels = np.array([[reach.top, reach.bottom] for reach in reaches]).ravel()
    ys = np.stack([tops[known], bottoms[known]], axis=1).ravel().astype(np.float64)
    weights = np.repeat([min(reach.height, 1.0) + 0.05 for reach in reaches], 2)
    for _ in range(3):
        baseline, unit = _line(levels, ys, weights)
        if unit <= 0:
            return None
        residual = np.abs(ys - (baseline - unit * levels)) / unit
        weights = weights / (1 + np.square(residual / 0.4))
    return baseline, unit


def _line(levels: np.ndarray, ys: np.ndarray, weights: np.ndarray) -> tuple[float, float]:
    """Weighted least squares for y = baseline - unit · level."""
    total = weights.sum()
    mean_level, mean_y = (weights @ levels) / total, (weights @ ys) / total
    spread = weights @ np.square(levels - mean_level)
    unit = -(weights @ ((levels - mean_level) * (ys - mean_y))) / max(spread, 1e-9)
    return float(mean_y + unit * mean_level), float(unit)
