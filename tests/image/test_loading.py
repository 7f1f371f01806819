"""Decoding images of every format and mode; errors for everything else."""

import io
import random
import struct
import warnings
import zlib

import numpy as np
import pytest
from PIL import ExifTags, Image
from PIL.TiffImagePlugin import TiffImageFile

from posformer.errors import ImageError, PosformerError
from posformer.image.loading import MAX_SIDE, ImageWarning, load_image, load_reduced


@pytest.fixture
def scribble() -> np.ndarray:
    """Dark on light, upright, not symmetric: uint8 (40, 60)."""
    image = np.full((40, 60), 250, np.uint8)
    image[5:8, 5:40] = 20
    image[5:30, 5:8] = 20
    return image


def encoded(image: Image.Image, kind: str, **options) -> bytes:
    content = io.BytesIO()
    image.save(content, kind, **options)
    return content.getvalue()


def darkness(image: np.ndarray) -> np.ndarray:
    return (image if image.ndim == 2 else image.mean(axis=-1)) < 128


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "BMP", "TIFF", "GIF", "WEBP", "PPM"])
@pytest.mark.parametrize("mode", ["L", "RGB"])
def test_every_format_gives_the_same_image(scribble, kind, mode):
    image = load_image(encoded(Image.fromarray(scribble).convert(mode), kind))
    assert image.dtype == np.uint8
    assert (darkness(image) != darkness(scribble)).mean() < 0.01


@pytest.mark.parametrize("mode", ["1", "P", "CMYK", "YCbCr", "LA", "RGBA", "I;16", "I", "F"])
def test_every_mode_gives_the_same_image(scribble, mode):
    image = Image.fromarray(scribble)
    if mode == "I;16":
        image = Image.fromarray(scribble.astype(np.uint16) * 257)
    elif mode == "1":
        image = Image.fromarray(scribble > 128)
    elif mode in ("P", "CMYK", "YCbCr"):
        image = image.convert("RGB").convert(mode)
    else:
        image = image.convert(mode)
    assert (darkness(load_image(image)) == darkness(scribble)).all()


def test_sixteen_bit_file_is_scaled_not_clipped(scribble):
    content = encoded(Image.fromarray(scribble.astype(np.uint16) * 257), "PNG")
    assert np.abs(load_image(content).astype(int) - scribble).max() <= 1


def test_cmyk_jpeg_keeps_its_colors(scribble):
    content = encoded(Image.fromarray(scribble).convert("RGB").convert("CMYK"), "JPEG")
    assert (darkness(load_image(content)) != darkness(scribble)).mean() < 0.01


def test_sources_may_be_paths_bytes_files_images_and_arrays(scribble, tmp_path):
    path = tmp_path / "note.png"
    path.write_bytes(encoded(Image.fromarray(scribble), "PNG"))
    with path.open("rb") as file:
        sources = [path, str(path), path.read_bytes(), file, Image.open(path), scribble]
        for source in sources:
            assert (load_image(source) == scribble).all()


@pytest.mark.parametrize(
    "array",
    [
        lambda p: p / 255.0,
        lambda p: p.astype(np.float32),
        lambda p: p > 127,
        lambda p: p.astype(np.uint16) * 257,
        lambda p: p[..., None],
        lambda p: np.dstack([p, p, p]),
        lambda p: np.dstack([p, p, p, np.full_like(p, 255)]),
        lambda p: p.astype(np.int64),
    ],
)
def test_arrays_of_any_dtype_and_channels_are_accepted(scribble, array):
    image = load_image(array(scribble))
    assert image.dtype == np.uint8
    assert (darkness(image) == darkness(scribble)).all()


@pytest.mark.parametrize(
    ("orientation", "stored"),
    [
        (1, lambda p: p),
        (2, np.fliplr),
        (3, lambda p: np.rot90(p, 2)),
        (4, np.flipud),
        (5, np.transpose),
        (6, lambda p: np.rot90(p, 1)),
        (7, lambda p: np.rot90(p, 2).T),
        (8, lambda p: np.rot90(p, -1)),
    ],
)
def test_exif_orientation_is_applied(scribble, orientation, stored):
    exif = Image.Exif()
    exif[0x0112] = orientation
    turned = Image.fromarray(np.ascontiguousarray(stored(scribble)))
    assert (load_image(encoded(turned, "PNG", exif=exif)) == scribble).all()


