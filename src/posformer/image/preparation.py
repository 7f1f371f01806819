"""From any image of formulas to images like those that a model was trained on."""

from typing import Literal

import numpy as np
from numpy.typing import NDArray

from posformer.image.cleanup import clean
from posformer.image.lines import split_lines
from posformer.image.loading import Reload
from posformer.image.normalize import prepare_photo, split_photo

InputKind = Literal["ink", "photo", "clean"]
"""What a model reads: ink or a rendering of it; a photograph or scan; a clean image, such as a
screenshot. Its confidence is calibrated for each."""

_CLEAN_SHARE = 0.5  # of the pixels that have exactly the same value

Preprocessing = Literal["binary", "grey"]
"""`binary` redraws the ink in black and white with a pen of constant width; `grey` crops, scales
and evens out the light only, for models that were trained on simulated photographs."""


def input_kind(image: NDArray[np.uint8]) -> InputKind:
    """Return the kind of an image, which its most frequent value decides.

    Half of a clean image has exactly the color of the paper, while light and noise vary in a
    photograph. Black and white images with little ink on black are renderings of ink.

    Args:
        image: uint8 (height, width) or (height, width, 3) RGB.
    """
    grey = image if image.ndim == 2 else image[:, :, 1]
    counts = np.bincount(grey.ravel(), minlength=256)
    if counts[0] > grey.size / 2 and counts[0] + counts[255] == grey.size:
        return "ink"
    return "clean" if counts.max() >= _CLEAN_SHARE * grey.size else "photo"


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
