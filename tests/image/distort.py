"""Simulated photos of clean images, with fixed seeds."""

from __future__ import annotations

from dataclasses import dataclass, replace

import cv2
import numpy as np

PEN = 3.0  # pixels, of the clean images


@dataclass(frozen=True)
class Scene:
    """Paper, pen and camera of a simulated photo."""

    paper: tuple[int, int, int] = (255, 255, 255)
    ink: tuple[int, int, int] = (15, 15, 20)
    scale: float = 2.0  # pixels of the photo per pixel of the clean image
    megapixels: float | None = None  # size of the photo, instead of scale
    pen: float = 1.0  # pen width, as a factor
    lines: str | None = None  # "ruled" or "squared"
    line_color: tuple[int, int, int] = (150, 180, 225)
    rotation: float = 0.0  # degrees
    shadow: float = 0.0  # share of light lost in the darkest corner
    noise: float = 0.0  # standard deviation of the sensor's noise
    jpeg: int | None = None  # quality
    inverse: bool = False
    table: bool = False  # whether a dark table is visible around the paper
    alpha: bool = False  # transparent paper


SCENES = {
    "plain": Scene(),
    "paper": Scene(paper=(236, 222, 190)),
    "inverse": Scene(inverse=True),
    "blackboard": Scene(paper=(38, 62, 48), ink=(225, 228, 220), noise=4),
    "shadow": Scene(paper=(240, 238, 232), shadow=0.6),
    "ruled": Scene(lines="ruled"),
    "dark ruled": Scene(lines="ruled", line_color=(60, 60, 70)),
    "squared": Scene(lines="squared"),
    "dark squared": Scene(lines="squared", line_color=(60, 60, 70), rotation=1.0),
    "ruled and small": Scene(lines="ruled", line_color=(110, 130, 190), scale=1.0, jpeg=60),
    "thick and ruled": Scene(lines="ruled", line_color=(60, 60, 70), pen=2.0, rotation=-1.0),
    "thin and squared": Scene(lines="squared", pen=0.5, scale=3.0),
    "on a table": Scene(table=True, paper=(238, 236, 230), noise=3),
    "turned ruled": Scene(lines="ruled", rotation=2.0),
    "turned squared": Scene(lines="squared", rotation=-1.5),
    "jpeg": Scene(jpeg=30),
    "small jpeg": Scene(scale=1.0, jpeg=30),
    "noise": Scene(paper=(225, 220, 210), noise=10),
    "phone": Scene(paper=(235, 230, 220), megapixels=12, noise=5, jpeg=85),
    "thin": Scene(pen=0.4, scale=3.0),
    "thick": Scene(pen=1.8),
    "turned": Scene(rotation=3.0),
    "alpha": Scene(alpha=True),
    "blue": Scene(ink=(30, 60, 190)),
    "red": Scene(ink=(205, 30, 40), paper=(250, 248, 240)),
    "pencil": Scene(ink=(120, 120, 125), paper=(235, 233, 228), pen=0.7, noise=4),
    "half size": Scene(scale=0.6),
    "five times": Scene(scale=5.0),
}
SCENES["all together"] = Scene(
    paper=(232, 224, 205),
    ink=(30, 45, 130),
    megapixels=12,
    pen=1.3,
    lines="squared",
    rotation=1.5,
    shadow=0.45,
    noise=5,
    jpeg=30,
)


