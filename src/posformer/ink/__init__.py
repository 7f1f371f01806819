"""Pen and pixel: InkML, aligned ink, rendering, captions and alignment, augmentation, exchange."""

from posformer.ink.align import align, inked_places
from posformer.ink.aligned import AlignedInk
from posformer.ink.augment import StrokeAugmentation
from posformer.ink.bank import SymbolBank
from posformer.ink.captions import caption_of, label_token
from posformer.ink.exchange import Exchange, GroupBank
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

__all__ = [
    "AlignedInk",
    "Exchange",
    "GroupBank",
    "Ink",
    "InkError",
    "MathNode",
    "RenderError",
    "RenderStyle",
    "StrokeAugmentation",
    "Symbol",
    "SymbolBank",
    "align",
    "caption_of",
    "inked_places",
    "label_token",
    "natural_scale",
    "picture_strokes",
    "read_inkml",
    "render",
    "render_aligned",
    "rendered_size",
    "save_picture",
    "token_boxes",
    "write_inkml",
]