def test_transparent_background_becomes_white(scribble):
    ink = np.zeros((40, 60, 4), np.uint8)
    ink[..., 3] = np.where(scribble < 128, 255, 0)
    image = load_image(encoded(Image.fromarray(ink), "PNG"))
    assert (darkness(image) == darkness(scribble)).all()


def test_light_ink_on_transparent_background_stays_visible(scribble):
    ink = np.full((40, 60, 4), 255, np.uint8)
    ink[..., 3] = np.where(scribble < 128, 255, 0)
    image = load_image(ink)
    assert (~darkness(image) == darkness(scribble)).all()


def test_palette_with_a_transparent_color_is_flattened(scribble):
    image = Image.fromarray(np.where(scribble < 128, 0, 1).astype(np.uint8), "P")
    image.putpalette([0, 0, 0, 10, 10, 10])
    content = encoded(image, "PNG", transparency=1)
    assert (darkness(load_image(content)) == darkness(scribble)).all()


@pytest.mark.parametrize("kind", ["GIF", "TIFF", "WEBP"])
def test_first_of_several_frames_is_read_with_a_warning(scribble, kind):
    first, second = Image.fromarray(scribble), Image.fromarray(255 - scribble)
    content = encoded(first, kind, save_all=True, append_images=[second])
    with pytest.warns(ImageWarning, match="several frames"):
        image = load_image(content)
    assert (darkness(image) != darkness(scribble)).mean() < 0.01


def test_heic_is_read_if_its_library_is_installed(scribble):
    heif = pytest.importorskip("pillow_heif")
    content = io.BytesIO()
    heif.from_pillow(Image.fromarray(scribble).convert("RGB")).save(content, quality=90)
    assert (darkness(load_image(content.getvalue())) != darkness(scribble)).mean() < 0.01
    with pytest.raises(ImageError, match="damaged"):
        load_image(content.getvalue()[:200])


def test_pdf_page_is_read_if_its_library_is_installed(scribble):
    pytest.importorskip("pypdfium2")
    pages = [Image.fromarray(p).convert("RGB") for p in (255 - scribble, scribble)]
    content = encoded(pages[0], "PDF", save_all=True, append_images=pages[1:])
    assert darkness(load_image(content, page=1)).mean() > 0.5
    assert darkness(load_image(content, page=2)).mean() < 0.5
    with pytest.raises(ImageError, match="no page 3; it has 2"):
        load_image(content, page=3)
    with pytest.raises(ImageError, match="damaged"):
        load_image(b"%PDF-1.7 and nothing else")


def huge_png(width: int, height: int) -> bytes:
    """A small file whose header claims an image of this size."""

    def chunk(kind: bytes, body: bytes) -> bytes:
        return (
            struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))
        )

    header = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(b"\0" * 64))


@pytest.mark.parametrize(
    ("width", "height"), [(20_000, 10_000), (60_000, 60_000), (100_000, 10), (10, MAX_SIDE + 1)]
)
@pytest.mark.filterwarnings("ignore::PIL.Image.DecompressionBombWarning")
def test_too_large_image_is_rejected_before_decoding(width, height):
    with pytest.raises(ImageError, match=r"pixels") as caught:
        load_image(huge_png(width, height))
    assert "damaged" not in str(caught.value)
    assert "\n" not in str(caught.value)


def test_too_large_array_is_rejected():
    with pytest.raises(ImageError, match="per side allowed"):
        load_image(np.zeros((1, 100_000), np.uint8))


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "empty"),
        (b"this is a text and not an image\n" * 9, "not an image"),
        (b"\x89PNG\r\n\x1a\n", "image|damaged"),
        (b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n", "not an image"),
    ],
)
def test_error_names_file_and_reason(tmp_path, content, reason):
    path = tmp_path / "text.png"
    path.write_bytes(content)
    with pytest.raises(ImageError, match=reason) as caught:
        load_image(path)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "TIFF", "WEBP", "BMP"])
