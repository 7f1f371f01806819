"""Datasets of images and ink, samplers of training examples, batches."""

from posformer.data.dataset_registry import open_dataset
from posformer.data.image_dataset import ImageDataset, ImageSampler, list_splits, open_images
from posformer.data.ink_dataset import InkSampler, drop_known_texts, load_ink
from posformer.data.packing import pack_batches, shard, step_share, valid_share
from posformer.data.sampling import Sample, Sampler

__all__ = [
    "ImageDataset",
    "ImageSampler",
    "InkSampler",
    "Sample",
    "Sampler",
    "drop_known_texts",
    "list_splits",
    "load_ink",
    "open_dataset",
    "open_images",
    "pack_batches",
    "shard",
    "step_share",
    "valid_share",
]
