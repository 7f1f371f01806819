"""Datasets of aligned ink: loading, caching, sampling."""

import logging
import os
import zipfile
from pathlib import Path

import numpy as np
import pytest

from posformer.data import InkSampler, drop_known_texts, load_ink, open_dataset, open_images
from posformer.errors import DataError
from posformer.ink import AlignedInk, RenderStyle, render, write_inkml
from posformer.ink.augmentation import StrokeAugmentation
from posformer.synthesis import SymbolSubstitution


def make_ink(name: str, text: str) -> AlignedInk:
    """One stroke per token, side by side."""
    tokens = tuple(text.split())
    strokes = tuple(
        np.array([[30 * index, 0], [30 * index + 20, 28]], np.float32)
        for index in range(len(tokens))
    )
    return AlignedInk(name, tokens, strokes, tuple((index,) for index in range(len(tokens))), "ann")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for split, inks in {
        "train": [make_ink("b-1", "x + 1"), make_ink("a-1", "2 y")],
        "2013": [make_ink("c-1", "2 y"), make_ink("c-2", "z")],
    }.items():
        (tmp_path / "inkml" / split / "ann").mkdir(parents=True)
        for ink in inks:
            write_inkml(ink, tmp_path / "inkml" / split / "ann" / f"{ink.name}.inkml")
    return tmp_path / "inkml"


def is_same(one: list[AlignedInk], other: list[AlignedInk]) -> bool:
    plain = [
        [(i.name, i.tokens, i.alignment, i.writer, [s.tolist() for s in i.strokes]) for i in inks]
        for inks in (one, other)
    ]
    return plain[0] == plain[1]


def test_ink_is_sorted_by_name(folder: Path) -> None:
    inks = load_ink(folder, "train", cache=None)
    assert [ink.name for ink in inks] == ["a-1", "b-1"]
    assert inks[1].tokens == ("x", "+", "1")
    assert inks[1].alignment == ((0,), (1,), (2,))


def test_archive_equals_folder(folder: Path, tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "ink.zip", "w") as archive:
        for file in folder.rglob("*.inkml"):
            archive.write(file, f"inkml/{file.relative_to(folder)}")
    assert is_same(
        load_ink(tmp_path / "ink.zip", "train", cache=None), load_ink(folder, "train", cache=None)
    )


def test_cache_returns_the_same_ink(folder: Path, tmp_path: Path) -> None:
    first = load_ink(folder, "train", cache=tmp_path / "cache")
    for file in folder.rglob("*.inkml"):
        before = file.stat()
        file.write_bytes(b" " * before.st_size)  # only the cache still has the ink
        os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert is_same(load_ink(folder, "train", cache=tmp_path / "cache"), first)


def test_changed_file_invalidates_the_cache(folder: Path, tmp_path: Path) -> None:
    load_ink(folder, "train", cache=tmp_path / "cache")
    write_inkml(make_ink("a-1", "3 z z"), folder / "train" / "ann" / "a-1.inkml")
    inks = load_ink(folder, "train", cache=tmp_path / "cache")
    assert inks[0].tokens == ("3", "z", "z")


def test_other_captions_do_not_use_the_old_cache(folder: Path, tmp_path: Path) -> None:
    load_ink(folder, "train", cache=tmp_path / "cache")
    inks = load_ink(folder, "train", {"a-1": ("2", "y")}, cache=tmp_path / "cache")
    assert [ink.name for ink in inks] == ["a-1"]


def test_damaged_cache_is_ignored(folder: Path, tmp_path: Path) -> None:
    first = load_ink(folder, "train", cache=tmp_path / "cache")
    for file in (tmp_path / "cache").iterdir():
        file.write_bytes(file.read_bytes()[:100])
    assert is_same(load_ink(folder, "train", cache=tmp_path / "cache"), first)


