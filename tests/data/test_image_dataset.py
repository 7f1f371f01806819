"""Datasets of images: layouts, error messages, sampling."""

import io
import multiprocessing
import pickle
import zipfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from posformer.data import ImageSampler, list_splits, open_dataset, open_images
from posformer.errors import DataError
from posformer.image.loading import load_image, white_on_black


def ink(height: int = 40, width: int = 60, margin: int = 12) -> np.ndarray:
    """A white block on black with an empty margin."""
    image = np.zeros((height, width), dtype=np.uint8)
    image[margin : height - margin, margin : width - margin] = 255
    return image


def decode(data: bytes, polarity: str = "auto") -> np.ndarray:
    return white_on_black(load_image(data), polarity)


def encoded(image: np.ndarray | Image.Image, kind: str = "bmp", **options: object) -> bytes:
    image = image if isinstance(image, Image.Image) else Image.fromarray(image)
    stream = io.BytesIO()
    image.save(stream, {"jpg": "jpeg"}.get(kind, kind), **options)
    return stream.getvalue()


CROHME = {
    "data/2014/caption.txt": b"a\tx ^ { 2 }\nb\ty\n",
    "data/2014/img/a.bmp": encoded(ink()),
    "data/2014/img/b.bmp": encoded(ink(50, 30)),
    "data/train/caption.txt": b"c z + 1\r\n\r\n",
    "data/train/img/c.png": encoded(ink(), "png"),
}
HME100K = {
    "train_labels.txt": b"train_0.jpg\tx + 1\ntrain_1.jpg\t\\frac { a } { b }\n",
    "train_images/train_0.jpg": encoded(255 - ink(), "jpg"),
    "train_images/train_1.jpg": encoded(255 - ink(), "jpg"),
    "test_labels.txt": b"test_0.jpg\ty\n",
    "test_images/test_0.jpg": encoded(255 - ink(), "jpg"),
}
M2E = {
    "M2E/train.txt": b"0001\tx = 1 \\\\ y = 2\n",
    "M2E/images/0001.png": encoded(255 - ink(), "png"),
    "M2E/README.txt": b"a dataset\n",
}


def unpack(files: dict[str, bytes], folder: Path) -> Path:
    for name, data in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    return folder


def pack(files: dict[str, bytes], path: Path) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in files.items():
            archive.writestr(name, data)
    return path


@pytest.fixture(params=["folder", "zip"])
def write(request, tmp_path):
    """Writes a dataset to disk, once as a folder and once as an archive."""
    if request.param == "folder":
        return lambda files: unpack(files, tmp_path / "set")
    return lambda files: pack(files, tmp_path / "set.zip")


def strip_prefix(prefix: str, files: dict[str, bytes]) -> dict[str, bytes]:
    return {name.removeprefix(prefix): data for name, data in files.items()}


@pytest.mark.parametrize("prefix", ["data/", "CROHME2019/data/", ""])
def test_crohme_and_mne_layout_is_found_under_any_root(write, prefix):
    path = write({prefix + name: data for name, data in strip_prefix("data/", CROHME).items()})
    assert list_splits(path) == ["2014", "train"]
    images = open_images(path, "2014")
    assert [(one.name, one.tokens) for one in images] == [
        ("a", ("x", "^", "{", "2", "}")),
        ("b", ("y",)),
    ]
    assert images.sizes.tolist() == [[40, 60], [50, 30]]
    np.testing.assert_array_equal(images.image(0), ink())
    assert open_images(path, "train")[0].tokens == ("z", "+", "1")


def test_open_dataset_finds_images(write):
    dataset = open_dataset(write(CROHME), "2014")
    assert [dataset[index].tokens for index in range(len(dataset))][1] == ("y",)
    np.testing.assert_array_equal(dataset.image(0), ink())


def test_hme100k_layout_with_dark_ink(write):
    path = write(HME100K)
    assert list_splits(path) == ["test", "train"]
    images = open_images(path, "train")
    assert [one.name for one in images] == ["train_0", "train_1"]
    assert images[1].tokens == ("\\frac", "{", "a", "}", "{", "b", "}")
    assert images.image(0)[0, 0] < 10 and images.image(0)[20, 30] > 245


def test_m2e_layout_with_names_without_extension_and_several_lines(write):
    path = write(M2E)
    assert list_splits(path) == ["train"]
    (example,) = open_images(path, "train")
    assert example.tokens == ("x", "=", "1", "\\\\", "y", "=", "2")


def test_labels_may_contain_a_folder(write):
    path = write({"labels_mine.txt": b"scans/a 1.png\tx\n", "scans/a 1.png": encoded(ink(), "png")})
    assert open_images(path, "mine")[0].path == "scans/a 1.png"


