"""Batches: little padding, every example once, deterministic."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from posformer.data import ImageSampler, open_images, pack_batches, shard, step_share, valid_share
from posformer.errors import DataError

SIZES = st.lists(
    st.tuples(st.integers(1, 300), st.integers(1, 900), st.integers(1, 80)), max_size=60
).map(lambda rows: np.array(rows, dtype=np.int64).reshape(-1, 3))


def expression_sizes(count: int, seed: int = 0) -> np.ndarray:
    """Typical sizes of handwritten expressions with scale augmentation."""
    rng = np.random.default_rng(seed)
    length = np.clip(rng.lognormal(2.5, 0.75, count), 1, 100)
    scale = rng.uniform(0.7, 1.4, count)
    width = (30 + 17 * length * rng.uniform(0.7, 1.3, count)) * scale
    height = np.clip(rng.lognormal(4.5, 0.4, count), 30, 400) * scale
    return np.stack([height, width, length], axis=1).astype(np.int64)


def pack(sizes: np.ndarray, seed: int = 0, **limits: int) -> list[np.ndarray]:
    limits = {"max_pixels": 500_000, "max_images": 32, **limits}
    return pack_batches(sizes, rng=np.random.default_rng(seed), **limits)


def padded_pixels(sizes: np.ndarray, batch: np.ndarray) -> int:
    height, width = (-(-sizes[batch, side].max() // 16) * 16 for side in (0, 1))
    return len(batch) * int(height) * int(width)


@settings(max_examples=60, deadline=None)
@given(sizes=SIZES, pixels=st.integers(1, 400_000), images=st.integers(1, 20))
def test_every_example_is_in_exactly_one_batch_and_limits_hold(sizes, pixels, images):
    batches = pack(sizes, max_pixels=pixels, max_images=images, max_cells_steps=20_000)
    assert sorted(index for batch in batches for index in batch) == list(range(len(sizes)))
    for batch in batches:
        area = padded_pixels(sizes, batch)
        fits = area <= pixels and area // 256 * sizes[batch, 2].max() <= 20_000
        assert len(batch) == 1 or (fits and len(batch) <= images)


def test_padding_of_synthetic_sizes_is_bounded():
    sizes = expression_sizes(4000)
    batches = pack(sizes)
    assert valid_share(sizes, batches) >= 0.75
    assert step_share(sizes, batches) >= 0.60


def test_padding_of_crohme_is_bounded(crohme_zip):
    sampler = ImageSampler(open_images(crohme_zip, "2014"))
    rng = np.random.default_rng(0)
    samples = [sampler.sample(index, rng) for index in range(len(sampler))]
    sizes = np.array([(one.height, one.width, len(one.tokens) + 1) for one in samples])
    assert valid_share(sizes, pack(sizes)) >= 0.75


def test_batches_are_well_filled():
    sizes = expression_sizes(4000)
    filled = [padded_pixels(sizes, batch) / 500_000 for batch in pack(sizes, max_images=10_000)]
    assert np.mean(filled) > 0.7


def test_batches_depend_only_on_the_seed():
    sizes = expression_sizes(300)
    first, again, other = pack(sizes, seed=1), pack(sizes, seed=1), pack(sizes, seed=2)
    assert [batch.tolist() for batch in first] == [batch.tolist() for batch in again]
    assert [batch.tolist() for batch in first] != [batch.tolist() for batch in other]


def test_batches_are_shuffled_by_size():
    sizes = expression_sizes(2000)
    areas = [padded_pixels(sizes, batch) / len(batch) for batch in pack(sizes)]
    assert abs(np.corrcoef(areas[:-1], areas[1:])[0, 1]) < 0.2


def test_oversized_example_forms_its_own_batch():
    sizes = np.array([[64, 64, 5], [2000, 2000, 50], [64, 80, 5]])
    batches = {tuple(sorted(batch)) for batch in pack(sizes)}
    assert batches == {(0, 2), (1,)}


def test_no_examples_give_no_batches():
    assert pack(np.empty((0, 3))) == []
    assert valid_share(np.empty((0, 3)), []) == 1.0


def test_limit_below_one_is_an_error():
    with pytest.raises(DataError, match="at least 1"):
        pack(expression_sizes(3), max_pixels=0)


def test_shares_count_padding_to_the_stride():
    sizes = np.array([[8, 16, 1], [16, 16, 3]])
    assert valid_share(sizes, [np.array([0, 1])]) == pytest.approx((128 + 256) / 512)
    assert step_share(sizes, [np.array([0, 1])]) == pytest.approx((1 + 3) / 6)


@settings(max_examples=60, deadline=None)
@given(counts=st.lists(st.integers(1, 9), min_size=1, max_size=12), world=st.integers(1, 7))
def test_shards_are_even_and_complete(counts, world):
    ends = np.cumsum(counts)
    batches = [np.arange(end - count, end) for count, end in zip(counts, ends, strict=True)]
    if ends[-1] < world:
        with pytest.raises(DataError, match=f"{ends[-1]} examples .* {world} processes"):
            shard(batches, 0, world)
        return
    shards = [shard(batches, rank, world) for rank in range(world)]
    assert len({len(one) for one in shards}) == 1
    sharded = [int(index) for one in shards for batch in one for index in batch]
    assert sorted(sharded) == list(range(ends[-1]))
    assert all(len(batch) for one in shards for batch in one)


def test_even_number_of_batches_is_sharded_unchanged():
    batches = [np.array([0, 1]), np.array([2]), np.array([3, 4]), np.array([5])]
    assert [batch.tolist() for batch in shard(batches, 1, 2)] == [[2], [5]]


def test_rank_out_of_range_is_an_error():
    with pytest.raises(DataError, match="rank 2"):
        shard([np.arange(4)], 2, 2)
