"""Parts of symbols are erased in training images."""

import numpy as np
import pytest

from posformer.errors import ConfigError
from posformer.ink import render_aligned
from posformer.ink.alignment import in_pixels
from posformer.latex import Vocabulary
from posformer.synthesis.synthesizer import open_synthesizer
from posformer.training.collate import Collator, RenderedSample
from posformer.training.symbol_masking import mask_symbols
from posformer.training.training_config import BatchConfig, DataConfig, TrainingConfig

NAN = [np.nan] * 4
BOXES = np.array([[2, 4, 12, 24], NAN, [20, 8, 40, 12]], np.float32)  # tall, without ink, wide


def filled() -> np.ndarray:
    return np.full((30, 50), 255, np.uint8)


def test_a_band_across_the_longer_side_is_erased() -> None:
    image = filled()
    masked = mask_symbols(image, BOXES, 1.0, np.random.default_rng(0))
    assert (image == 255).all(), "the original must not change"
    erased = np.argwhere(masked == 0)
    for left, top, right, bottom in BOXES[[0, 2]].astype(int):
        inside = (masked[top:bottom, left:right] == 0).mean()
        assert 0.2 <= inside <= 0.6
        rows = (masked[top:bottom, left:right] == 0).any(1)
        columns = (masked[top:bottom, left:right] == 0).any(0)
        assert (columns if bottom - top > right - left else rows).all()
    in_boxes = [
        any(left <= x < right and top <= y < bottom for left, top, right, bottom in BOXES[[0, 2]])
        for y, x in erased
    ]
    assert all(in_boxes)


def test_a_symbol_around_others_is_not_masked() -> None:
    boxes = np.array([[0, 0, 50, 30], [20, 8, 40, 12]], np.float32)  # a root and its radicand
    masked = mask_symbols(filled(), boxes, 1.0, np.random.default_rng(0))
    assert (masked == 0).sum() <= 0.6 * 20 * 4


@pytest.mark.parametrize(("probability", "low", "high"), [(0.0, 0, 0), (0.3, 0.2, 0.4)])
def test_the_share_of_masked_symbols(probability: float, low: float, high: float) -> None:
    boxes = np.array([[6 * x, 5, 6 * x + 4, 20] for x in range(300)], np.float32)
    masked = mask_symbols(
        np.full((25, 1800), 255, np.uint8), boxes, probability, np.random.default_rng(1)
    )
    hit = [(masked[5:20, 6 * x : 6 * x + 4] == 0).any() for x in range(300)]
    assert low <= np.mean(hit) <= high


def test_batches_mask_real_ink_and_repeat_with_the_same_seed() -> None:
    synthesizer = open_synthesizer(levels="0-1", max_tokens=8)
    ink = in_pixels(synthesizer.make(np.random.default_rng(3), name="e"))
    image, boxes = render_aligned(ink)
    sample = RenderedSample("e", ink.tokens, image, boxes)
    vocabulary = Vocabulary.from_captions([ink.tokens])
    plain = Collator(vocabulary, None)([sample], np.random.default_rng(0)).images
    collator = Collator(vocabulary, None, masking=1.0)
    once, again = (collator([sample], np.random.default_rng(0)).images for _ in range(2))
    assert bool((once == again).all())
    assert bool((once <= plain).all()) and 0.3 < float(once.sum() / plain.sum()) < 0.9
    without = RenderedSample("e", ink.tokens, image, None)
    assert bool((collator([without], np.random.default_rng(0)).images == plain).all())


def test_it_needs_ink() -> None:
    with pytest.raises(ConfigError, match="masking needs images of ink"):
        TrainingConfig(batch=BatchConfig(masking=0.1))
    with pytest.raises(ConfigError, match="not between 0 and 1"):
        TrainingConfig(data=DataConfig(source="ink"), batch=BatchConfig(masking=1.5))
