"""Reads many images with one model: sized, grouped by size, searched together."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from posformer.image.sizing import at_working_size
from posformer.latex import is_valid
from posformer.models.model_config import ImageConfig, ModelConfig
from posformer.runtime.engine import Runtime
from posformer.search import DecodingOptions, Hypothesis, search

__all__ = [
    "DEFAULT_BEAM",
    "DEFAULT_VIEWS",
    "MOST_VIEWS",
    "decode_images",
    "most_tokens",
    "search_options",
]

DEFAULT_BEAM = 3
DEFAULT_VIEWS = 2

_CELL = 16  # pixels a cell of the feature map, in both directions
_GROUP_PIXELS = 400_000  # padded pixels of images that are encoded and decoded together
_GROUP_ROWS = 16  # hypotheses that take a step together; more are slower, for their padding
_FINISHED = 3
_VIEW_SIZES = (1.0, 1.1, 0.9)  # of the views of an image, as factors of its size
MOST_VIEWS = len(_VIEW_SIZES)


def search_options(
    config: ModelConfig,
    beam: int = DEFAULT_BEAM,
    top_k: int = 1,
    greedy: bool = False,
    views: int = 1,
) -> DecodingOptions:
    """How to search with a model: in the directions that it was trained in.

    Args:
        config: of the model.
        beam: open hypotheses for each image and direction; no fewer than `top_k`.
        top_k: readings wanted of each image.
        greedy: take the best word at every step, from left to right, in one view, and nothing else.
        views: sizes that each image is read at; what is found in any is judged in all.
    """
    if greedy:
        return DecodingOptions(beam=1, directions="forward", rescore=False)
    both = config.decoder.directions == "both"
    if beam > 0:  # else the options say that it cannot be
        beam = max(beam, top_k)
    return DecodingOptions(
        beam=beam,
        directions=config.decoder.directions,
        rescore=both,
        top_k=top_k,
        views=views,
        # Waiting for as many ends as there are beams costs much and finds next to nothing.
        finished=min(beam, max(_FINISHED, top_k)),
    )


def decode_images(
    runtime: Runtime, images: Sequence[np.ndarray], options: DecodingOptions
) -> list[list[Hypothesis]]:
    """The best hypotheses for each image, in the order of the images.

    Args:
        runtime: a loaded model.
        images: uint8 (height, width), white ink on black, in the size of CROHME's.
        options: of the search.
    """
    sized = [_views(image, runtime.config.image, options.views) for image in images]
    words = runtime.vocabulary

    def is_well_formed(tokens: tuple[int, ...]) -> bool:
        return bool(tokens) and is_valid(words.decode(tokens))

    found: list[list[Hypothesis]] = [[] for _ in images]
    for group in _groups([views[0] for views in sized], options):
        members = [view for index in group for view in sized[index]]
        bounded = replace(options, max_length=min(options.max_length, most_tokens(members)))
        encoded = runtime.encode(members)
        hypotheses = search(
            encoded, bounded, words.sos, words.eos, len(members), is_well_formed=is_well_formed
        )
        for index, best in zip(group, hypotheses, strict=True):
            found[index] = best
    return found


def most_tokens(images: Sequence[np.ndarray]) -> int:
    """More tokens than can be written in images of this size; what goes on longer is lost.

    In CROHME the densest expression has 78 tokens on 59 cells, half as many as are allowed.
    """
    return max(24 + 2 * math.ceil(image.size / _CELL**2) for image in images)


def _views(image: np.ndarray, size: ImageConfig, count: int) -> list[np.ndarray]:
    """An image at the model's working size, and somewhat larger and smaller."""
    if not 1 <= count <= MOST_VIEWS:
        raise ValueError(f"views must be from 1 to {MOST_VIEWS}, not {count}")
    return [
        at_working_size(image, size.scale * factor, size.margin, int(size.max_pixels * factor**2))
        for factor in _VIEW_SIZES[:count]
    ]


def _groups(images: Sequence[np.ndarray], options: DecodingOptions) -> Iterator[list[int]]:
    """Images of similar size together, so that little is padding."""
    rows = options.beam * (2 if options.directions == "both" else 1) * options.views
    most = max(1, _GROUP_ROWS // rows)
    order = sorted(range(len(images)), key=lambda i: (images[i].shape[1], images[i].shape[0]))
    group: list[int] = []
    for index in order:
        joined = [*group, index]
        height, width = np.max([images[member].shape for member in joined], axis=0)
        pixels = height * width * len(joined) * options.views
        full = pixels > _GROUP_PIXELS or len(joined) > most
        if group and full:
            yield group
            group = [index]
        else:
            group = joined
    if group:
        yield group
