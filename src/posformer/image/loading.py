"""Decoding images of any common format to arrays.

Sizes are checked before pixels are decoded, so that a small file cannot exhaust the memory.
"""

import io
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from importlib import import_module
from os import PathLike
from pathlib import Path
from typing import Any, BinaryIO, Literal

import cv2
import numpy as np
from numpy.typing import NDArray
from PIL import ExifTags, Image, ImageOps, UnidentifiedImageError

from posformer.errors import ImageError

MAX_PIXELS = 64_000_000
MAX_SIDE = 32_000
PDF_DPI = 200
REDUCED_PIXELS = 2_500_000

# Formats with plain decoders; others start programs (EPS) or are not images.
_FORMATS = ("PNG", "JPEG", "BMP", "DIB", "TIFF", "GIF", "WEBP", "PPM")
# Pillow knows a format once its plugin is imported; it does not import these two by itself.
_PLUGINS = {b"II": "Tiff", b"MM": "Tiff", b"RI": "WebP"}
_SINGLE_IMAGE_FORMATS = ("MPO",)  # further frames are previews that phones add to a photo
_SIDEWAYS_ORIENTATIONS = {5, 6, 7, 8}

Reload = Callable[[], NDArray[np.uint8]]
ImageInput = str | PathLike[str] | bytes | BinaryIO | Image.Image | np.ndarray

Polarity = Literal["auto", "light", "dark"]
"""The ink of an image: `light` on a dark background, `dark` on a light one, or `auto` to decide by
the median of the border pixels."""


class ImageWarning(UserWarning):
    """Only a part of an image file is read."""


def load_image(source: ImageInput, page: int = 1) -> NDArray[np.uint8]:
    """Load an image: upright, opaque, 8 bits per channel.

    Transparent areas become white, or black if the drawing itself is light.

    Args:
        source: A path, the bytes of a file, an open binary file, a PIL image, or an array
            (height, width) or (height, width, 1 to 4 channels) of bool, integers or floats.
        page: Page of a PDF, from 1.

    Returns:
        uint8 (height, width) for grayscale images, (height, width, 3) RGB for others.

    Raises:
        ImageError: If the source is not an image, is damaged, or is too large.
    """
    return _load(source, page, None)[0]


def load_reduced(source: ImageInput) -> tuple[NDArray[np.uint8], Reload | None]:
    """Load an image; a large JPEG at a fraction of its size, which takes a fraction of the time.

    Args:
        source: See `load_image`.

    Returns:
        What `load_image` returns, at a half, a quarter or an eighth of the size if at least
        2.5 million pixels remain; and a function that loads it at full size, or None if it is.
    """
    image, is_reduced, again = _load(source, 1, REDUCED_PIXELS)
    return image, partial(load_image, again) if is_reduced else None


def _load(
    source: ImageInput, page: int, enough_pixels: int | None
) -> tuple[NDArray[np.uint8], bool, ImageInput]:
    """Return an image, whether it is smaller than the original, and the source to load it again.

    Args:
        source: See `load_image`.
        page: Page of a PDF, from 1.
        enough_pixels: A JPEG with several times as many is reduced.
    """
    if isinstance(source, np.ndarray):
        return _from_array(source), False, source
    if isinstance(source, Image.Image):
        return _from_image(source, "image"), False, source
    content, name = _open(source)
    with content, _decoding(name, "cannot be read"):
        head = content.read(32)
        content.seek(0)
        if not head:
            raise ImageError(f"{name}: the file is empty")
        if head.startswith(b"%PDF-"):
            return _from_pdf(content.read(), page, name), False, source
        if _is_heif(head):
            return _from_heif(content, name), False, source
        image = _identify(content, name)
        _check_size(image.width, image.height, name)
        is_reduced = enough_pixels is not None and _reduce(image, enough_pixels)
        again = content.getvalue() if is_reduced and isinstance(content, io.BytesIO) else source
        return _from_image(image, name, own=True), is_reduced, again