def test_truncated_file_is_rejected(scribble, kind):
    content = encoded(Image.fromarray(np.tile(scribble, (4, 4))), kind)
    with pytest.raises(ImageError):
        load_image(content[: len(content) // 2])


def test_missing_files_and_folders_are_named(tmp_path):
    with pytest.raises(ImageError, match="no such file"):
        load_image(tmp_path / "none.png")
    with pytest.raises(ImageError, match="a folder"):
        load_image(tmp_path)


@pytest.mark.parametrize(
    "wrong",
    [
        np.zeros(5),
        np.zeros((2, 2, 7)),
        np.zeros((0, 4)),
        np.array([["a"]]),
        7,
        None,
        io.StringIO(""),
    ],
)
def test_other_objects_are_rejected(wrong):
    with pytest.raises(PosformerError):
        load_image(wrong)


def test_mutated_files_are_read_or_rejected(scribble):
    rng = random.Random(0)
    image = Image.fromarray(np.dstack([scribble] * 3))
    originals = [encoded(image, kind) for kind in ("PNG", "JPEG", "GIF", "BMP", "TIFF", "WEBP")]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for _ in range(600):
            content = bytearray(rng.choice(originals))
            for _ in range(rng.randint(1, 8)):
                content[rng.randrange(len(content))] = rng.randrange(256)
            try:
                image = load_image(bytes(content))
            except ImageError as caught:
                assert "\n" not in str(caught)
            else:
                assert image.dtype == np.uint8


def test_pages_of_a_tiff_are_not_counted(scribble, monkeypatch):
    """Counting them takes time for each, and a small file can have thousands."""
    pages = io.BytesIO()
    page = Image.fromarray(scribble)
    page.save(pages, "TIFF", save_all=True, append_images=[page] * 9)
    visited = []
    seek = TiffImageFile._seek
    monkeypatch.setattr(
        TiffImageFile, "_seek", lambda self, frame: (visited.append(frame), seek(self, frame))
    )
    with pytest.warns(ImageWarning, match="several frames"):
        load_image(pages.getvalue())
    assert max(visited) == 1


def test_lack_of_memory_is_not_called_damage(monkeypatch, scribble):
    def fail(_):
        raise MemoryError

    monkeypatch.setattr(Image.Image, "load", fail)
    with pytest.raises(MemoryError):
        load_image(Image.fromarray(scribble))


@pytest.fixture
def large_jpeg(scribble) -> bytes:
    """Twelve megapixels, lying on its side as a phone stores it."""
    image = Image.fromarray(scribble).resize((4000, 3000)).convert("RGB")
    exif = Image.Exif()
    exif[ExifTags.Base.Orientation] = 6
    file = io.BytesIO()
    image.save(file, "JPEG", exif=exif)
    return file.getvalue()


@pytest.mark.parametrize("kind", ["bytes", "file", "path"])
def test_large_jpeg_is_reduced_and_can_be_reloaded(large_jpeg, tmp_path, kind):
    (tmp_path / "large.jpg").write_bytes(large_jpeg)
    sources = {
        "bytes": large_jpeg,
        "file": io.BytesIO(large_jpeg),
        "path": tmp_path / "large.jpg",
    }
    reduced, reload = load_reduced(sources[kind])
    assert reduced.shape == (2000, 1500, 3)
    full = reload()
    assert full.shape == (4000, 3000, 3)
    assert (full == load_image(large_jpeg)).all()
    halved = np.asarray(Image.fromarray(full).resize((1500, 2000), Image.Resampling.BOX), float)
    assert np.abs(halved - reduced).mean() < 2


def test_other_images_are_not_reduced(scribble, tmp_path):
    large = Image.fromarray(scribble).resize((4000, 3000))
    large.save(tmp_path / "large.png")
    for source in (tmp_path / "large.png", scribble, large):
        image, reload = load_reduced(source)
        assert reload is None
        assert image.shape[:2] in ((3000, 4000), scribble.shape[:2])
