"""Figures of attention maps: one sheet per token, an overview, and an animation."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import cv2
import numpy as np
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from PIL import Image

from posformer.explain.forced_decoding import ForcedDecoding
from posformer.latex import is_structure
from posformer.plotting import ColoredToken, canvas, draw_tokens, figure_pixels, token_lines

# Lightness falls steadily: readable in gray and with every kind of color vision. Few steps keep
# animations small.
_COLORMAP = LinearSegmentedColormap.from_list(
    "attention", ["#ffffff", "#fff0b2", "#fecc5c", "#fd8d3c", "#e33026", "#9e0030"], N=14
)
_INK, _GRAY, _PALE, _ACCENT, _WRONG = "#21212c", "#6b6b78", "#c0c0ca", "#9e0030", "#b2182b"
_MARGIN, _GAP = 16, 12  # points, as all lengths below
_CAPTION = 16  # height of a caption
_TOKENS = 15  # font size
_TEXT = {"fontsize": 10, "va": "center", "parse_math": False}
_FRAME_SIZE, _NARROW_FRAME_SIZE = (600, 240), (440, 240)  # bounds of the largest panel
_SHEET_SIZE = (260, 180)
_OVERVIEW_SIZE = (190, 110)
_PIXELS_PER_POINT = 1.4
_ANIMATION_COLORS = 96
_STEP_MS, _LAST_STEP_MS = 700, 2500

_Maps = list[tuple[str, np.ndarray]]
_Size = tuple[float, float]  # width and height in points


class _Panel(NamedTuple):
    left: float
    top: float
    size: _Size
    heat: np.ndarray
    caption: str = ""


class _Block(NamedTuple):
    """Panels of one model for one token; positions are relative to the block."""

    size: _Size
    panels: list[_Panel]


def overlay(image: np.ndarray, heat: np.ndarray, size: _Size) -> np.ndarray:
    """Color the cells of an image and draw its ink on top.

    Args:
        image: uint8 (height, width), white ink on black, full cells.
        heat: float (rows, columns), 0 to 1 for each cell.
        size: Width and height of the figure's panel in points.

    Returns:
        uint8 (pixels, pixels, 3), somewhat more pixels than the panel has points.
    """
    pixels_wide, pixels_high = (max(1, round(_PIXELS_PER_POINT * side)) for side in size)
    shape = (pixels_wide, pixels_high)
    smooth = cv2.resize(heat.astype(np.float32), shape, interpolation=cv2.INTER_CUBIC).clip(0, 1)
    kernel = cv2.INTER_AREA if pixels_wide < image.shape[1] else cv2.INTER_CUBIC
    ink = cv2.resize(image, shape, interpolation=kernel).astype(np.float32) / 255
    ink = np.clip(2 * ink - 0.4, 0, 1) * (0.4 + 0.6 * np.sqrt(smooth))  # darker where it is hot
    pixels = _COLORMAP(smooth)[..., :3] * (1 - ink[..., None]) + 0.13 * ink[..., None]
    return np.rint(255 * pixels).astype(np.uint8)


def draw_overview(decoding: ForcedDecoding) -> Figure:
    """Return a figure with a row for each token and columns for each layer."""
    columns = [
        (f"layer {number}" if place == 0 else "", name, maps)
        for number, layer in enumerate(_layer_maps(decoding), start=1)
        for place, (name, maps) in enumerate(layer)
        if name != "refinement term"
    ]
    width, height = _fitted(decoding, _OVERVIEW_SIZE)
    left = _MARGIN + max(70, 0.6 * _TOKENS * max(map(len, decoding.tokens)) + 12)
    top, pitch = _MARGIN + 2 * _CAPTION, height + 10
    bottom = top + pitch * len(decoding.tokens) + 2 * _CAPTION + _MARGIN
    figure, axes = canvas(left + _MARGIN + (width + _GAP) * len(columns) - _GAP, bottom)
    for number, (title, name, maps) in enumerate(columns):
        x = left + number * (width + _GAP)
        _write(axes, x, _MARGIN + 0.5 * _CAPTION, title, weight="bold")
        _write(axes, x, _MARGIN + 1.4 * _CAPTION, name, _GRAY)
        for step, heat in enumerate(maps):
            panel = _Panel(x, top + step * pitch, (width, height), heat)
            _draw_panel(axes, decoding.image, panel)
    for step, token in enumerate(decoding.tokens):
        middle = top + step * pitch + height / 2
        excluded = decoding.excluded[step]
        colored = ColoredToken(token, _GRAY if excluded else _INK)
        draw_tokens(axes, _MARGIN, middle - 20, [[colored]], _TOKENS)
        note = "not counted" if excluded else f"p = {decoding.probability[step]:.2f}"
        _write(axes, _MARGIN, middle + 11, note, _GRAY)
    _draw_colorbar(axes, bottom)
    return figure


def draw_sheets(decodings: Sequence[ForcedDecoding]) -> Iterator[Figure]:
    """Yield for each token a figure with all layers of one or more models."""
    layers = [_layer_maps(decoding) for decoding in decodings]
    for step in range(len(decodings[0].tokens)):
        blocks = [_sheet_block(*one, step) for one in zip(decodings, layers, strict=True)]
        yield _page(decodings, blocks, step, stacked=True)


def draw_frames(decodings: Sequence[ForcedDecoding]) -> Iterator[Figure]:
    """Yield for each token a figure with the last layer of one or more models side by side."""
    bounds = _FRAME_SIZE if len(decodings) == 1 else _NARROW_FRAME_SIZE
    last = [(one, _layer_maps(one)[-1]) for one in decodings]
    for step in range(len(decodings[0].tokens)):
        blocks = [_frame_block(*one, step, bounds) for one in last]
        yield _page(decodings, blocks, step, stacked=False)


def save_animation(frames: Iterator[Figure], path: Path) -> None:
    """Save figures of equal size as an animated GIF."""
    pixels = [figure_pixels(figure) for figure in frames]
    height, width = pixels[0].shape[:2]
    # One palette for all frames: unchanged regions then cost nothing.
    stack = Image.fromarray(np.concatenate(pixels)).quantize(_ANIMATION_COLORS)
    first, *others = (
        stack.crop((0, top, width, top + height)) for top in range(0, stack.height, height)
    )
    times = [_STEP_MS] * len(others) + [_LAST_STEP_MS]
    first.save(path, save_all=True, append_images=others, duration=times, loop=0)


def _layer_maps(decoding: ForcedDecoding) -> list[_Maps]:
    """Return for each layer the named maps, mean over heads, float (tokens, rows, columns)."""
    found: list[_Maps] = []
    for number, layer in enumerate(decoding.attention):
        weights = layer.mean_weights()[0, 0]
        peak = weights.max(axis=(1, 2), keepdims=True)
        covered = decoding.coverage(number)
        if covered is None or layer.raw_weights is None or layer.refinement is None:
            found.append([("attention", weights / peak)])
            continue
        raw = layer.raw_weights[0, 0].mean(axis=1)
        # The same scale before and after refinement, so that the difference is visible.
        peak = np.maximum(peak, raw.max(axis=(1, 2), keepdims=True))
        # Softmax ignores what is subtracted from all cells.
        term = layer.refinement[0, 0].mean(axis=1)
        term = term - term.min(axis=(1, 2), keepdims=True)
        maps = {
            "before refinement": raw / peak,
            "coverage": _normalized(covered.mean(axis=1)),
            "refinement term": _normalized(term),
            "after refinement": weights / peak,
        }
        found.append(list(maps.items()))
    return found


def _normalized(maps: np.ndarray) -> np.ndarray:
    return np.asarray(maps / max(float(maps.max()), 1e-9))


def _sheet_block(decoding: ForcedDecoding, layers: Sequence[_Maps], step: int) -> _Block:
    """Return a row of panels for each layer."""
    width, height = _fitted(decoding, _SHEET_SIZE)
    pitch = height + _CAPTION + _GAP
    panels = []
    for row, layer in enumerate(layers):
        for column, (name, maps) in enumerate(layer):
            caption = name if column else f"layer {row + 1}: {name}"
            left, top = column * (width + _GAP), row * pitch
            panels.append(_Panel(left, top, (width, height), maps[step], caption))
    columns = max(len(layer) for layer in layers)
    return _Block((columns * (width + _GAP) - _GAP, pitch * len(layers)), panels)


def _frame_block(decoding: ForcedDecoding, layer: _Maps, step: int, bounds: _Size) -> _Block:
    """Return a large panel of the weights, above small ones of raw weights and coverage."""
    width, height = _fitted(decoding, bounds)
    *small, (name, maps) = [one for one in layer if one[0] != "refinement term"]
    panels = [_Panel(0, 0, (width, height), maps[step], f"layer {len(decoding.attention)}: {name}")]
    half = ((width - _GAP) / 2, height * (width - _GAP) / 2 / width)
    top = height + _CAPTION + _GAP
    for place, (name, maps) in enumerate(small):
        panels.append(_Panel(place * (half[0] + _GAP), top, half, maps[step], name))
    return _Block((width, top + (half[1] + _CAPTION + _GAP if small else 0)), panels)


def _page(
    decodings: Sequence[ForcedDecoding], blocks: Sequence[_Block], step: int, *, stacked: bool
) -> Figure:
    """Draw the tokens with the current one marked, the blocks, and the color scale."""
    widths, heights = zip(*(block.size for block in blocks), strict=True)
    width = max(widths) if stacked else sum(widths) + 2 * _GAP * (len(blocks) - 1)
    width = max(width, 300)  # room for the color scale
    lines, text_height = token_lines(_colored_tokens(decodings[0], step), width, _TOKENS)
    top = _MARGIN + text_height + 8
    below = sum(heights) + _CAPTION * len(blocks) if stacked else max(heights) + _CAPTION
    size = width + 2 * _MARGIN, top + below + _CAPTION + _MARGIN
    figure, axes = canvas(*size, dpi=100 if stacked else 72)
    draw_tokens(axes, _MARGIN, _MARGIN - 4, lines, _TOKENS)
    left: float = _MARGIN
    for decoding, block in zip(decodings, blocks, strict=True):
        _write_prediction(axes, left, top + 0.5 * _CAPTION, decoding, step)
        for panel in block.panels:
            _draw_panel(axes, decoding.image, panel, left, top + _CAPTION)
        if stacked:
            top += block.size[1] + _CAPTION
        else:
            left += block.size[0] + 2 * _GAP
    _draw_colorbar(axes, size[1])
    return figure


def _colored_tokens(decoding: ForcedDecoding, step: int) -> list[ColoredToken]:
    """Return the tokens from left to right: decoded ones dark, the current one marked."""
    tokens = [
        ColoredToken(token, _INK if number < step else _PALE)
        for number, token in enumerate(decoding.tokens)
    ]
    current = decoding.tokens[step]
    tokens[step] = ColoredToken(current, "white", _GRAY if is_structure(current) else _ACCENT)
    return tokens if decoding.direction == "forward" else tokens[::-1]


def _write_prediction(
    axes: Any, left: float, middle: float, decoding: ForcedDecoding, step: int
) -> None:
    """Write the model, the token's probability, and the token the model prefers."""
    text = f"{decoding.model}: p = {decoding.probability[step]:.2f}"
    preferred, color = decoding.preferred[step], _INK
    if preferred != decoding.tokens[step]:
        text, color = f"{text}, prefers {preferred or 'the end'}", _WRONG
    elif decoding.excluded[step]:
        text += ", not counted as coverage"
    _write(axes, left, middle, text, color, weight="bold")