def _reduce(image: Image.Image, enough_pixels: int) -> bool:
    """Let a JPEG be decoded at the smallest size that has enough pixels; return whether it is."""
    width, height = image.size
    for factor in (8, 4, 2):
        if image.format == "JPEG" and width * height >= enough_pixels * factor**2:
            image.draft(image.mode, (width // factor, height // factor))
            return image.width < width
    return False


def image_size(data: bytes) -> tuple[int, int]:
    """Return the height and width of an upright image without decoding its pixels.

    Args:
        data: The image file, or its first kilobytes.

    Raises:
        ImageError: If the bytes do not begin with a complete header of an image.
    """
    image = _identify(io.BytesIO(data), "image")
    with _decoding("image"):
        sideways = image.getexif().get(ExifTags.Base.Orientation) in _SIDEWAYS_ORIENTATIONS
    return (image.width, image.height) if sideways else (image.height, image.width)


def white_on_black(image: NDArray[np.uint8], polarity: Polarity = "auto") -> NDArray[np.uint8]:
    """Convert an image to grayscale with white ink on black.

    Args:
        image: uint8 (height, width) or (height, width, 3) RGB.
        polarity: The ink of the image.

    Returns:
        uint8 (height, width).
    """
    if image.ndim == 3:
        image = np.asarray(cv2.cvtColor(image, cv2.COLOR_RGB2GRAY), np.uint8)
    if polarity == "auto":
        border = np.concatenate([image[0], image[-1], image[:, 0], image[:, -1]])
        polarity = "dark" if np.median(border) > 127 else "light"
    return 255 - image if polarity == "dark" else np.array(image)


def _open(source: str | PathLike[str] | bytes | BinaryIO) -> tuple[BinaryIO, str]:
    """Return a seekable file and its name for error messages."""
    if isinstance(source, (bytes, bytearray, memoryview)):
        return io.BytesIO(source), "image"
    if isinstance(source, (str, PathLike)):
        path = Path(source)
        try:
            file = path.open("rb")
            return (file if file.seekable() else io.BytesIO(file.read())), str(path)
        except FileNotFoundError:
            raise ImageError(f"{path}: no such file") from None
        except (IsADirectoryError, PermissionError):
            reason = "a folder, not an image" if path.is_dir() else "no permission to read it"
            raise ImageError(f"{path}: {reason}") from None
        except (OSError, ValueError) as error:
            raise ImageError(f"{path}: cannot be opened ({_reason(error)})") from None
    if hasattr(source, "read"):
        content = source.read()
        if not isinstance(content, bytes):
            raise ImageError("image: the file is open in text mode; open it in binary mode")
        return io.BytesIO(content), str(getattr(source, "name", "image"))
    raise ImageError(f"image: cannot read an image from {type(source).__name__}")


def _identify(content: BinaryIO, name: str) -> Image.Image:
    with _decoding(name):
        if plugin := _PLUGINS.get(content.read(2)):
            import_module(f"PIL.{plugin}ImagePlugin")
        content.seek(0)
        try:
            return Image.open(content, formats=_FORMATS)
        except UnidentifiedImageError:
            raise ImageError(f"{name}: not an image in a known format") from None
        except (Image.DecompressionBombError, Image.DecompressionBombWarning) as error:
            raise ImageError(f"{name}: too large to read ({_reason(error)})") from None


@contextmanager
def _decoding(name: str, problem: str = "damaged") -> Iterator[None]:
    """Report anything that a decoder raises: on damaged data it may be any exception."""
    try:
        yield
    except (ImageError, MemoryError):
        raise
    except Exception as error:
        raise ImageError(f"{name}: {problem} ({_reason(error)})") from None


def _from_image(image: Image.Image, name: str, own: bool = False) -> np.ndarray:
    """Decode an image; only one of our `own` may be changed, which saves a copy."""
    _check_size(image.width, image.height, name)
    with _decoding(name, "damaged or cut off"):
        image.load()
        upright = ImageOps.exif_transpose(image, in_place=own)  # type: ignore[call-overload]
        array = _to_array(upright or image)
    if image.format not in _SINGLE_IMAGE_FORMATS and _has_second_frame(image):
        warnings.warn(f"{name}: has several frames; only the first is read", ImageWarning, 3)
    return array


def _has_second_frame(image: Image.Image) -> bool:
    """Whether there is more to read; counting all frames would take time for each."""
    try:
        image.seek(1)
    except EOFError:
        return False
    except Exception:  # the second frame is damaged, which does not matter
        return True
    return True


def _check_size(width: int, height: int, name: str) -> None:
    if width < 1 or height < 1:
        raise ImageError(f"{name}: has no pixels")
    if max(width, height) > MAX_SIDE:
        raise ImageError(f"{name}: {width} × {height} pixels; at most {MAX_SIDE} per side allowed")
    if width * height > MAX_PIXELS:
        limit = MAX_PIXELS // 1_000_000
        raise ImageError(f"{name}: {width} × {height} pixels; at most {limit} million allowed")


def _to_array(image: Image.Image) -> np.ndarray:
    if image.mode in ("I", "F") or image.mode.startswith("I;16"):
        return _to_eight_bits(np.asarray(image))
    if "transparency" in image.info or image.mode in ("LA", "La", "PA", "RGBA", "RGBa"):
        return _flatten_alpha(image.convert("RGBA"))
    mode = "L" if image.mode in ("1", "L") else "RGB"
    return np.asarray(image if image.mode == mode else image.convert(mode))


def _flatten_alpha(image: Image.Image) -> np.ndarray:
    """Composite RGBA over white, or over black if the drawing is light."""
    sample = np.asarray(image.resize((min(image.width, 512), min(image.height, 512)), 0), float)
    alpha = sample[..., 3]
    brightness = (sample[..., :3].mean(axis=-1) * alpha).sum() / max(alpha.sum(), 1.0)
    is_light = brightness > 160 and alpha.mean() < 127
    background = Image.new("RGBA", image.size, "black" if is_light else "white")
    return np.asarray(Image.alpha_composite(background, image).convert("RGB"))


def _to_eight_bits(values: np.ndarray) -> np.ndarray:
    """Scale numbers to 0..255 from the smallest usual range (8 bits, 16 bits) that holds them."""
    if values.dtype.kind == "f":
        values = np.nan_to_num(values.astype(np.float32), nan=0.0, posinf=0.0, neginf=0.0)
    values = values - min(values.min(), 0)
    highest = values.max()
    if highest <= 255:
        return values.astype(np.uint8)
    full = 65535.0 if highest <= 65535 else float(highest)
    return (values * np.float32(255.0 / full) + np.float32(0.5)).astype(np.uint8)


def _from_array(array: np.ndarray) -> np.ndarray:
    shape = " × ".join(map(str, array.shape))
    if array.ndim == 3 and array.shape[2] in (1, 2):
        gray = array[..., 0]
        array = gray if array.shape[2] == 1 else np.dstack([gray, gray, gray, array[..., 1]])
    if array.ndim not in (2, 3) or (array.ndim == 3 and array.shape[2] not in (3, 4)):
        raise ImageError(f"array: expected (height, width) or 1 to 4 channels, not {shape}")
    if array.dtype.kind not in "buif":
        raise ImageError(f"array: expected numbers, not {array.dtype}")
    _check_size(array.shape[1], array.shape[0], "array")
    if array.dtype.kind == "b" or (array.dtype.kind == "f" and array.max() <= 1):
        array = array * np.float32(255)
    if array.dtype != np.uint8:
        array = (array >> 8 if array.dtype == np.uint16 else _to_eight_bits(array)).astype(np.uint8)
    has_alpha = array.ndim == 3 and array.shape[2] == 4
    return _flatten_alpha(Image.fromarray(array)) if has_alpha else array


def _is_heif(head: bytes) -> bool:
    brands = (b"heic", b"heix", b"hevc", b"heim", b"heis", b"mif1", b"msf1")
    return head[4:8] == b"ftyp" and head[8:12] in brands


def _from_heif(content: BinaryIO, name: str) -> np.ndarray:
    pillow_heif = _import("pillow_heif", f"{name}: HEIC needs pillow-heif")
    with _decoding(name):
        file = pillow_heif.open_heif(content, convert_hdr_to_8bit=True)
        _check_size(file.size[0], file.size[1], name)
        image = file.to_pillow()
    return _from_image(image, name)


def _from_pdf(content: bytes, page: int, name: str) -> np.ndarray:
    pypdfium2 = _import("pypdfium2", f"{name}: PDF needs pypdfium2")
    with _decoding(name):
        document = pypdfium2.PdfDocument(content)
    with document:
        if not 1 <= page <= len(document):
            raise ImageError(f"{name}: has no page {page}; it has {len(document)}")
        return _render_page(document[page - 1])


def _import(module: str, need: str) -> Any:
    try:
        return import_module(module)
    except ImportError:
        raise ImageError(f"{need} (pip install 'posformer[formats]')") from None


def _render_page(page: Any) -> np.ndarray:
    """Render a page at 200 dpi, or less if the image would be too large."""
    width, height = page.get_size()  # in points, 1/72 inch
    limits = MAX_SIDE / 2 / max(width, height), (2e7 / (width * height)) ** 0.5
    scale = min(PDF_DPI / 72, *limits)
    return np.asarray(page.render(scale=scale).to_pil().convert("RGB"))


def _reason(error: BaseException) -> str:
    """Return the first line of an error message."""
    lines = str(error).strip().splitlines()
    return lines[0][:120] if lines else type(error).__name__