def test_split_next_to_its_captions_is_named_like_the_folder(tmp_path):
    unpack({"own/caption.txt": b"a x\n", "own/a.png": encoded(ink(), "png")}, tmp_path)
    assert open_images(tmp_path / "own", "own")[0].name == "a"


def test_files_of_operating_systems_are_ignored(write):
    files = {"__MACOSX/data/2014/._caption.txt": b"\x00", "data/.DS_Store": b"\x00"}
    assert list_splits(write({**CROHME, **files})) == ["2014", "train"]


def test_missing_split_lists_the_available_ones(write):
    path = write(CROHME)
    with pytest.raises(DataError, match=r"no split '2016'; available splits: 2014, train$"):
        open_images(path, "2016")


def test_ambiguous_split_is_an_error(write):
    path = write(
        {**CROHME, "copy/2014/caption.txt": b"a x\n", "copy/2014/img/a.bmp": encoded(ink())}
    )
    with pytest.raises(DataError, match=r"'2014' exists more than once: copy/2014/caption.txt"):
        open_images(path, "2014")


@pytest.mark.parametrize(
    ("captions", "message"),
    [
        (b"a x\nzz x\n", r"caption.txt line 2: missing image: no image 'zz' in data/2014/img/"),
        (b"a x\nb x \\zeta\n", r"line 2: unknown token: '\\\\zeta' of 'b'"),
        (b"\na\t \n", r"caption.txt line 2: empty caption: 'a'"),
        (b"a\n", r"line 1: empty caption: 'a'"),
        (b"a x\nb x\na y\n", r"line 3: duplicate name: 'a', as in line 1"),
        (b"a x\na.bmp y\n", r"line 2: duplicate name: 'a', as in line 1"),
        (b"a \xff\n", r"caption.txt: not UTF-8"),
    ],
)
def test_errors_name_file_line_and_token(write, captions, message):
    path = write({**CROHME, "data/2014/caption.txt": captions})
    with pytest.raises(DataError, match=message) as caught:
        open_images(path, "2014", vocabulary={"x", "y"})
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "data",
    [b"", b"no image", encoded(ink())[:700], encoded(ink(), "png")[:60]],
    ids=["empty", "text", "truncated BMP", "truncated PNG"],
)
def test_broken_image_is_reported_with_its_line(write, data):
    images = open_images(write({**CROHME, "data/2014/img/b.bmp": data}), "2014")
    with pytest.raises(DataError, match=r"caption.txt line 2: broken image: data/2014/img/b.bmp"):
        images.image(1)
    assert images.image(0).any()


def test_damaged_archive_member_is_a_broken_image(tmp_path):
    path = pack(CROHME, tmp_path / "set.zip")
    with zipfile.ZipFile(path) as archive:
        start = archive.getinfo("data/2014/img/b.bmp").header_offset
    data = bytearray(path.read_bytes())
    data[start + 60 : start + 90] = bytes(30)
    path.write_bytes(data)
    images = open_images(path, "2014")
    with pytest.raises(DataError, match=r"line 2: broken image: data/2014/img/b.bmp"):
        images.image(1)


def test_size_of_a_file_that_is_not_an_image(write):
    images = open_images(write({**CROHME, "data/2014/img/b.bmp": b"no image"}), "2014")
    with pytest.raises(
        DataError, match=r"line 2: broken image: .*b.bmp \(image: not an image in a known format\)"
    ):
        _ = images.sizes


def test_problems_lists_everything(write):
    captions = b"a x\nb \\zeta\nc x\na y\nd\nb2 x\n"
    files = {**CROHME, "data/2014/caption.txt": captions, "data/2014/img/b2.bmp": b"?"}
    files["data/2014/img/d.bmp"] = encoded(ink())
    path = write(files)
    with pytest.raises(DataError, match=r"line 2: .* \(and 3 more problems\)"):
        open_images(path, "2014", vocabulary={"x", "y"})
    images = open_images(path, "2014", vocabulary={"x", "y"}, strict=False)
    assert [one.name for one in images] == ["a", "b2"]
    kinds = [problem.kind for problem in images.problems()]
    assert kinds == [
        "unknown token",
        "missing image",
        "duplicate name",
        "empty caption",
        "broken image",
    ]


@pytest.mark.parametrize("name", ["nowhere.zip", "notes.txt"])
def test_path_must_be_a_folder_or_an_archive(tmp_path, name):
    (tmp_path / "notes.txt").write_text("x")
    with pytest.raises(DataError, match=name):
        open_images(tmp_path / name, "train")


def test_dataset_is_a_sequence_and_can_be_sliced(write):
    images = open_images(write(CROHME), "2014")
    assert len(images[:1]) == 1
    assert [one.name for one in images.select([1, 0])] == ["b", "a"]
    assert images[-1].name == "b"
    assert images.select([1]).sizes.tolist() == [[50, 30]]


