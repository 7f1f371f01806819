"""Strokes: formats of ink, captions, alignment, rendering, augmentation, splitting."""

from posformer.ink.aligned import AlignedInk
from posformer.ink.alignment import align, inked_places
from posformer.ink.captions import caption_of, label_token
from posformer.ink.ink_formats import InkDocument, read_ink
from posformer.ink.inkml import Ink, MathNode, Symbol, read_inkml, write_inkml
from posformer.ink.render import (
    RenderStyle,
    natural_scale,
    render,
    render_aligned,
    rendered_size,
    save_image,
    strokes_in_pixels,
    token_boxes,
)

__all__ = [
    "AlignedInk",
    "Ink",
    "InkDocument",
    "MathNode",
    "RenderStyle",
    "Symbol",
    "align",
    "caption_of",
    "inked_places",
    "label_token",
    "natural_scale",
    "read_ink",
    "read_inkml",
    "render",
    "render_aligned",
    "rendered_size",
    "save_image",
    "strokes_in_pixels",
    "token_boxes",
    "write_inkml",
]
