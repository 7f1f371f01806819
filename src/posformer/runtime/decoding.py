"""Decodes images of any size with one model: resized, batched by size, searched together."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from posformer.image.sizing import at_working_size
from posformer.models.model_config import STRIDE, ImageConfig, LineDecoderConfig, ModelConfig
from posformer.runtime.caption_search import search_captions
from posformer.runtime.engine import Runtime
from posformer.runtime.grammar_constraint import grammar_constraint
from posformer.runtime.thresholds import Thresholds
from posformer.search import (
    Constraint,
    DecodingOptions,
    FirstPass,
    Hypothesis,
    StepModel,
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
    for indices in _batches([scales[0] for scales in scaled], options):
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
    found: dict[int, tuple[FirstPass, list[Hypothesis]]] = {}
    for indices, first, limits, model in _first_passes(runtime, images, options):
        doubtful = [place for place, one in enumerate(first) if not one.is_certain(threshold)]
        hypotheses = {
            place: [one.hypothesis] for place, one in enumerate(first) if place not in doubtful
        }
        if doubtful:
            scaled = [
                _at_scales(images[indices[place]], runtime.config.image, options.scales)
                for place in doubtful
            ]
            further = [runtime.encode(list(one)) for one in list(zip(*scaled, strict=True))[1:]]
            searched = second_pass(
                [model, *further],
                [first[place] for place in doubtful],
                doubtful,
                options,
                runtime.vocabulary.sos,
                runtime.vocabulary.eos,
                constraint=_constraint(runtime, options),
                limits=[limits[place] for place in doubtful],
            )
            hypotheses |= zip(doubtful, searched, strict=True)
        for place, index in enumerate(indices):
            found[index] = first[place], hypotheses[place]
    return [found[index] for index in range(len(images))]


def _first_passes(
    runtime: Runtime, images: Sequence[NDArray[np.uint8]], options: DecodingOptions
) -> Iterator[tuple[list[int], list[FirstPass], list[int], StepModel[Any]]]:
    """Yield batches: indices of the images, their first passes, length limits, and the model."""
    sized = [working_image(image, runtime.config.image) for image in images]
    for indices in _batches(sized, replace(options, beam=1, scales=1)):
        batch = [sized[index] for index in indices]
        limits = [length_limit(image) for image in batch]
        model = runtime.encode(batch)
        first = first_pass(
            model,
            options,
            runtime.vocabulary.sos,
            runtime.vocabulary.eos,
            len(batch),
            constraint=_constraint(runtime, options),
            limits=limits,
        )
        yield indices, first, limits, model


def _constraint(runtime: Runtime, options: DecodingOptions) -> Constraint | None:
    """Return the constraint of the search, unless the user or the model is against it.

    Models that do not decode captions token by token have none.
    """
    by_token = decodes_tokens(runtime.config)
    if by_token and options.constrained and runtime.info.get("constrained", True):
        return grammar_constraint(runtime.vocabulary)
    return None


def decodes_tokens(config: ModelConfig) -> bool:
    """Return whether a model decodes captions token by token, and not lines or trees."""
    return not isinstance(config.decoder, LineDecoderConfig) and config.decoder.targets is None


def working_image(image: NDArray[np.uint8], config: ImageConfig) -> NDArray[np.uint8]:
    """Return an image at the model's working size: uint8 (height, width)."""
    return _at_scales(image, config, 1)[0]


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
