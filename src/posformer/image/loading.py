"""Images of any kind, from anywhere, as arrays.

Sizes are checked before pixels are decoded, so that a small file cannot claim all memory.
"""

import io
import warnings
from os import PathLike
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from PIL import Image, ImageOps, UnidentifiedImageError

# Pillow knows a format once its plugin is imported; these two it does not import by itself.
from PIL import TiffImagePlugin as _tiff  # noqa: F401
from PIL import WebPImagePlugin as _webp  # noqa: F401

from posformer.errors import ImageError

__all__ = [
    "MAX_PIXELS",
    "MAX_SIDE",
    "ImageInput",
    "ImageWarning",
    "load_image",
]

MAX_PIXELS = 64_000_000
MAX_SIDE = 32_000
PDF_DOTS_PER_INCH = 200

# Formats whose readers are plain decoders; others start programs (EPS) or are no images.
_FORMATS = ("PNG", "JPEG", "BMP", "DIB", "TIFF", "GIF", "WEBP", "PPM")
_ONE_IMAGE_IN_MANY_FRAMES = ("MPO",)  # phones put a preview behind the photograph

ImageInput = str | PathLike[str] | bytes | BinaryIO | Image.Image | np.ndarray


class ImageWarning(UserWarning):
    """An image of which only a part is read."""


def load_image(source: ImageInput, page: int = 1) -> np.ndarray:
    """Read an image: upright, opaque, eight bits.

    Transparency is laid over white, or over black where what is drawn is itself light.

    Args:
        source: a path, the bytes of a file, an open binary file, a PIL image, or an array
            (height, width) or (height, width, 1 to 4) of bool, integers or floats.
        page: which page of a PDF, from 1.

    Returns:
        uint8 (height, width) for grey images, (height, width, 3) RGB for others.

    Raises:
        ImageError: if there is no image, it is damaged, or it is too large.
    """
    if isinstance(source, np.ndarray):
        return _from_array(source)
    if isinstance(source, Image.Image):
        return _from_image(source, "image")
    content, name = _open(source)
    with content:
        head = content.read(32)
        content.seek(0)
        if not head:
            raise ImageError(f"{name}: the file is empty")
        if head.startswith(b"%PDF-"):
            return _from_pdf(content.read(), page, name)
        if _is_heif(head):
            return _from_heif(content, name)
        return _from_image(_identify(content, name), name)


def _open(source: str | PathLike[str] | bytes | BinaryIO) -> tuple[BinaryIO, str]:
    """A seekable file and what to call it."""
    if isinstance(source, (bytes, bytearray, memoryview)):
        return io.BytesIO(source), "image"
    if isinstance(source, (str, PathLike)):
        path = Path(source)
        try:
            return path.open("rb"), str(path)
        except FileNotFoundError:
            raise ImageError(f"{path}: no such file") from None
        except IsADirectoryError:
            raise ImageError(f"{path}: a folder, not an image") from None
        except PermissionError:
            reason = "a folder, not an image" if path.is_dir() else "no permission to read it"
            raise ImageError(f"{path}: {reason}") from None
        except (OSError, ValueError) as error:
            raise ImageError(f"{path}: cannot be opened ({_reason(error)})") from None
    if hasattr(source, "read"):
        content = source.read()
        if not isinstance(content, bytes):
            raise ImageError("image: the file object gives text; open it in binary mode")
        return io.BytesIO(content), str(getattr(source, "name", "image"))
    raise ImageError(f"image: cannot read an image from {type(source).__name__}")


def _identify(content: BinaryIO, name: str) -> Image.Image:
    try:
        return Image.open(content, formats=_FORMATS)
    except UnidentifiedImageError:
        raise ImageError(f"{name}: not an image in a known format") from None
    except (Image.DecompressionBombError, Image.DecompressionBombWarning) as error:
        raise ImageError(f"{name}: too large to read ({_reason(error)})") from None
    except Exception as error:  # decoders raise anything at all on damaged headers
        raise ImageError(f"{name}: damaged ({_reason(error)})") from None


def _from_image(image: Image.Image, name: str) -> np.ndarray:
    _check_size(image.width, image.height, name)
    try:
        frames = getattr(image, "n_frames", 1)
        image.load()
        array = _to_array(ImageOps.exif_transpose(image))
    except Exception as error:  # decoders raise anything at all on damaged data
        raise ImageError(f"{name}: damaged or cut off ({_reason(error)})") from None
    if frames > 1 and image.format not in _ONE_IMAGE_IN_MANY_FRAMES:
        warnings.warn(f"{name}: has {frames} frames; the first is read", ImageWarning, 3)
    return array


