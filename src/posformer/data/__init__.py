"""Data sets of images and of ink, drawing training examples, packing batches."""

from posformer.data.image_codec import Polarity, decode_image
from posformer.data.image_dataset import (
    Example,
    ImageDataset,
    ImageSample,
    ImageSampler,
    Problem,
    list_splits,
    open_images,
)
from posformer.data.ink_dataset import InkSample, InkSampler, drop_known_texts, load_ink
from posformer.data.packing import pack_batches, shard, step_share, valid_share
from posformer.data.sampling import Sample, Sampler

__all__ = [
    "Example",
    "ImageDataset",
    "ImageSample",
    "ImageSampler",
    "InkSample",
    "InkSampler",
    "Polarity",
    "Problem",
    "Sample",
    "Sampler",
    "decode_image",
    "drop_known_texts",
    "list_splits",
    "load_ink",
    "open_images",
    "pack_batches",
    "shard",
    "step_share",
    "valid_share",
]
