"""The project's own ink."""

import numpy as np
import pytest

from posformer.latex import Vocabulary, is_structure
from posformer.latex.symbols import SYMBOLS
from posformer.synthesis.extents import vertical_extent
from posformer.synthesis.glyphs import FUNCTIONS, glyphs, own_bank


@pytest.fixture(scope="module")
def bank():
    return own_bank()


def test_every_crohme_token_with_ink_can_be_written(bank, reference):
    tokens = Vocabulary.load(reference / "crohme_dictionary.txt").tokens
    special = {"<pad>", "<sos>", "<eos>"}
    inked = {token for token in tokens if not is_structure(token)} - special
    assert inked <= bank.tokens


def test_every_writer_wrote_every_symbol(bank):
    everything = set(glyphs()) | {f"\\{name}" for name in FUNCTIONS}
    assert all(bank.written_by(writer) == everything for writer in bank.writers)


def test_points_fill_their_box(bank):
    for token in sorted(bank.tokens):
        for sample in bank.samples(token):
            assert np.isfinite(sample.points).all()
            assert all(length >= 2 for length in sample.lengths)
            assert sum(sample.lengths) == len(sample.points)
            assert sample.points.min() == 0
            assert sample.points.max(axis=0) == pytest.approx((sample.width, sample.height))


def test_symbols_have_the_usual_vertical_extent(bank):
    for token in (token for token in bank.tokens if not SYMBOLS[token].grows):
        tops = [sample.baseline / sample.unit for sample in bank.samples(token)]
        heights = [sample.relative_height for sample in bank.samples(token)]
        assert np.median(tops) == pytest.approx(vertical_extent(token).top, abs=0.35), token
        assert np.median(heights) == pytest.approx(vertical_extent(token).height, abs=0.65), token


def test_samples_differ_between_and_within_writers():
    small = own_bank(writers=2, samples=2, seed=3)
    first, again = small.samples("a", small.writers[0])
    other = small.samples("a", small.writers[1])[0]
    assert not np.array_equal(first.points[:5], again.points[:5])
    assert first.lengths is not other.lengths
    assert abs(first.width - again.width) < 30


def test_ink_depends_on_the_seed():
    own_bank.cache_clear()
    first = own_bank(writers=1, samples=1, seed=5).samples("\\sum")[0].points
    own_bank.cache_clear()
    again = own_bank(writers=1, samples=1, seed=5).samples("\\sum")[0].points
    other = own_bank(writers=1, samples=1, seed=6).samples("\\sum")[0].points
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)
