"""Pen and pixel: InkML, aligned ink, rendering, captions, alignment, augmentation, layout."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from posformer.ink.align import align, inked_places
from posformer.ink.aligned import AlignedInk
from posformer.ink.captions import caption_of, label_token
from posformer.ink.inkml import Ink, InkError, MathNode, Symbol, read_inkml, write_inkml
from posformer.ink.render import (
    RenderError,
    RenderStyle,
    natural_scale,
    picture_strokes,
    render,
    render_aligned,
    rendered_size,
    save_picture,
    token_boxes,
)

if TYPE_CHECKING:
    from posformer.ink.augment import StrokeAugmentation
    from posformer.ink.bank import SymbolBank, SymbolSample
    from posformer.ink.exchange import Exchange, GroupBank
    from posformer.ink.glyphs import own_bank
    from posformer.ink.layout import LayoutStyle, lay_out

__all__ = [
    "AlignedInk",
    "Exchange",
    "GroupBank",
    "Ink",
    "InkError",
    "LayoutStyle",
    "MathNode",
    "RenderError",
    "RenderStyle",
    "StrokeAugmentation",
    "Symbol",
    "SymbolBank",
    "SymbolSample",
    "align",
    "caption_of",
    "inked_places",
    "label_token",
    "lay_out",
    "natural_scale",
    "own_bank",
    "picture_strokes",
    "read_inkml",
    "render",
    "render_aligned",
    "rendered_size",
    "save_picture",
    "token_boxes",
    "write_inkml",
]

# What makes new ink is imported when it is first asked for: recognition starts sooner without it.
_MADE_BY = {
    "Exchange": "exchange",
    "GroupBank": "exchange",
    "LayoutStyle": "layout",
    "StrokeAugmentation": "augment",
    "SymbolBank": "bank",
    "SymbolSample": "bank",
    "lay_out": "layout",
    "own_bank": "glyphs",
}


def __getattr__(name: str) -> Any:
    if name in _MADE_BY:
        return getattr(import_module(f"posformer.ink.{_MADE_BY[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