def photograph(image: np.ndarray, scene: Scene, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Simulate a photo of a clean image.

    Args:
        image: uint8 (height, width), white ink on black.
        scene: Paper, pen and camera.
        seed: Random seed.

    Returns:
        The photo, uint8 (rows, columns, 3) or 4 channels with transparency, and the mask of its
        ink, bool (rows, columns).
    """
    rng = np.random.default_rng(seed)
    page = np.pad(image, [(_margin(rng, image), _margin(rng, image)) for _ in range(2)])
    if scene.megapixels is not None:
        scale = (scene.megapixels * 1e6 / page.size) ** 0.5
        scene = replace(scene, scale=scale, noise=scene.noise)
    ink = _rotate(_redraw(page, scene), scene.rotation)
    lines = _draw_lines(ink.shape, scene, rng)
    color = np.empty((*ink.shape, 3), np.float32)
    color[:] = scene.paper
    color += lines[..., None] * (np.array(scene.line_color, np.float32) - color)
    color += ink[..., None] * (np.array(scene.ink, np.float32) - color)
    if scene.table:
        rim = max(2, min(ink.shape) // 15)
        color[:rim] = color[-2 * rim :] = color[:, :rim] = (70, 50, 35)
    if scene.inverse:
        color = 255 - color
    color *= _light(ink.shape, scene, rng)[..., None]
    if scene.noise:
        noise = rng.standard_normal((512, 512, 3), dtype=np.float32) * scene.noise
        tiles = [-(-side // 512) for side in ink.shape]
        color += np.tile(noise, (*tiles, 1))[: ink.shape[0], : ink.shape[1]]
    photo = np.clip(color, 0, 255).astype(np.uint8)
    if scene.jpeg:
        content = cv2.imencode(".jpg", photo[..., ::-1], [cv2.IMWRITE_JPEG_QUALITY, scene.jpeg])[1]
        photo = cv2.imdecode(content, cv2.IMREAD_COLOR)[..., ::-1]
    if scene.alpha:
        photo = np.dstack([photo, (ink * 255).astype(np.uint8)])
    return np.ascontiguousarray(photo), ink > 0.5


def _margin(rng: np.random.Generator, image: np.ndarray) -> int:
    return int(rng.uniform(0.2, 0.6) * min(image.shape))


def _redraw(page: np.ndarray, scene: Scene) -> np.ndarray:
    """Resize ink and change its pen; float (rows, columns) in 0…1."""
    fine = max(scene.scale, 3.0)  # pen widths are too coarse at low resolution
    size = (round(page.shape[1] * fine), round(page.shape[0] * fine))
    ink = cv2.resize((page > 127).astype(np.float32), size, interpolation=cv2.INTER_LINEAR)
    ink = cv2.GaussianBlur(ink, (0, 0), 0.5 * fine)
    mask = (ink > 0.5).astype(np.uint8)
    radius = round(abs(scene.pen - 1) * PEN / 2 * fine)
    if radius:
        pen = cv2.getStructuringElement(cv2.MORPH_ELLIPSE, (2 * radius + 1, 2 * radius + 1))
        mask = cv2.dilate(mask, pen) if scene.pen > 1 else cv2.erode(mask, pen)
    size = (round(page.shape[1] * scene.scale), round(page.shape[0] * scene.scale))
    mask = cv2.GaussianBlur(mask.astype(np.float32), (0, 0), 0.6)
    return cv2.resize(mask, size, interpolation=cv2.INTER_AREA)


def _rotate(ink: np.ndarray, degrees: float) -> np.ndarray:
    if not degrees:
        return ink
    rows, columns = ink.shape
    turn = cv2.getRotationMatrix2D((columns / 2, rows / 2), degrees, 1.0)
    return cv2.warpAffine(ink, turn, (columns, rows), flags=cv2.INTER_LINEAR)


def _draw_lines(shape: tuple[int, ...], scene: Scene, rng: np.random.Generator) -> np.ndarray:
    """Draw the ruling of the paper, float (rows, columns) in 0…1, beyond the image borders."""
    canvas = np.zeros(shape, np.float32)
    if scene.lines is None:
        return canvas
    rows, columns = shape
    spacing = (50 if scene.lines == "ruled" else 25) * scene.scale
    width = max(1, round(0.7 * scene.scale))
    slope = np.tan(np.radians(scene.rotation))
    start = rng.uniform(0, spacing)
    extent = rows + columns
    for offset in np.arange(start - extent, extent, spacing):
        ends = [((0, offset), (columns, offset - columns * slope))]
        if scene.lines == "squared":
            ends.append(((offset, 0), (offset + rows * slope, rows)))
        for one, other in ends:
            one, other = tuple(map(round, one)), tuple(map(round, other))
            cv2.line(canvas, one, other, 1.0, width, cv2.LINE_AA)
    return canvas


def _light(shape: tuple[int, ...], scene: Scene, rng: np.random.Generator) -> np.ndarray:
    """Brightness map: a gradient to a dark corner and the soft shadow of a hand."""
    rows, columns = shape
    down, right = np.mgrid[0:1:16j, 0:1:16j].astype(np.float32)
    if rng.random() < 0.5:
        right = 1 - right
    gradient = 1 - 0.6 * scene.shadow * (down + right) / 2
    hand = 1 / (1 + np.exp(-(right - rng.uniform(0.4, 0.7)) * 30))
    light = gradient * (1 - 0.4 * scene.shadow * hand)
    return cv2.resize(light.astype(np.float32), (columns, rows), interpolation=cv2.INTER_CUBIC)


def agreement(
    cleaned: np.ndarray, truth: np.ndarray, clean: np.ndarray, tolerance: int = 2
) -> float:
    """F1 score of ink pixels; a distance of up to `tolerance` pixels counts as a match.

    Args:
        cleaned: uint8 (height, width), result of clean-up.
        truth: bool (rows, columns), ink of the photo.
        clean: uint8 (height, width), the original image, which defines the size to compare at.
        tolerance: In pixels of the clean image.
    """
    _, _, width, height = cv2.boundingRect((clean > 127).astype(np.uint8))
    found = _fit(cleaned > 127, (width, height))
    true = _fit(truth, (width, height))
    near = cv2.getStructuringElement(cv2.MORPH_ELLIPSE, (2 * tolerance + 1, 2 * tolerance + 1))
    precision = (found & (cv2.dilate(true.astype(np.uint8), near) > 0)).sum() / max(found.sum(), 1)
    recall = (true & (cv2.dilate(found.astype(np.uint8), near) > 0)).sum() / max(true.sum(), 1)
    return float(2 * precision * recall / max(precision + recall, 1e-9))


def _fit(mask: np.ndarray, size: tuple[int, int]) -> np.ndarray:
    left, top, width, height = cv2.boundingRect(mask.astype(np.uint8))
    crop = mask[top : top + height, left : left + width].astype(np.float32)
    if crop.size == 0:
        return np.zeros(size[::-1], bool)
    shrinks = crop.size > size[0] * size[1]
    method = cv2.INTER_AREA if shrinks else cv2.INTER_LINEAR
    return cv2.resize(crop, size, interpolation=method) > 0.35
