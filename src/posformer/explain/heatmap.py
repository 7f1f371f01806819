"""An image dimmed, with what was looked at in colour."""

import cv2
import numpy as np

__all__ = ["INK", "PAPER", "colour_bar", "heat_over"]

PAPER, INK = (255, 255, 255), (33, 33, 44)

_DIMMED = 172.0  # grey of ink that is not looked at
# From paper to much: told apart in grey and with every kind of colour vision.
_RAMP = np.array(
    [(255, 255, 255), (255, 240, 178), (254, 204, 92), (253, 141, 60), (227, 48, 38), (158, 0, 48)],
    np.float32,
)
# Few steps of heat and of ink: contours can be seen, and moving images stay small.
_STEPS, _SHADES = 14, 6


def heat_over(image: np.ndarray, heat: np.ndarray, size: tuple[int, int]) -> np.ndarray:
    """An image in pale ink, coloured and darker where it is hot.

    Args:
        image: uint8 (height, width), white ink on black, whole cells.
        heat: float (rows, columns) of the cells, from 0 to 1.
        size: width and height of the result.

    Returns:
        uint8 (height, width, 3), dark on light.
    """
    ink = _in_steps(_sharpened(cv2.resize(image, size, interpolation=cv2.INTER_CUBIC)), _SHADES)
    blurred = cv2.resize(heat.astype(np.float32), size, interpolation=cv2.INTER_CUBIC)
    warmth = _in_steps(np.clip(blurred, 0, 1), _STEPS)
    depth = np.sqrt(warmth)[..., None]
    pen = _DIMMED * (1 - depth) + np.array(INK, np.float32) * depth
    ground = _coloured(warmth)
    return np.rint(ground + (pen - ground) * ink[..., None]).astype(np.uint8)


def colour_bar(width: int, height: int) -> np.ndarray:
    """From no heat to the most, uint8 (height, width, 3)."""
    warmth = _in_steps(np.linspace(0, 1, width, dtype=np.float32), _STEPS)
    return np.repeat(np.rint(_coloured(warmth)).astype(np.uint8)[None], height, axis=0)


def _coloured(warmth: np.ndarray) -> np.ndarray:
    at = np.linspace(0, 1, len(_RAMP))
    channels = [np.interp(warmth, at, _RAMP[:, channel]) for channel in range(3)]
    return np.stack(channels, axis=-1).astype(np.float32)


def _sharpened(enlarged: np.ndarray) -> np.ndarray:
    """Ink from 0 to 1, with the edges that enlarging has blurred."""
    return np.clip(enlarged.astype(np.float32) / 255 * 2.4 - 0.7, 0, 1)


def _in_steps(values: np.ndarray, steps: int) -> np.ndarray:
    return np.rint(values * steps) / steps