def _draw_panel(
    axes: Any, image: np.ndarray, panel: _Panel, left: float = 0, top: float = 0
) -> None:
    left, top = left + panel.left, top + panel.top
    if panel.caption:
        _write(axes, left, top + 0.5 * _CAPTION, panel.caption, _GRAY)
        top += _CAPTION
    _draw_pixels(axes, overlay(image, panel.heat, panel.size), left, top, panel.size)


def _draw_colorbar(axes: Any, bottom: float) -> None:
    middle, left = bottom - _MARGIN, _MARGIN + 92
    _write(axes, _MARGIN, middle, "relative weight: 0", _GRAY)
    scale = _COLORMAP(np.linspace(0, 1, 140))[None, :, :3]
    _draw_pixels(axes, scale, left, middle - 5, (140, 10))
    _write(axes, left + 146, middle, "peak", _GRAY)


def _draw_pixels(axes: Any, pixels: np.ndarray, left: float, top: float, size: _Size) -> None:
    extent = (left, left + size[0], top + size[1], top)
    axes.imshow(pixels, extent=extent, aspect="auto")
    axes.add_patch(Rectangle((left, top), *size, fill=False, edgecolor="#dcdce4"))


def _write(
    axes: Any, left: float, middle: float, text: str, color: str = _INK, weight: str = "normal"
) -> None:
    axes.text(left, middle, text, color=color, weight=weight, **_TEXT)


def _fitted(decoding: ForcedDecoding, bounds: _Size) -> _Size:
    """Return width and height of the image, scaled to fit into bounds."""
    height, width = decoding.image.shape
    scale = min(bounds[0] / width, bounds[1] / height, 4.0)
    return width * scale, height * scale
