"""From any image of formulas to images like those that a model was trained on."""

from typing import Literal

import numpy as np
from numpy.typing import NDArray

from posformer.image.cleanup import clean
from posformer.image.lines import split_lines
from posformer.image.loading import Reload
from posformer.image.normalize import prepare_photo, split_photo

Preprocessing = Literal["binary", "grey"]
"""`binary` redraws the ink in black and white with a pen of constant width; `grey` crops, scales
and evens out the light only, for models that were trained on simulated photographs."""


def prepare_image(
    image: NDArray[np.uint8],
    preprocessing: Preprocessing,
    split: bool = True,
    reload: Reload | None = None,
) -> list[NDArray[np.uint8]]:
    """Find the formulas of an image and bring them to the size of CROHME's images.

    Args:
        image: uint8 (height, width) or (height, width, 3) RGB, of any size.
        preprocessing: What the model was trained on.
        split: Split formulas that stand below each other.
        reload: Loads the image at full size if the given one is reduced, see `load_reduced`.

    Returns:
        One image per formula: uint8 (height, width), light ink on black.

    Raises:
        NoInkError: If the image has no ink.
    """
    if preprocessing == "grey":
        prepared = prepare_photo(image, reload)
        return split_photo(prepared) if split else [prepared]
    cleaned = clean(image, reload)
    formulas = split_lines(cleaned) if split else [cleaned]
    return [formula.image for formula in formulas]
