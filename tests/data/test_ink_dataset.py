"""Sets of aligned ink, and training examples drawn from them."""

import logging
import os
import zipfile
from pathlib import Path

import numpy as np
import pytest

from posformer.data import InkSampler, drop_known_texts, load_ink, open_images
from posformer.errors import DataError
from posformer.ink import AlignedInk, RenderStyle, write_inkml
from posformer.ink.augmentation import StrokeAugmentation
from posformer.synthesis import SymbolSubstitution


def written(name: str, text: str) -> AlignedInk:
    """One stroke a token, side by side."""
    tokens = tuple(text.split())
    strokes = tuple(
        np.array([[30 * place, 0], [30 * place + 20, 28]], np.float32)
        for place in range(len(tokens))
    )
    return AlignedInk(name, tokens, strokes, tuple((p,) for p in range(len(tokens))), "ann")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for split, inks in {
        "train": [written("b-1", "x + 1"), written("a-1", "2 y")],
        "2013": [written("c-1", "2 y"), written("c-2", "z")],
    }.items():
        (tmp_path / "inkml" / split / "hand").mkdir(parents=True)
        for ink in inks:
            write_inkml(ink, tmp_path / "inkml" / split / "hand" / f"{ink.name}.inkml")
    return tmp_path / "inkml"


def same(one: list[AlignedInk], other: list[AlignedInk]) -> bool:
    plain = [
        [(i.name, i.tokens, i.alignment, i.writer, [s.tolist() for s in i.strokes]) for i in inks]
        for inks in (one, other)
    ]
    return plain[0] == plain[1]


def test_a_split_is_read_in_order_of_names(folder: Path) -> None:
    inks = load_ink(folder, "train", cache=None)
    assert [ink.name for ink in inks] == ["a-1", "b-1"]
    assert inks[1].tokens == ("x", "+", "1")
    assert inks[1].alignment == ((0,), (1,), (2,))


def test_a_zip_archive_reads_like_its_folder(folder: Path, tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "ink.zip", "w") as archive:
        for file in folder.rglob("*.inkml"):
            archive.write(file, f"inkml/{file.relative_to(folder)}")
    assert same(
        load_ink(tmp_path / "ink.zip", "train", cache=None), load_ink(folder, "train", cache=None)
    )


def test_the_cache_gives_back_what_was_read(folder: Path, tmp_path: Path) -> None:
    first = load_ink(folder, "train", cache=tmp_path / "kept")
    for file in folder.rglob("*.inkml"):
        before = file.stat()
        file.write_bytes(b" " * before.st_size)  # only a cache can still know the ink
        os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert same(load_ink(folder, "train", cache=tmp_path / "kept"), first)


def test_a_file_that_changed_is_read_anew(folder: Path, tmp_path: Path) -> None:
    load_ink(folder, "train", cache=tmp_path / "kept")
    write_inkml(written("a-1", "3 z z"), folder / "train" / "hand" / "a-1.inkml")
    inks = load_ink(folder, "train", cache=tmp_path / "kept")
    assert inks[0].tokens == ("3", "z", "z")


def test_other_captions_are_no_matter_of_the_old_cache(folder: Path, tmp_path: Path) -> None:
    load_ink(folder, "train", cache=tmp_path / "kept")
    inks = load_ink(folder, "train", {"a-1": ("2", "y")}, cache=tmp_path / "kept")
    assert [ink.name for ink in inks] == ["a-1"]


def test_a_damaged_cache_is_read_anew(folder: Path, tmp_path: Path) -> None:
    first = load_ink(folder, "train", cache=tmp_path / "kept")
    for file in (tmp_path / "kept").iterdir():
        file.write_bytes(file.read_bytes()[:100])
    assert same(load_ink(folder, "train", cache=tmp_path / "kept"), first)


def test_broken_files_are_left_out_with_a_warning(
    folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (folder / "train" / "hand" / "bad.inkml").write_text("<ink>")
    with caplog.at_level(logging.WARNING):
        assert len(load_ink(folder, "train", cache=None)) == 2
    assert "bad.inkml" in caplog.text


def test_a_split_that_is_not_there_is_named(folder: Path) -> None:
    with pytest.raises(DataError, match="'2099'"):
        load_ink(folder, "2099", cache=None)


def test_texts_of_the_training_set_are_dropped_from_validation(folder: Path) -> None:
    train, other = (load_ink(folder, split, cache=None) for split in ("train", "2013"))
    assert [ink.name for ink in drop_known_texts(other, train)] == ["c-2"]


def test_a_drawing_has_the_size_it_said(folder: Path) -> None:
    inks = load_ink(folder, "train", cache=None)
    source = InkSampler(
        inks,
        RenderStyle(scale=0.7, margin=(4, 4)),
        augment=StrokeAugmentation(),
        substitution=SymbolSubstitution.from_inks(inks, substitution=1, each=1),
    )
    for seed in range(20):
        drawing = source.sample(seed % len(source), np.random.default_rng(seed))
        image, boxes = drawing.render()
        assert image.shape == (drawing.height, drawing.width)
        assert boxes.shape == (len(drawing.tokens), 4)


def test_all_chance_falls_before_rendering(folder: Path) -> None:
    source = InkSampler(load_ink(folder, "train", cache=None), augment=StrokeAugmentation())
    one, other = (source.sample(0, np.random.default_rng(3)) for _ in range(2))
    assert (one.render()[0] == other.render()[0]).all()
    assert (one.render()[0] == one.render()[0]).all()


@pytest.mark.parametrize("log_uniform", [False, True])
def test_handwriting_is_scaled_within_the_range(folder: Path, log_uniform: bool) -> None:
    inks = load_ink(folder, "train", cache=None)
    source = InkSampler(inks, scale_range=(0.5, 2.0), log_uniform=log_uniform)
    whole = InkSampler(inks, scale_range=None).sample(0, np.random.default_rng(0)).width - 26
    widths = [source.sample(0, np.random.default_rng(seed)).width - 26 for seed in range(60)]
    assert 0.45 * whole <= min(widths) < 0.7 * whole
    assert 1.6 * whole < max(widths) <= 2.05 * whole


def test_large_images_are_made_smaller(folder: Path) -> None:
    inks = load_ink(folder, "train", cache=None)
    few = InkSampler(inks, scale_range=None, max_pixels=1000).sample(1, np.random.default_rng(0))
    assert 800 < few.height * few.width <= 1000
    low = InkSampler(inks, scale_range=None, max_size=(20, 400)).sample(1, np.random.default_rng(0))
    assert low.height <= 20
    assert low.render()[0].shape == (low.height, low.width)


def test_a_range_that_is_none_is_refused(folder: Path) -> None:
    with pytest.raises(DataError, match="scale_range"):
        InkSampler([], scale_range=(2.0, 1.0))


@pytest.mark.slow
def test_all_ink_of_crohme_has_its_caption_and_the_size_of_its_image(
    crohme_zip: Path, crohme_ink_zip: Path, tmp_path: Path
) -> None:
    images = open_images(crohme_zip, "train")
    captions = {example.name: example.tokens for example in images}
    inks = load_ink(crohme_ink_zip, "train", captions, cache=tmp_path)
    assert {ink.name: ink.tokens for ink in inks} == captions
    source = InkSampler(inks, scale_range=None)
    sizes = dict(zip((one.name for one in images), images.sizes.tolist(), strict=True))
    drawings = [source.sample(index, np.random.default_rng(0)) for index in range(len(source))]
    right = sum([one.height, one.width] == sizes[one.name] for one in drawings)
    assert right / len(drawings) > 0.99
