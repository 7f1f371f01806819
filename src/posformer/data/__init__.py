"""Data sets of pictures and of ink, drawing training examples, packing batches."""

from posformer.data.decoding import Polarity, decode_picture
from posformer.data.files import DataError
from posformer.data.grammar import Grammar
from posformer.data.inkset import InkDrawing, InkSource, drop_known_texts, load_ink
from posformer.data.packing import PackingError, deal, pack_batches, step_share, valid_share
from posformer.data.pictures import (
    Example,
    PictureDrawing,
    PictureSet,
    PictureSource,
    Problem,
    list_splits,
    open_pictures,
)
from posformer.data.source import Drawing, Source
from posformer.data.synthesis import SynthesisSource, Synthesizer, write_set

__all__ = [
    "DataError",
    "Drawing",
    "Example",
    "Grammar",
    "InkDrawing",
    "InkSource",
    "PackingError",
    "PictureDrawing",
    "PictureSet",
    "PictureSource",
    "Polarity",
    "Problem",
    "Source",
    "SynthesisSource",
    "Synthesizer",
    "deal",
    "decode_picture",
    "drop_known_texts",
    "list_splits",
    "load_ink",
    "open_pictures",
    "pack_batches",
    "step_share",
    "valid_share",
    "write_set",
]
