"""Matplotlib helpers shared by reports, attention maps and training plots.

Needs the extra `report`.
"""

import io
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from markupsafe import Markup
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from PIL import Image

from posformer.errors import PosformerError

COLORS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#D55E00", "#56B4E9")
"""Okabe-Ito colors, which stay distinct with every kind of color vision."""

_CHARACTER_WIDTH = 0.602  # of DejaVu Sans Mono, in font sizes
_LINE_HEIGHT = 1.5  # in font sizes
_NO_METADATA = dict.fromkeys(("Creator", "Date", "Format", "Type"))
_SVG_NOISE = re.compile(r'\s(?:xmlns(?::\w+)?="[^"]*"|id="[\w.]+_\d+")|<style.*?</style>', re.S)


@dataclass(frozen=True)
class ColoredToken:
    """A token, its color, and the color behind it."""

    text: str
    color: str
    background: str | None = None


def save_figure(figure: Figure, path: Path, dpi: int = 120) -> None:
    """Save a figure in the format of the file's extension; equal figures give equal files.

    Raises:
        PosformerError: If the file cannot be written or the format is unknown.
    """
    metadata = {"Date": None} if path.suffix == ".svg" else None
    try:
        with matplotlib.rc_context({"svg.hashsalt": "posformer"}):
            figure.savefig(path, dpi=dpi, metadata=metadata)
    except (OSError, ValueError) as error:
        raise PosformerError(f"{path}: {error}") from error


def save_png(figure: Figure, path: Path) -> None:
    """Save a figure as a small PNG with 256 colors."""
    pixels = Image.fromarray(figure_pixels(figure))
    pixels.quantize(256, method=Image.Quantize.FASTOCTREE).save(path, optimize=True)


def figure_pixels(figure: Figure) -> np.ndarray:
    """Rasterize a figure, uint8 (height, width, 3)."""
    raster = FigureCanvasAgg(figure)
    raster.draw()
    return np.asarray(raster.buffer_rgba())[..., :3].copy()


def inline_svg(figure: Figure, css_colors: dict[str, str]) -> Markup:
    """Return a figure as an `<svg>` element for an HTML page.

    Args:
        figure: The figure; its text stays text.
        css_colors: CSS expressions that replace colors of the figure (`#rrggbb`, lower case), so
            that a plot follows the light and dark colors of its page.
    """
    stream = io.StringIO()
    with matplotlib.rc_context({"svg.hashsalt": "posformer", "svg.fonttype": "none"}):
        figure.savefig(stream, format="svg", transparent=True, metadata=_NO_METADATA)
    text = stream.getvalue()
    text = _SVG_NOISE.sub("", text[text.index("<svg") :])
    for color, css in css_colors.items():
        text = text.replace(color, css)
    return Markup(text)


def canvas(width: float, height: float, dpi: int = 100) -> tuple[Figure, Any]:
    """Return a figure and its only axes, whose units are points from the upper left corner."""
    figure = Figure(figsize=(width / 72, height / 72), dpi=dpi)
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set(xlim=(0, width), ylim=(height, 0))
    axes.set_axis_off()
    return figure, axes


def draw_tokens(
    axes: Any, left: float, top: float, lines: Sequence[Sequence[ColoredToken]], size: float
) -> None:
    """Draw lines of tokens in a monospaced font on a `canvas`.

    Args:
        axes: The axes of a `canvas`.
        left: Left edge in points.
        top: Upper edge in points.
        lines: The lines, such as `token_lines` returns.
        size: Font size in points.
    """
    font = {"fontsize": size, "family": "DejaVu Sans Mono", "va": "center_baseline"}
    for number, line in enumerate(lines):
        x, middle = left, top + (number + 0.5) * _LINE_HEIGHT * size
        for token in line:
            width = len(token.text) * _CHARACTER_WIDTH * size
            if token.background:
                corner = x - 0.2 * size, middle - 0.68 * size
                box = Rectangle(corner, width + 0.4 * size, 1.36 * size, color=token.background)
                axes.add_patch(box)
            axes.text(x, middle, token.text, color=token.color, parse_math=False, **font)
            x += width + _CHARACTER_WIDTH * size


def token_lines(
    tokens: Sequence[ColoredToken], width: float, size: float
) -> tuple[list[list[ColoredToken]], float]:
    """Break tokens into lines for `draw_tokens`.

    Args:
        tokens: The tokens.
        width: Width of a line in points; a longer token gets a line of its own.
        size: Font size in points.

    Returns:
        The lines, and their height in points.
    """
    columns, used = int(width / (_CHARACTER_WIDTH * size)), 0
    lines: list[list[ColoredToken]] = []
    for token in tokens:
        if not lines or used + len(token.text) > columns:
            lines.append([])
            used = 0
        lines[-1].append(token)
        used += len(token.text) + 1
    return lines, len(lines) * _LINE_HEIGHT * size
