"""Decodes images of any size with one model: resized, batched by size, searched together."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from posformer.image.sizing import at_working_size
from posformer.models.model_config import STRIDE, ImageConfig, LineDecoderConfig, ModelConfig
from posformer.runtime.caption_search import search_captions
from posformer.runtime.engine import Runtime
from posformer.runtime.grammar_constraint import grammar_constraint
from posformer.runtime.language_prior import prior_of
from posformer.runtime.thresholds import MARGINS, Thresholds
from posformer.search import (
    Constraint,
    DecodingOptions,
    Doubt,
    Hypothesis,
    Prior,
    Scores,
    best_of,
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
    prior = prior_of(runtime, options)
    margin = Thresholds.from_info(runtime.info).margin
    if options.adaptive and constraint and margin is not None:
        scores = _adaptively(runtime, images, options, margin, prior)
        return [best_of(scores[index], options, prior) for index in range(len(images))]
    scaled = [_at_scales(image, runtime.config.image, options.scales) for image in images]
    options = replace(options, constrained=constraint is not None)
    found: list[list[Hypothesis]] = [[] for _ in images]
    for indices in _batches([scales[0] for scales in scaled], options):
        batch = [image for index in indices for image in scaled[index]]
        limits = [length_limit(scaled[index][0]) for index in indices for _ in scaled[index]]
        model = runtime.encode(batch)
        hypotheses = search_captions(model, runtime.config, vocabulary, options, limits, prior)
        for index, best in zip(indices, hypotheses, strict=True):
            found[index] = best
    return found


def decode_at_all_scales(
    runtime: Runtime, images: Sequence[NDArray[np.uint8]], options: DecodingOptions
) -> list[Scores]:
    """Return the scores at all scales of the hypotheses of the first pass of adaptive search.

    For the choice of its margin; arguments as for `decode_images`.
    """
    options = options.resolve(runtime.config.decoder.directions)
    prior = prior_of(runtime, options)
    found = _adaptively(runtime, images, options, max(MARGINS), prior, every=True)
    return [found[index] for index in range(len(images))]


def _adaptively(
    runtime: Runtime,
    images: Sequence[NDArray[np.uint8]],
    options: DecodingOptions,
    margin: float,
    prior: Prior,
    every: bool = False,
) -> dict[int, Scores]:
    """Search all images at one scale, and score what is doubtful at all scales.

    Returns:
        The scores of the best hypotheses of each image, by its index.
    """
    found: dict[int, Scores] = {}
    sos, eos = runtime.vocabulary.sos, runtime.vocabulary.eos
    config = runtime.config.image
    for indices, passes in _first_passes(runtime, images, options, margin, prior):
        doubts = []
        for index, one in zip(indices, passes, strict=True):
            certain = one.first.is_certain(margin)
            if certain or options.scales == 1:
                left = one.first.near(margin)
                found[index] = {tokens: one.first.scores[tokens] for tokens in left}
            else:
                doubts.append((index, one))
        if doubts:
            scaled = [_at_scales(images[index], config, options.scales)[1:] for index, _ in doubts]
            others = [runtime.encode(list(one)) for one in zip(*scaled, strict=True)]
            scores = second_pass(
                [one for _, one in doubts], others, options, margin, sos, eos, every, prior
            )
            found |= zip((index for index, _ in doubts), scores, strict=True)
    return found


def _first_passes(
    runtime: Runtime,
    images: Sequence[NDArray[np.uint8]],
    options: DecodingOptions,
    margin: float,
    prior: Prior,
) -> Iterator[tuple[list[int], list[Doubt]]]:
    """Yield batches: indices of the images, and their first passes as if all were doubtful."""
    sos, eos = runtime.vocabulary.sos, runtime.vocabulary.eos
    sized = [working_image(image, runtime.config.image) for image in images]
    for indices in _batches(sized, replace(options, scales=1, directions="forward")):
        batch = [sized[index] for index in indices]
        limits = [length_limit(image) for image in batch]
        model = runtime.encode(batch)
        first = first_pass(
            model,
            options,
            margin,
            sos,
            eos,
            len(batch),
            constraint=_constraint(runtime, options),
            limits=limits,
            prior=prior,
        )
        yield indices, [Doubt(one, model, place) for place, one in enumerate(first)]


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
