"""Separating ink from paper under uneven light, shadows and colored paper."""

from __future__ import annotations

from dataclasses import dataclass

import cv2
import numpy as np
from numpy.typing import NDArray

BACKGROUND_SIDE = 120  # the light is estimated on an image of this many pixels, squared
BACKGROUND_WINDOW = 41  # a third of it: wider than any stroke, narrower than most shadows
MIN_PAPER_BRIGHTNESS = 80  # of 255; on darker paper, differences are noise
MIN_INK_CONTRAST = 0.12  # share of the paper's brightness that the faintest ink absorbs


@dataclass(frozen=True)
class Contrast:
    """How much darker than the surrounding paper each pixel is."""

    map: NDArray[np.float32]  # (height, width): 0 for paper, `level` for ink
    level: float  # contrast of ink; 0 if the image has none
    light_ink: bool  # whether ink is lighter than paper


def measure_contrast(image: NDArray[np.uint8], light_ink: bool | None = None) -> Contrast:
    """Compare every pixel with the paper around it, so that light and shadows cancel out.

    Args:
        image: uint8 (height, width) or (height, width, 3) RGB.
        light_ink: Whether ink is lighter than paper; None to detect it.
    """
    small = _shrink(image, BACKGROUND_SIDE**2)
    surroundings = _find_surroundings(small)
    paper = _background(small, surroundings)
    if light_ink is None:
        light_ink = _is_ink_light(image, paper, surroundings)
    if light_ink:
        image, paper = 255 - image, 255 - paper
    paper = _grow(np.maximum(paper, MIN_PAPER_BRIGHTNESS), image)
    absorption: np.ndarray = 1 - image.astype(np.float32) / paper.astype(np.float32)
    if surroundings.any():
        absorption[_grow(surroundings, image) > 0] = 0
    if absorption.ndim == 3:
        absorption = _project_on_ink_color(absorption)
    noise = 1.48 * float(np.median(np.abs(_subsample(absorption, 500))))
    if noise > 0.01:
        absorption = np.asarray(cv2.GaussianBlur(absorption, (0, 0), 1.0))
        noise *= 0.4
    return Contrast(absorption, _ink_level(absorption, max(4 * noise, 0.06)), light_ink)


def _shrink(image: np.ndarray, pixels: int) -> np.ndarray:
    factor = min(1.0, (pixels / (image.shape[0] * image.shape[1])) ** 0.5)
    size = (max(1, round(image.shape[1] * factor)), max(1, round(image.shape[0] * factor)))
    return cv2.resize(image, size, interpolation=cv2.INTER_AREA)


def _grow(small: np.ndarray, image: np.ndarray) -> np.ndarray:
    size = (image.shape[1], image.shape[0])
    return cv2.resize(small, size, interpolation=cv2.INTER_LINEAR)


def _subsample(values: np.ndarray, side: int) -> np.ndarray:
    """Return about `side` rows and columns of the values."""
    return values[:: 1 + values.shape[0] // side, :: 1 + values.shape[1] // side]


def _find_surroundings(small: np.ndarray) -> np.ndarray:
    """Return a mask, uint8 (height, width), of what lies around the paper, such as a dark desk."""
    gray = small if small.ndim == 2 else small.max(axis=2)
    dark = (gray < 0.4 * np.quantile(gray, 0.75)).astype(np.uint8)
    masses = cv2.morphologyEx(dark, cv2.MORPH_OPEN, np.ones((5, 5), np.uint8))
    count, labels = cv2.connectedComponents(masses, connectivity=8)
    at_edge = np.zeros(count, np.uint8)
    for edge in (labels[0], labels[-1], labels[:, 0], labels[:, -1]):
        at_edge[edge] = 1
    at_edge[0] = 0
    return cv2.dilate(at_edge[labels], np.ones((7, 7), np.uint8))


def _background(small: np.ndarray, surroundings: np.ndarray) -> np.ndarray:
    """Estimate the paper under the ink: a median in a window that ink does not fill."""
    if surroundings.any() and not surroundings.all():
        small = small.copy()
        small[surroundings > 0] = np.median(small[surroundings == 0], axis=0)
    half = BACKGROUND_WINDOW // 2
    # Mirrored edges: with repeated ones, a dark border would outweigh the paper.
    padded = cv2.copyMakeBorder(small, half, half, half, half, cv2.BORDER_REFLECT)
    return cv2.medianBlur(padded, BACKGROUND_WINDOW)[half:-half, half:-half]


def _is_ink_light(image: np.ndarray, paper: np.ndarray, surroundings: np.ndarray) -> bool:
    """Whether the pixels that differ most from the paper are lighter than it."""
    small = _shrink(image, 150_000)
    difference = small.astype(np.float32) - _grow(paper, small).astype(np.float32)
    difference[np.abs(difference) < 255 * MIN_INK_CONTRAST / 2] = 0
    difference[_grow(surroundings, small) > 0] = 0
    return float(np.vdot(difference * difference, difference)) > 0  # the cube, fast


def _project_on_ink_color(absorption: np.ndarray) -> np.ndarray:
    """Combine the three channels, float32 (height, width, 3), weighted by the color of the ink."""
    sample = _subsample(absorption, 500).reshape(-1, 3)
    strength = sample.max(axis=1)
    darkest = sample[strength >= np.quantile(strength, 0.99)]
    color = np.maximum(darkest.mean(axis=0), 0)
    if color.sum() < 1e-3:
        color = np.ones(3)
    return cv2.transform(absorption, (color / color.sum()).astype(np.float32)[None])


def _ink_level(absorption: np.ndarray, floor: float) -> float:
    """Return the contrast of the darkest strokes; 0 if no pixel exceeds the noise floor."""
    sample = _subsample(absorption, 1000)
    above_floor = sample[sample > floor]
    if len(above_floor) < 5:
        return 0.0
    level = float(np.quantile(above_floor, 0.97))
    return level if level >= MIN_INK_CONTRAST else 0.0
