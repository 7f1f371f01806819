"""Decodes images of any size with one model: resized, batched by size, searched together."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from posformer.image.sizing import at_working_size
from posformer.latex import is_valid
from posformer.models.model_config import STRIDE, ImageConfig
from posformer.runtime.engine import Runtime
from posformer.search import DecodingOptions, Hypothesis, search
from posformer.search.decoding_options import SCALE_FACTORS

_MAX_BATCH_PIXELS = 400_000  # of images that are encoded and decoded together, padding included
_MAX_BATCH_BEAMS = 16  # more beams per step cost more through padding than they save


def decode_images(
    runtime: Runtime, images: Sequence[NDArray[np.uint8]], options: DecodingOptions
) -> list[list[Hypothesis]]:
    """Return the best hypotheses of each image, in the order of the images.

    Args:
        runtime: A loaded model.
        images: uint8 (height, width) each, white ink on black, in the size of CROHME's images.
        options: How to search.
    """
    options = options.resolve(runtime.config.decoder.directions)
    scaled = [_at_scales(image, runtime.config.image, options.scales) for image in images]
    vocabulary = runtime.vocabulary

    def is_well_formed(tokens: tuple[int, ...]) -> bool:
        return bool(tokens) and is_valid(vocabulary.decode(tokens))

    found: list[list[Hypothesis]] = [[] for _ in images]
    for indices in _batches([scales[0] for scales in scaled], options):
        batch = [image for index in indices for image in scaled[index]]
        bounded = replace(options, max_length=min(options.max_length, length_limit(batch)))
        tokens = vocabulary.sos, vocabulary.eos
        hypotheses = search(
            runtime.encode(batch), bounded, *tokens, len(batch), is_well_formed=is_well_formed
        )
        for index, best in zip(indices, hypotheses, strict=True):
            found[index] = best
    return found


def length_limit(images: Sequence[NDArray[np.uint8]]) -> int:
    """Return more tokens than images of this size can hold; longer hypotheses are loops.

    The densest expression of CROHME has 78 tokens on 59 cells, half of what is allowed.

    Args:
        images: uint8 (height, width) each, at the model's working size.
    """
    return max(24 + 2 * math.ceil(image.size / STRIDE**2) for image in images)


def _at_scales(
    image: NDArray[np.uint8], config: ImageConfig, count: int
) -> list[NDArray[np.uint8]]:
    """Return an image at the model's working size and, for more scales, larger and smaller."""
    return [
        at_working_size(
            image, config.scale * factor, config.margin, int(config.max_pixels * factor**2)
        )
        for factor in SCALE_FACTORS[:count]
    ]


def _batches(images: Sequence[NDArray[np.uint8]], options: DecodingOptions) -> Iterator[list[int]]:
    """Yield the indices of images of similar size, so that batches have little padding."""
    beams = options.beam * (2 if options.directions == "both" else 1) * options.scales
    max_images = max(1, _MAX_BATCH_BEAMS // beams)
    order = sorted(range(len(images)), key=lambda i: (images[i].shape[1], images[i].shape[0]))
    batch: list[int] = []
    for index in order:
        larger = [*batch, index]
        height, width = np.max([images[member].shape for member in larger], axis=0)
        pixels = height * width * len(larger) * options.scales
        if batch and (pixels > _MAX_BATCH_PIXELS or len(larger) > max_images):
            yield batch
            batch = [index]
        else:
            batch = larger
    if batch:
        yield batch
