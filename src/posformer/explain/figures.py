"""Images of where a model looked: a sheet for each symbol, one for all, a moving one."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from PIL import Image

from posformer.explain.attention_maps import LayerLook, Looking
from posformer.explain.heatmap import INK, PAPER, colour_bar, heat_over
from posformer.explain.lettering import (
    Colour,
    Word,
    line_height,
    text_width,
    words_height,
    write,
    write_words,
)
from posformer.latex import is_structure

__all__ = ["animate", "draw_frames", "draw_overview", "draw_symbols", "in_few_colours"]

_MARGIN, _GAP = 16, 12
_LATEX, _SMALL = 20, 13  # sizes of letters
_WIDE, _HIGH = 600, 240  # most pixels of the largest panel
_NARROW = 440  # the same where two models stand side by side
_PANEL_WIDE, _PANEL_HIGH = 260, 180  # where all layers of a model are shown
_THUMB_WIDE, _THUMB_HIGH = 190, 110  # where all symbols are shown

_GREY: Colour = (120, 120, 132)
_PALE: Colour = (200, 200, 208)
_ACCENT: Colour = (158, 0, 48)
_WRONG: Colour = (190, 30, 30)
_RULE: Colour = (226, 226, 232)

_COLOURS = 255  # of a file; one more stays free for what does not change between frames
_SECONDS, _LAST_SECONDS = 0.7, 2.5  # that a symbol is shown


@dataclass(frozen=True)
class _Maps:
    """What is drawn of a layer, mean over its heads, from 0 to 1; float (tokens, rows, columns)."""

    title: str
    after: np.ndarray
    before: np.ndarray | None  # None in a layer without refinement, or where it is not told
    coverage: np.ndarray | None
    taken_off: np.ndarray | None

    @property
    def panels(self) -> list[tuple[str, np.ndarray]]:
        """Names and maps of all there is, in the order in which it comes about."""
        if self.before is None:
            return [("attention", self.after)]
        panels = [("before correction", self.before)]
        if self.coverage is not None and self.taken_off is not None:
            panels += [("coverage", self.coverage), ("taken off", self.taken_off)]
        return [*panels, ("after correction", self.after)]

    @property
    def main_panels(self) -> list[tuple[str, np.ndarray]]:
        """The same without what only the curious want to see."""
        return [panel for panel in self.panels if panel[1] is not self.taken_off]


def _maps(looking: Looking) -> list[_Maps]:
    return [
        _layer_maps(layer, f"layer {number} of {len(looking.layers)}")
        for number, layer in enumerate(looking.layers, start=1)
    ]


def _layer_maps(layer: LayerLook, title: str) -> _Maps:
    after = layer.after.mean(axis=1)
    before = layer.before.mean(axis=1) if layer.is_refined and layer.before is not None else None
    # One scale for both, so that what correction changes can be seen.
    peak = after.max(axis=(1, 2), keepdims=True)
    if before is not None:
        peak = np.maximum(peak, before.max(axis=(1, 2), keepdims=True))
        before = before / peak
    coverage = taken_off = None
    if layer.coverage is not None and layer.correction is not None:
        coverage = layer.coverage.mean(axis=1)
        coverage = coverage / max(float(coverage.max()), 1e-9)
        # Softmax does not see what is taken off everywhere.
        correction = layer.correction.mean(axis=1)
        taken_off = correction - correction.min(axis=(1, 2), keepdims=True)
        taken_off = taken_off / max(float(taken_off.max()), 1e-9)
    return _Maps(title, after / peak, before, coverage, taken_off)


# The whole


def draw_overview(looking: Looking) -> Image.Image:
    """All symbols below each other, a column for each layer before and after correction."""
    columns = [
        ("" if number else layer.title, name, maps)
        for layer in _maps(looking)
        for number, (name, maps) in enumerate(layer.main_panels)
    ]
    width, height = _fitted(looking, _THUMB_WIDE, _THUMB_HIGH)
    labels = max(text_width(token, _LATEX) for token in looking.tokens) + 44
    head, pitch = 2 * line_height(_SMALL), height + 10
    size = (
        2 * _MARGIN + labels + (width + _GAP) * len(columns),
        2 * _MARGIN + head + pitch * len(looking.tokens) + _foot_height(),
    )
    sheet = Image.new("RGB", size, PAPER)
    for number, (title, name, maps) in enumerate(columns):
        left = _MARGIN + labels + number * (width + _GAP)
        write(sheet, (left, _MARGIN + 8), title, _SMALL, INK)
        write(sheet, (left, _MARGIN + 8 + line_height(_SMALL)), name, _SMALL, _GREY)
        for row in range(len(looking.tokens)):
            panel = Image.fromarray(heat_over(looking.image, maps[row], (width, height)))
            sheet.paste(_framed(panel), (left, _MARGIN + head + row * pitch))
    for row, token in enumerate(looking.tokens):
        middle = _MARGIN + head + row * pitch + height // 2
        structure = looking.left_out[row]
        write(sheet, (_MARGIN, middle), token, _LATEX, _GREY if structure else INK)
        note = "not counted" if structure else f"{looking.probability[row]:.2f}"
        write(sheet, (_MARGIN, middle + 20), note, 10, _GREY)
    _write_foot(sheet, size[1] - _MARGIN - _foot_height())
    return sheet


# One symbol


def draw_symbols(lookings: Sequence[Looking]) -> Iterator[Image.Image]:
    """For each symbol all layers of one or more models while they write it."""
    maps = [_maps(looking) for looking in lookings]
    for place in range(len(lookings[0].tokens)):
        blocks = [
            _symbol_block(one, layers, place) for one, layers in zip(lookings, maps, strict=True)
        ]
        yield _page(lookings[0], place, [_stacked(blocks)])


def _symbol_block(looking: Looking, layers: Sequence[_Maps], place: int) -> Image.Image:
    """A row for each layer of a model."""
    across = max(len(layer.panels) for layer in layers)
    width, height = _fitted(looking, _PANEL_WIDE, _PANEL_HIGH)
    pitch = height + line_height(_SMALL) + _GAP
    top = line_height(_SMALL) + 4
    block = Image.new("RGB", ((width + _GAP) * across - _GAP, top + pitch * len(layers)), PAPER)
    _write_verdict(block, looking, place)
    for row, layer in enumerate(layers):
        for number, (name, maps) in enumerate(layer.panels):
            caption = name if number else f"{layer.title}: {name}"
            panel = _captioned(looking, maps[place], (width, height), caption)
            block.paste(panel, (number * (width + _GAP), top + row * pitch))
    return block


def _stacked(blocks: Sequence[Image.Image]) -> Image.Image:
    width = max(block.width for block in blocks)
    stack = Image.new("RGB", (width, sum(block.height + _GAP for block in blocks)), PAPER)
    top = 0
    for block in blocks:
        stack.paste(block, (0, top))
        top += block.height + _GAP
    return stack


def _write_verdict(block: Image.Image, looking: Looking, place: int) -> None:
    """The model, how likely it found the symbol, and what it would rather have written."""
    said = f"{looking.model}: {looking.probability[place]:.0%}"
    write(block, (0, 9), said, _SMALL, INK)
    rather = looking.preferred[place]
    if rather != looking.tokens[place]:
        text = f"would write  {rather or 'the end'}"
        write(block, (text_width(said, _SMALL) + 14, 9), text, _SMALL, _WRONG)
    elif looking.left_out[place]:
        text = "structure symbol: does not count as coverage"
        write(block, (text_width(said, _SMALL) + 14, 9), text, _SMALL, _GREY)


def _page(looking: Looking, place: int, blocks: Sequence[Image.Image]) -> Image.Image:
    """Blocks side by side below what is written so far, above the legend."""
    width = sum(block.width for block in blocks) + 2 * _GAP * (len(blocks) - 1)
    height = max(block.height for block in blocks)
    words = _text(looking, place)
    head = words_height(words, _LATEX, width) + 10
    page = Image.new(
        "RGB", (width + 2 * _MARGIN, 2 * _MARGIN + head + height + _foot_height()), PAPER
    )
    write_words(page, (_MARGIN, _MARGIN - 6), words, _LATEX, width)
    left = _MARGIN
    for block in blocks:
        page.paste(block, (left, _MARGIN + head))
        left += block.width + 2 * _GAP
    _write_foot(page, page.height - _MARGIN - _foot_height() + 10)
    return page


def _text(looking: Looking, place: int) -> list[Word]:
    """The tokens from left to right: written ones dark, the present one marked, the rest pale."""
    words = []
    for number, token in enumerate(looking.tokens):
        if number == place:
            words.append(Word(token, PAPER, _GREY if is_structure(token) else _ACCENT))
        else:
            words.append(Word(token, INK if number < place else _PALE))
    return words if looking.direction == "forward" else words[::-1]


# In motion


def draw_frames(lookings: Sequence[Looking]) -> list[Image.Image]:
    """An image for each symbol: the last layer of one or more models, and what corrected it."""
    wide = _WIDE if len(lookings) == 1 else _NARROW
    maps = [_maps(looking)[-1] for looking in lookings]
    return [
        _page(
            lookings[0],
            place,
            [
                _motion_block(one, last, place, wide)
                for one, last in zip(lookings, maps, strict=True)
            ],
        )
        for place in range(len(lookings[0].tokens))
    ]


def _motion_block(looking: Looking, layer: _Maps, place: int, wide: int) -> Image.Image:
    """The weights used, large; below them, small, those before correction and the coverage."""
    width, height = _fitted(looking, wide, _HIGH)
    half, half_height = (width - _GAP) // 2, height * ((width - _GAP) // 2) // width
    *small, (name, maps) = layer.main_panels
    top, caption = line_height(_SMALL) + 4, line_height(_SMALL)
    below = half_height + caption + _GAP if small else 0
    block = Image.new("RGB", (width, top + height + caption + below), PAPER)
    _write_verdict(block, looking, place)
    block.paste(
        _captioned(looking, maps[place], (width, height), f"{layer.title}: {name}"), (0, top)
    )
    for number, (name, maps) in enumerate(small):
        panel = _captioned(looking, maps[place], (half, half_height), name)
        block.paste(panel, (number * (half + _GAP), top + height + caption + _GAP))
    return block


def animate(frames: Sequence[Image.Image]) -> tuple[list[Image.Image], list[int]]:
    """Frames in one set of colours, and the milliseconds that each is shown."""
    times = [round(1000 * _SECONDS)] * (len(frames) - 1) + [round(1000 * _LAST_SECONDS)]
    return in_few_colours(frames), times


def in_few_colours(images: Sequence[Image.Image]) -> list[Image.Image]:
    """RGB images of one width in the colours that occur most; others take the nearest."""
    joined = np.concatenate([np.asarray(image) for image in images])
    packed = joined.astype(np.uint32) @ np.array([1 << 16, 1 << 8, 1], np.uint32)
    found, inverse, counts = np.unique(packed, return_inverse=True, return_counts=True)
    colours = np.stack([found >> 16, found >> 8 & 255, found & 255], axis=1).astype(np.int32)
    kept = colours[np.argsort(-counts, kind="stable")[:_COLOURS]]
    nearest = np.array([np.abs(kept - colour).sum(axis=1).argmin() for colour in colours])
    reduced = nearest.astype(np.uint8)[inverse].reshape(packed.shape)
    heights = np.cumsum([image.height for image in images])[:-1]
    return [_with_palette(part, kept) for part in np.split(reduced, heights)]


def _with_palette(numbers: np.ndarray, colours: np.ndarray) -> Image.Image:
    image = Image.fromarray(numbers)  # a palette makes it one of palette colours
    image.putpalette(colours.astype(np.uint8).tobytes())
    return image


# Parts


def _fitted(looking: Looking, wide: int, high: int) -> tuple[int, int]:
    """Width and height of the image, as large as there is room, but not without bound."""
    height, width = looking.image.shape
    scale = min(wide / width, high / height, 4.0)
    return max(1, round(width * scale)), max(1, round(height * scale))


def _captioned(
    looking: Looking, heat: np.ndarray, size: tuple[int, int], caption: str
) -> Image.Image:
    panel = Image.new("RGB", (size[0], size[1] + line_height(_SMALL)), PAPER)
    write(panel, (0, line_height(_SMALL) / 2 - 1), caption, _SMALL, _GREY)
    drawn = Image.fromarray(heat_over(looking.image, heat, size))
    panel.paste(_framed(drawn), (0, line_height(_SMALL)))
    return panel


def _framed(panel: Image.Image) -> Image.Image:
    """With a thin line around it, inside its own size."""
    framed = Image.new("RGB", panel.size, _RULE)
    framed.paste(panel.crop((1, 1, panel.width - 1, panel.height - 1)), (1, 1))
    return framed


def _foot_height() -> int:
    return line_height(_SMALL)


def _write_foot(page: Image.Image, top: int) -> None:
    """The legend of the colours."""
    bar = _framed(Image.fromarray(colour_bar(120, 10)))
    middle = top + line_height(_SMALL) // 2
    write(page, (_MARGIN, middle), "attention: none", _SMALL, _GREY)
    left = _MARGIN + text_width("attention: none", _SMALL) + 8
    page.paste(bar, (left, middle - 5))
    write(page, (left + 128, middle), "most", _SMALL, _GREY)
