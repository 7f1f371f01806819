"""Decodes images of any size with one model: resized, batched by size, searched together."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
import numpy as np
from numpy.typing import NDArray

from posformer.image.sizing import at_working_size
from posformer.models.model_config import STRIDE, ImageConfig, LineDecoderConfig
from posformer.runtime.caption_search import search_captions
from posformer.runtime.engine import Runtime
from posformer.runtime.grammar_constraint import grammar_constraint
from posformer.runtime.thresholds import Thresholds
from posformer.search import (
    Constraint,
    DecodingOptions,
    Doubt,
    FirstPass,
    Hypothesis,
    first_pass,
    second_pass,
)
from posformer.search.decoding_options import SCALE_FACTORS

# Limit of the number of tokens, by the number of cells with ink. Of 11,638 expressions in CROHME
# the densest has 39 % of these, the densest matrix of ExpressMatch 45 %.
_MIN_TOKENS = 12
_TOKENS_PER_CELL = 4
_MAX_BATCH_PIXELS = 400_000  # of images that are encoded and decoded together, padding included
_MAX_BATCH_BEAMS = 16  # more beams per step cost more through padding than they save
_GREEDY_IMAGES = 32  # decoded together in greedy passes
_WINDOW_IMAGES = 32  # whose features are kept at once in adaptive search
_WINDOW_PIXELS = 1_600_000


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
    vocabulary, constraint = runtime.vocabulary, _constraint(runtime, options)
    threshold = Thresholds.from_info(runtime.info).certain
    if options.adaptive and constraint and threshold is not None:
        return [best for _, best in _adaptively(runtime, images, options, threshold)]
    scaled = [_at_scales(image, runtime.config.image, options.scales) for image in images]
    options = replace(options, constrained=constraint is not None)
    found: list[list[Hypothesis]] = [[] for _ in images]
    first = [scales[0] for scales in scaled]
    for indices in _batches(first, _max_images(options), _MAX_BATCH_PIXELS // options.scales):
        batch = [image for index in indices for image in scaled[index]]
        limits = [length_limit(scaled[index][0]) for index in indices for _ in scaled[index]]
        model = runtime.encode(batch)
        hypotheses = search_captions(model, runtime.config, vocabulary, options, limits)
        for index, best in zip(indices, hypotheses, strict=True):
            found[index] = best
    return found


def decode_twice(
    runtime: Runtime, images: Sequence[NDArray[np.uint8]], options: DecodingOptions
) -> list[tuple[FirstPass, Hypothesis]]:
    """Return both passes of adaptive search for each image, even if the first is certain.

    For the choice of a threshold; arguments as for `decode_images`.
    """
    options = options.resolve(runtime.config.decoder.directions)
    found = _adaptively(runtime, images, options, threshold=math.inf)
    return [(first, best) for first, (best, *_) in found]


def _adaptively(
    runtime: Runtime,
    images: Sequence[NDArray[np.uint8]],
    options: DecodingOptions,
    threshold: float,
) -> list[tuple[FirstPass, list[Hypothesis]]]:
    """Search all images at one scale, and those whose result is not certain at all scales.

    Returns:
        The first pass and the hypotheses of each image.
    """
    sized = [_at_scales(image, runtime.config.image, 1)[0] for image in images]
    found: dict[int, tuple[FirstPass, list[Hypothesis]]] = {}
    # Encoded images are kept until all doubtful ones of a window are searched together.
    for window in _batches(sized, _WINDOW_IMAGES, _WINDOW_PIXELS):
        doubts: dict[int, Doubt] = {}
        for index, doubt in _first_passes(runtime, sized, window, options):
            if doubt.first.is_certain(threshold):
                found[index] = doubt.first, [doubt.first.hypothesis]
            else:
                doubts[index] = doubt
        for index, hypotheses in _second_passes(runtime, images, doubts, options):
            found[index] = doubts[index].first, hypotheses
    return [found[index] for index in range(len(images))]


def _first_passes(
    runtime: Runtime,
    sized: Sequence[NDArray[np.uint8]],
    indices: Sequence[int],
    options: DecodingOptions,
) -> Iterator[tuple[int, Doubt]]:
    """Yield the indices of images and their first passes, as if all were doubtful."""
    sos, eos = runtime.vocabulary.sos, runtime.vocabulary.eos
    for places in _batches([sized[index] for index in indices], _GREEDY_IMAGES):
        batch = [indices[place] for place in places]
        limits = [length_limit(sized[index]) for index in batch]
        model = runtime.encode([sized[index] for index in batch])
        constraint = _constraint(runtime, options)
        first = first_pass(model, options, sos, eos, len(batch), 0, constraint, limits)
        for place, (index, one) in enumerate(zip(batch, first, strict=True)):
            yield index, Doubt(one, model, place, limits[place])


def _second_passes(
    runtime: Runtime,
    images: Sequence[NDArray[np.uint8]],
    doubts: Mapping[int, Doubt],
    options: DecodingOptions,
) -> Iterator[tuple[int, list[Hypothesis]]]:
    """Yield the indices of doubtful images and their hypotheses."""
    sos, eos = runtime.vocabulary.sos, runtime.vocabulary.eos
    indices, config = list(doubts), runtime.config.image
    scaled = [_at_scales(images[index], config, options.scales)[1:] for index in indices]
    largest = [max(one, key=np.size, default=images[indices[0]]) for one in scaled]
    for places in _batches(largest, _GREEDY_IMAGES):
        further = zip(*(scaled[place] for place in places), strict=True)
        others = [runtime.encode(list(one)) for one in further]
        batch = [indices[place] for place in places]
        constraint = _constraint(runtime, options)
        searched = second_pass(
            [doubts[index] for index in batch], others, options, sos, eos, constraint=constraint
        )
        yield from zip(batch, searched, strict=True)


def _constraint(runtime: Runtime, options: DecodingOptions) -> Constraint | None:
    """Return the constraint of the search, unless the user or the model is against it.

    Models that do not decode captions token by token have none.
    """
    by_token = not isinstance(runtime.config.decoder, LineDecoderConfig) and (
        runtime.config.decoder.targets is None
    )
    if by_token and options.constrained and runtime.info.get("constrained", True):
        return grammar_constraint(runtime.vocabulary)
    return None


def length_limit(image: NDArray[np.uint8]) -> int:
    """Return more tokens than the ink of an image can show; longer hypotheses are loops.

    Args:
        image: uint8 (height, width), white ink on black, at the model's working size.
    """
    height, width = image.shape
    padded = np.pad(image > 127, ((0, -height % STRIDE), (0, -width % STRIDE)))
    cells = padded.reshape(-(-height // STRIDE), STRIDE, -1, STRIDE).any(axis=(1, 3))
    return _MIN_TOKENS + _TOKENS_PER_CELL * int(cells.sum())


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


def _max_images(options: DecodingOptions) -> int:
    """Return how many images are decoded together in full search."""
    beams = options.beam * (2 if options.directions == "both" else 1) * options.scales
    return max(1, _MAX_BATCH_BEAMS // beams)


def _batches(
    images: Sequence[NDArray[np.uint8]], max_images: int, max_pixels: int = _MAX_BATCH_PIXELS
) -> Iterator[list[int]]:
    """Yield the indices of images of similar size, so that batches have little padding."""
    order = sorted(range(len(images)), key=lambda i: (images[i].shape[1], images[i].shape[0]))
    batch: list[int] = []
    for index in order:
        larger = [*batch, index]
        height, width = np.max([images[member].shape for member in larger], axis=0)
        pixels = height * width * len(larger)
        if batch and (pixels > max_pixels or len(larger) > max_images):
            yield batch
            batch = [index]
        else:
            batch = larger
    if batch:
        yield batch