def test_dataset_can_be_pickled_and_shared_between_threads(write):
    images = open_images(write(CROHME), "2014")
    images.image(0)
    again = pickle.loads(pickle.dumps(images))
    np.testing.assert_array_equal(again.image(1), ink(50, 30))
    with ThreadPoolExecutor(8) as threads:
        read = list(threads.map(lambda index: images.image(index % 2).shape, range(64)))
    assert read == [(40, 60), (50, 30)] * 32


def _shapes(images, results):
    results.put([images.image(index % 2).shape for index in range(200)])


@pytest.mark.skipif(
    "fork" not in multiprocessing.get_all_start_methods(), reason="this system has no fork"
)
def test_forked_processes_do_not_disturb_each_other(write):
    images = open_images(write(CROHME), "2014")
    images.image(0)
    context = multiprocessing.get_context("fork")
    results = context.Queue()
    children = [context.Process(target=_shapes, args=(images, results)) for _ in range(2)]
    for child in children:
        child.start()
    answers = [[images.image(index % 2).shape for index in range(200)]]
    answers += [results.get(timeout=60) for _ in children]
    for child in children:
        child.join()
    assert answers == [[(40, 60), (50, 30)] * 100] * 3


@pytest.mark.parametrize("kind", ["bmp", "png", "jpg", "tiff", "gif", "webp"])
def test_every_format_decodes_to_white_ink_on_black(kind):
    options = {"lossless": True} if kind == "webp" else {}
    for image in (ink(), 255 - ink()):
        decoded = decode(encoded(image, kind, **options))
        assert decoded.dtype == np.uint8
        assert np.abs(decoded.astype(int) - ink()).max() < 60


def test_color_transparency_and_depth_become_grayscale():
    dark = Image.fromarray(255 - ink())
    color = Image.merge("RGB", [dark, dark, dark])
    clear = Image.merge("RGBA", [Image.new("L", dark.size, 0)] * 3 + [Image.fromarray(ink())])
    deep = Image.fromarray((255 - ink()).astype(np.uint16) * 257)
    for image in (dark.convert("1"), dark.convert("P"), color, clear, deep):
        np.testing.assert_array_equal(decode(encoded(image, "png")), ink())


def test_polarity_can_be_given():
    full = np.full((20, 20), 200, dtype=np.uint8)
    assert decode(encoded(full)).max() == 55
    assert decode(encoded(full), "light").max() == 200
    assert decode(encoded(255 - full), "dark").max() == 200


def test_exif_orientation_is_applied(write):
    exif = Image.Exif()
    exif[0x0112] = 6
    photo = encoded(Image.fromarray(ink(40, 60)), "jpg", exif=exif)
    images = open_images(write({"t_labels.txt": b"a\tx\n", "images/a.jpg": photo}), "t")
    assert images.sizes.tolist() == [[60, 40]]
    assert images.image(0).shape == (60, 40)


def test_size_behind_a_long_header(write):
    exif = Image.Exif()
    exif[0x010E] = "words " * 5000
    data = encoded(ink(), "jpg", exif=exif)
    images = open_images(write({"t_labels.txt": b"a\tx\n", "images/a.jpg": data}), "t")
    assert images.sizes.tolist() == [[40, 60]]


@pytest.fixture
def two_images(write):
    return open_images(write(CROHME), "2014")


def test_scale_augmentation_uses_one_factor_for_both_sides(two_images):
    sampler = ImageSampler(two_images, (0.7, 1.4))
    rng = np.random.default_rng(0)
    samples = [sampler.sample(0, rng) for _ in range(300)]
    factors = np.array([one.height / 40 for one in samples])
    assert 0.67 < factors.min() < 0.75 and 1.35 < factors.max() <= 1.4
    for one in samples[:20]:
        assert one.width / 60 == pytest.approx(one.height / 40, abs=0.03)
        assert one.render()[0].shape == (one.height, one.width)
        assert one.render()[1] is None
    assert (samples[0].name, samples[0].tokens) == ("a", ("x", "^", "{", "2", "}"))


def test_sample_depends_only_on_the_random_generator(two_images):
    sampler = ImageSampler(two_images)
    sizes = [sampler.sample(1, np.random.default_rng(seed)).width for seed in (1, 1, 2)]
    assert sizes[0] == sizes[1] != sizes[2]


def test_no_scale_range_keeps_images_unchanged(two_images):
    image, _ = ImageSampler(two_images, None).sample(0, np.random.default_rng()).render()
    np.testing.assert_array_equal(image, ink())


def test_thin_strokes_survive_downscaling(write):
    thin = np.zeros((60, 60), dtype=np.uint8)
    thin[:, ::10] = 255
    files = {**CROHME, "data/2014/img/a.bmp": encoded(thin)}
    sampler = ImageSampler(open_images(write(files), "2014", polarity="light"), (0.3, 0.3))
    image, _ = sampler.sample(0, np.random.default_rng()).render()
    assert image.mean() == pytest.approx(thin.mean(), rel=0.05)


