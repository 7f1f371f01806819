"""Images from the clipboard, and text to it, on Linux (X11 and Wayland), macOS and Windows."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import time
from collections.abc import Iterator

from PIL import Image, ImageGrab

from posformer.errors import ClipboardError

POLL_SECONDS = 0.7

_PACKAGES = {"xclip": "xclip", "wl-copy": "wl-clipboard"}


def read_image() -> Image.Image | str | None:
    """Return the image on the clipboard.

    Returns:
        The image, the path of a file that was copied in a file manager, or None if there is
        neither.

    Raises:
        ClipboardError: If there is no display, or the program that reads the clipboard is missing.
    """
    _writer()  # the programs that read and write come together
    try:
        found = ImageGrab.grabclipboard()
    except NotImplementedError as error:
        raise ClipboardError(f"cannot read the clipboard: {error}") from None
    except (OSError, ValueError, subprocess.SubprocessError):
        return None  # something that only claims to be an image
    return (found[0] if found else None) if isinstance(found, list) else found


def write_text(text: str) -> None:
    """Put text on the clipboard.

    Raises:
        ClipboardError: If there is no display, or the program that writes to the clipboard is
            missing or fails.
    """
    command = _writer()
    # Only with a byte order mark does clip.exe read Unicode.
    content = text.encode("utf-16" if sys.platform == "win32" else "utf-8")
    try:
        # xclip stays in the background with the streams it inherits.
        subprocess.run(
            command,
            input=content,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            check=True,
            timeout=10,
        )
    except FileNotFoundError:
        package = _PACKAGES.get(command[0])
        advice = f"; install the package {package}" if package else ""
        raise ClipboardError(f"{command[0]} was not found{advice}") from None
    except subprocess.SubprocessError as error:
        raise ClipboardError(f"cannot write to the clipboard: {error}") from None


def _writer() -> list[str]:
    """Return the command that copies its input to the clipboard."""
    if sys.platform == "darwin":
        return ["pbcopy"]
    if sys.platform == "win32":
        return ["clip.exe"]
    if os.environ.get("WAYLAND_DISPLAY"):
        return ["wl-copy"]
    if os.environ.get("DISPLAY"):
        return ["xclip", "-selection", "clipboard", "-in"]
    raise ClipboardError("there is no clipboard: neither WAYLAND_DISPLAY nor DISPLAY is set")


def next_images(after: Image.Image | str | None) -> Iterator[Image.Image | str]:
    """Yield every image that is copied from now on, endlessly.

    Args:
        after: What `read_image` returned last: it is not yielded unless it is copied again.

    Raises:
        ClipboardError: See `read_image`.
    """
    seen = _digest(after)
    while True:
        time.sleep(POLL_SECONDS)
        image = read_image()
        digest = _digest(image)
        if image is not None and digest != seen:
            yield image
        seen = digest


def _digest(image: Image.Image | str | None) -> str:
    """Return what tells images apart."""
    if image is None or isinstance(image, str):
        return image or ""
    return hashlib.sha256(image.tobytes() + repr(image.size).encode()).hexdigest()