def test_broken_files_are_skipped_with_a_warning(
    folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (folder / "train" / "ann" / "bad.inkml").write_text("<ink>")
    with caplog.at_level(logging.WARNING):
        assert len(load_ink(folder, "train", cache=None)) == 2
    assert "bad.inkml" in caplog.text


def test_missing_split_is_named(folder: Path) -> None:
    with pytest.raises(DataError, match="'2099'"):
        load_ink(folder, "2099", cache=None)


def test_texts_of_the_training_set_are_dropped_from_validation(folder: Path) -> None:
    train, other = (load_ink(folder, split, cache=None) for split in ("train", "2013"))
    assert [ink.name for ink in drop_known_texts(other, train)] == ["c-2"]


def test_rendered_size_matches_the_sample(folder: Path) -> None:
    inks = load_ink(folder, "train", cache=None)
    sampler = InkSampler(
        inks,
        RenderStyle(scale=0.7, margin=(4, 4)),
        augment=StrokeAugmentation(),
        substitution=SymbolSubstitution.from_inks(inks, substitution=1, each=1),
    )
    for seed in range(20):
        sample = sampler.sample(seed % len(sampler), np.random.default_rng(seed))
        image, boxes = sample.render()
        assert image.shape == (sample.height, sample.width)
        assert boxes.shape == (len(sample.tokens), 4)


def test_rendering_is_deterministic(folder: Path) -> None:
    sampler = InkSampler(load_ink(folder, "train", cache=None), augment=StrokeAugmentation())
    one, other = (sampler.sample(0, np.random.default_rng(3)) for _ in range(2))
    assert (one.render()[0] == other.render()[0]).all()
    assert (one.render()[0] == one.render()[0]).all()


@pytest.mark.parametrize("log_uniform", [False, True])
def test_handwriting_is_scaled_within_the_range(folder: Path, log_uniform: bool) -> None:
    inks = load_ink(folder, "train", cache=None)
    sampler = InkSampler(inks, scale_range=(0.5, 2.0), log_uniform=log_uniform)
    original = InkSampler(inks, scale_range=None).sample(0, np.random.default_rng(0)).width - 26
    widths = [sampler.sample(0, np.random.default_rng(seed)).width - 26 for seed in range(60)]
    assert 0.45 * original <= min(widths) < 0.7 * original
    assert 1.6 * original < max(widths) <= 2.05 * original


def test_limits_scale_large_images_down(folder: Path) -> None:
    inks = load_ink(folder, "train", cache=None)
    few = InkSampler(inks, scale_range=None, max_pixels=1000).sample(1, np.random.default_rng(0))
    assert 800 < few.height * few.width <= 1000
    low = InkSampler(inks, scale_range=None, max_size=(20, 400)).sample(1, np.random.default_rng(0))
    assert low.height <= 20
    assert low.render()[0].shape == (low.height, low.width)


def test_invalid_scale_range_is_an_error(folder: Path) -> None:
    with pytest.raises(DataError, match="scale_range"):
        InkSampler([], scale_range=(2.0, 1.0))


def test_open_dataset_serves_images_and_ink(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder.parent)  # the default cache is relative to the working directory
    dataset = open_dataset(folder, "train")
    assert [dataset[index].name for index in range(len(dataset))] == ["a-1", "b-1"]
    np.testing.assert_array_equal(
        dataset.image(1), render(load_ink(folder, "train", cache=None)[1].strokes)
    )
    available = "available splits: images: none; ink: 2013, ann, train$"
    with pytest.raises(DataError, match=f"no split '2099'; {available}"):
        open_dataset(folder, "2099")


@pytest.mark.slow
def test_crohme_ink_matches_captions_and_image_sizes(
    crohme_zip: Path, crohme_ink_zip: Path, tmp_path: Path
) -> None:
    images = open_images(crohme_zip, "train")
    captions = {example.name: example.tokens for example in images}
    inks = load_ink(crohme_ink_zip, "train", captions, cache=tmp_path)
    assert {ink.name: ink.tokens for ink in inks} == captions
    sampler = InkSampler(inks, scale_range=None)
    sizes = dict(zip((one.name for one in images), images.sizes.tolist(), strict=True))
    samples = [sampler.sample(index, np.random.default_rng(0)) for index in range(len(sampler))]
    correct = sum([one.height, one.width] == sizes[one.name] for one in samples)
    assert correct / len(samples) > 0.99