def _check_size(width: int, height: int, name: str) -> None:
    if width < 1 or height < 1:
        raise ImageError(f"{name}: has no pixels")
    if max(width, height) > MAX_SIDE:
        raise ImageError(f"{name}: {width} × {height} pixels; a side has at most {MAX_SIDE}")
    if width * height > MAX_PIXELS:
        most = MAX_PIXELS // 1_000_000
        raise ImageError(f"{name}: {width} × {height} pixels; at most {most} million are read")


def _to_array(image: Image.Image) -> np.ndarray:
    if image.mode in ("I", "F") or image.mode.startswith("I;16"):
        return _to_eight_bits(np.asarray(image))
    if "transparency" in image.info or image.mode in ("LA", "La", "PA", "RGBA", "RGBa"):
        return _lay_over_paper(image.convert("RGBA"))
    if image.mode in ("1", "L"):
        return np.asarray(image.convert("L"))
    return np.asarray(image.convert("RGB"))


def _lay_over_paper(image: Image.Image) -> np.ndarray:
    """RGBA over a colour that what is drawn stands out from."""
    sample = np.asarray(image.resize((min(image.width, 512), min(image.height, 512)), 0), float)
    alpha = sample[..., 3]
    brightness = (sample[..., :3].mean(axis=-1) * alpha).sum() / max(alpha.sum(), 1.0)
    drawn_light = brightness > 160 and alpha.mean() < 127
    paper = Image.new("RGBA", image.size, "black" if drawn_light else "white")
    return np.asarray(Image.alpha_composite(paper, image).convert("RGB"))


def _to_eight_bits(values: np.ndarray) -> np.ndarray:
    """Bring numbers into a byte by the smallest usual range that holds them."""
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
        grey = array[..., 0]
        array = grey if array.shape[2] == 1 else np.dstack([grey, grey, grey, array[..., 1]])
    if array.ndim not in (2, 3) or (array.ndim == 3 and array.shape[2] not in (3, 4)):
        raise ImageError(f"array: an image has height, width and 1 to 4 channels, not {shape}")
    if array.dtype.kind not in "buif":
        raise ImageError(f"array: holds {array.dtype}, not numbers")
    _check_size(array.shape[1], array.shape[0], "array")
    if array.dtype.kind == "b" or (array.dtype.kind == "f" and array.max() <= 1):
        array = array * np.float32(255)
    if array.dtype != np.uint8:
        array = (array >> 8 if array.dtype == np.uint16 else _to_eight_bits(array)).astype(np.uint8)
    has_alpha = array.ndim == 3 and array.shape[2] == 4
    return _lay_over_paper(Image.fromarray(array)) if has_alpha else array


def _is_heif(head: bytes) -> bool:
    brands = (b"heic", b"heix", b"hevc", b"heim", b"heis", b"mif1", b"msf1")
    return head[4:8] == b"ftyp" and head[8:12] in brands


def _from_heif(content: BinaryIO, name: str) -> np.ndarray:
    try:
        import pillow_heif
    except ImportError:
        raise ImageError(
            f"{name}: HEIC needs pillow-heif (pip install 'posformer[formats]')"
        ) from None
    try:
        file = pillow_heif.open_heif(content, convert_hdr_to_8bit=True)
        width, height = file.size
        _check_size(width, height, name)
        image = file.to_pillow()
    except ImageError:
        raise
    except Exception as error:  # the library raises anything at all on damaged data
        raise ImageError(f"{name}: damaged ({_reason(error)})") from None
    return _from_image(image, name)


def _from_pdf(content: bytes, page: int, name: str) -> np.ndarray:
    try:
        import pypdfium2
    except ImportError:
        raise ImageError(
            f"{name}: PDF needs pypdfium2 (pip install 'posformer[formats]')"
        ) from None
    try:
        document = pypdfium2.PdfDocument(content)
    except pypdfium2.PdfiumError as error:
        raise ImageError(f"{name}: damaged ({_reason(error)})") from None
    with document:
        if not 1 <= page <= len(document):
            raise ImageError(f"{name}: has no page {page}; it has {len(document)}")
        return _render_page(document[page - 1])


def _render_page(page: Any) -> np.ndarray:
    """A page in print resolution, or in less where that would be too large."""
    width, height = page.get_size()  # in points, 72 to an inch
    scale = PDF_DOTS_PER_INCH / 72
    scale = min(scale, MAX_SIDE / 2 / max(width, height), (2e7 / (width * height)) ** 0.5)
    return np.asarray(page.render(scale=scale).to_pil().convert("RGB"))


def _reason(error: BaseException) -> str:
    """The first line of what a library says."""
    lines = str(error).strip().splitlines()
    return lines[0][:120] if lines else type(error).__name__