def test_limits_scale_large_images_down(two_images):
    rng = np.random.default_rng(0)
    few = ImageSampler(two_images, (2, 2), max_pixels=1000).sample(0, rng)
    assert 900 < few.height * few.width <= 1000
    low = ImageSampler(two_images, None, max_size=(20, 1000)).sample(0, rng)
    assert (low.height, low.width) == (20, 30)


def test_margin_is_cropped_before_scaling(two_images):
    rng = np.random.default_rng(0)
    sample = ImageSampler(two_images, None, crop_margin=3).sample(0, rng)
    assert (sample.height, sample.width) == (40 - 18, 60 - 18)
    np.testing.assert_array_equal(sample.render()[0], ink()[9:-9, 9:-9])
    assert ImageSampler(two_images, (2, 2), crop_margin=3).sample(0, rng).height == 44
    assert ImageSampler(two_images, None, crop_margin=99).sample(0, rng).height == 40


def test_sample_is_cheap_to_pickle(two_images):
    sample = ImageSampler(two_images).sample(1, np.random.default_rng(0))
    pickled = pickle.dumps(sample)
    assert len(pickled) < 2000
    np.testing.assert_array_equal(pickle.loads(pickled).render()[0], sample.render()[0])


def test_invalid_scale_range_is_an_error(two_images):
    with pytest.raises(DataError, match="scale_range"):
        ImageSampler(two_images, (1.4, 0.7))


@pytest.mark.parametrize(("split", "count"), [("train", 8834), ("2014", 986), ("2016", 1147)])
def test_crohme_is_complete(crohme_zip, split, count):
    images = open_images(crohme_zip, split)
    assert len(images) == count
    for index in range(0, count, 100):
        image = images.image(index)
        assert image.shape == tuple(images.sizes[index])
        assert set(np.unique(image)) == {0, 255}
        assert not image[0].any()


LABELS = (
    "name\tkind\tlines\ttokens\tsource\tlicence\n"
    "p1\tscan\t1\tx ^ { 2 }\ts1\tnot stated\n"
    "p2\tphoto-paper\t2\tx \\\\ y\ts2\tnot stated\n"
)


def photograph() -> np.ndarray:
    """Two dark crosses below each other, far apart, on grey paper."""
    page = np.full((500, 400), 180, np.uint8)
    for top in (60, 300):
        for shift in range(110):
            page[top + shift, 100 + shift : 110 + shift] = 40
            page[top + shift, 210 - shift : 220 - shift] = 40
    return page


PHOTOGRAPHS = {
    "photos/dev/labels.tsv": LABELS.encode(),
    "photos/dev/img/p1.png": encoded(photograph()[:250], "png"),
    "photos/dev/img/p2.png": encoded(photograph(), "png"),
}


def test_photographs_have_kinds_and_are_prepared(write):
    images = open_images(write(PHOTOGRAPHS), "dev")
    assert [(one.name, one.tokens, one.kind, one.source) for one in images] == [
        ("p1", ("x", "^", "{", "2", "}"), "scan", "s1"),
        ("p2", ("x", "\\\\", "y"), "photo-paper", "s2"),
    ]
    assert {kind: len(part) for kind, part in images.by_kind().items()} == {
        "photo-paper": 1,
        "scan": 1,
    }
    assert images.sizes.tolist() == [list(images.image(index).shape) for index in (0, 1)]
    cross = images.image(0)
    assert 40 < cross.shape[0] < 70 and cross[0, 0] == 0 and cross.max() > 230  # symbols of 30
    sample = ImageSampler(images, None, crop_margin=4).sample(1, np.random.default_rng(0))
    assert sample.render()[0].shape == (sample.height, sample.width)


@pytest.mark.parametrize("preprocessing", ["grey", "binary"])
def test_formulas_of_photographs_can_be_split(write, preprocessing):
    images = open_images(write(PHOTOGRAPHS), "dev", preprocessing=preprocessing)
    assert len(images.formulas(1)) == 2
    assert len(images.formulas(0)) == len(images.formulas(1, split=False)) == 1


def test_photograph_without_ink_is_an_empty_image(write):
    blank = {**PHOTOGRAPHS, "photos/dev/img/p1.png": encoded(photograph()[:40], "png")}
    assert not open_images(write(blank), "dev").image(0).any()


def test_missing_column_of_a_label_file_is_located(write):
    broken = {**PHOTOGRAPHS, "photos/dev/labels.tsv": LABELS.encode() + b"p3\tscan\t1\n"}
    with pytest.raises(DataError, match=r"labels\.tsv line 4: has 3 columns, the header 6"):
        open_images(write(broken), "dev")
