"""Where each symbol stands in its row: how far it reaches above and below the baseline.

The unit is the x-height of the row, so `x` reaches from 0 to 1. Symbols that grow with what they
enclose or sum over have no fixed reach; they say nothing about the size of a row. The numbers are
medians over the handwritten rows of CROHME's training set that have three symbols or more.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass


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
    Reach(1.0, 0.0): "a c e m n o r s u v w x z \\sigma \\max",
    Reach(1.25, 0.0): "\\alpha \\pi",
    Reach(1.0, -0.85): "g p q y",
    Reach(1.15, -0.75): "\\mu",
    Reach(1.25, -0.5): "\\gamma",
    Reach(1.45, -0.8): "j",
    Reach(1.55, 0.0): "i t",
    Reach(1.7, 0.0): "b d h k l",
    Reach(1.9, -0.65): "f",
    Reach(1.55, -0.7): "\\beta",
    Reach(1.75, -0.55): "\\phi",
    Reach(1.5, 0.0): "0 1 2 3 5 \\theta \\exists",
    Reach(1.55, -0.05): "4 6 7 8 9 \\lambda \\Delta \\Pi",
    Reach(1.6, -0.1): "A B C D E F G H I J K L M N O P Q R S T U V W X Z",
    Reach(1.6, -0.25): "Y",
    Reach(2.0, 0.0): "\\forall",
    Reach(1.65, 0.0): "!",
    Reach(1.05, 0.05): "+ \\times",
    Reach(1.45, -0.1): "\\pm \\div",
    Reach(0.6, 0.5): "-",
    Reach(0.75, 0.25): "=",
    Reach(1.2, 0.05): "< > \\in",
    Reach(1.5, -0.2): "\\leq \\geq",
    Reach(1.5, -0.55): "\\neq",
    Reach(0.95, 0.1): "\\rightarrow \\infty",
    Reach(0.65, 0.6): "\\cdot",
    Reach(0.55, 0.4): "\\cdots",
    Reach(0.25, 0.1): ". \\ldots",
    Reach(0.2, -0.5): ",",
    Reach(1.85, 1.25): "\\prime",
    Reach(1.05, -0.05): "\\cos",
    Reach(1.35, -0.1): "\\sin",
    Reach(1.55, -0.05): "\\tan",
    Reach(1.8, -0.1): "\\lim \\ln",
    Reach(1.7, -0.95): "\\log",
    Reach(1.0, -0.8): "\\exp",
    Reach(1.4, 0.0): "\\min",
}

REACH: Mapping[str, Reach] = {
    token: reach for reach, tokens in _SHAPES.items() for token in tokens.split()
}
"""Symbols of fixed reach."""

SCRIPT_SIZE = 0.54
"""X-height of a script relative to that of the row it belongs to."""

DELIMITERS = frozenset(("(", ")", "[", "]", "\\{", "\\}", "|", "/"))
"""Symbols that grow with what they enclose."""

OPERATORS = frozenset(("\\sum", "\\int", "\\prod", "\\lim"))
"""Symbols whose scripts are limits."""

STRETCHED: Mapping[str, Reach] = {
    **dict.fromkeys(DELIMITERS, Reach(1.9, -0.4)),
    **dict.fromkeys(("[", "]", "\\{", "\\}"), Reach(2.05, -0.8)),
    "\\sum": Reach(1.95, -0.4),
    "\\prod": Reach(1.95, -0.4),
    "\\int": Reach(2.75, -1.1),
    "\\sqrt": Reach(2.0, -0.3),
    "\\frac": Reach(0.6, 0.5),
}
"""What symbols without a fixed reach measure in a plain row of letters."""

UNKNOWN = Reach(1.65, 0.0)


def reach(token: str) -> Reach:
    """The usual reach of a token in a plain row."""
    return REACH.get(token) or STRETCHED.get(token, UNKNOWN)


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
        The y of the baseline and the x-height, or None when no symbol of fixed reach is there.
    """
    edges: list[tuple[float, float, float]] = []  # level, y, weight
    tall = False
    for token, top, bottom in zip(tokens, tops, bottoms, strict=True):
        usual = REACH.get(token)
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
