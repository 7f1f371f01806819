"""Reads many pictures with one model: sized, grouped by size, searched together."""

from collections.abc import Iterator, Sequence

import numpy as np

from posformer.ink.sizing import at_working_size
from posformer.model.config import ModelConfig
from posformer.runtime.interface import Runtime
from posformer.search import Hypothesis, SearchOptions, search

__all__ = ["DEFAULT_BEAM", "read_pictures", "search_options"]

DEFAULT_BEAM = 10

_GROUP_PIXELS = 400_000  # padded pixels of pictures that are encoded and decoded together
_GROUP_PICTURES = 16


def search_options(
    config: ModelConfig, beam: int = DEFAULT_BEAM, top_k: int = 1, greedy: bool = False
) -> SearchOptions:
    """How to search with a model: in the directions that it was trained in.

    Args:
        config: of the model.
        beam: open hypotheses for each picture and direction.
        top_k: readings wanted of each picture.
        greedy: take the best word at every step, from left to right, and nothing else.
    """
    if greedy:
        return SearchOptions(beam=1, directions="forward", rescore=False)
    both = config.decoder.directions == "both"
    return SearchOptions(beam=beam, directions=config.decoder.directions, rescore=both, top_k=top_k)


def read_pictures(
    runtime: Runtime, pictures: Sequence[np.ndarray], options: SearchOptions
) -> list[list[Hypothesis]]:
    """The best hypotheses for each picture, in the order of the pictures.

    Args:
        runtime: a loaded model.
        pictures: uint8 (height, width), white ink on black, in the size of CROHME's.
        options: of the search.
    """
    size = runtime.config.picture
    sized = [
        at_working_size(picture, size.scale, size.margin, size.max_pixels) for picture in pictures
    ]
    words = runtime.vocabulary
    found: list[list[Hypothesis]] = [[] for _ in pictures]
    for group in _groups(sized):
        model = runtime.encode([sized[index] for index in group])
        hypotheses = search(model, options, words.sos, words.eos, len(group))
        for index, best in zip(group, hypotheses, strict=True):
            found[index] = best
    return found


def _groups(pictures: Sequence[np.ndarray]) -> Iterator[list[int]]:
    """Pictures of similar size together, so that little is padding."""
    order = sorted(range(len(pictures)), key=lambda i: (pictures[i].shape[1], pictures[i].shape[0]))
    group: list[int] = []
    for index in order:
        joined = [*group, index]
        height, width = np.max([pictures[member].shape for member in joined], axis=0)
        full = height * width * len(joined) > _GROUP_PIXELS or len(joined) > _GROUP_PICTURES
        if group and full:
            yield group
            group = [index]
        else:
            group = joined
    if group:
        yield group
