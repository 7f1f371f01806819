"""Makes photographs of clean images, each with its own trouble, from fixed seeds."""

from __future__ import annotations

from dataclasses import dataclass, replace

import cv2
import numpy as np

PEN = 3.0  # pixels, of the clean images


@dataclass(frozen=True)
class Scene:
    """A sheet of paper with a formula on it, and how it was photographed."""

    paper: tuple[int, int, int] = (255, 255, 255)
    ink: tuple[int, int, int] = (15, 15, 20)
    scale: float = 2.0  # pixels of the photograph for one of the clean image
    megapixels: float | None = None  # size of the photograph, instead of scale
    pen: float = 1.0  # pen width, as a factor
    lines: str | None = None  # "ruled" or "squared"
    line_colour: tuple[int, int, int] = (150, 180, 225)
    rotation: float = 0.0  # degrees
    shadow: float = 0.0  # share of the light that is lost in the dark corner
    noise: float = 0.0  # standard deviation of the sensor's noise
    jpeg: int | None = None  # quality
    inverse: bool = False
    table: bool = False  # a dark table shows around the paper
    alpha: bool = False  # transparent paper


SCENES = {
    "plain": Scene(),
    "paper": Scene(paper=(236, 222, 190)),
    "inverse": Scene(inverse=True),
    "blackboard": Scene(paper=(38, 62, 48), ink=(225, 228, 220), noise=4),
    "shadow": Scene(paper=(240, 238, 232), shadow=0.6),
    "ruled": Scene(lines="ruled"),
    "dark ruled": Scene(lines="ruled", line_colour=(60, 60, 70)),
    "squared": Scene(lines="squared"),
    "dark squared": Scene(lines="squared", line_colour=(60, 60, 70), rotation=1.0),
    "ruled and small": Scene(lines="ruled", line_colour=(110, 130, 190), scale=1.0, jpeg=60),
    "thick and ruled": Scene(lines="ruled", line_colour=(60, 60, 70), pen=2.0, rotation=-1.0),
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
    """A photograph of a clean image, and where its ink is.

    Args:
        image: uint8 (height, width), white ink on black.
        scene: what is done to it.
        seed: of everything random.

    Returns:
        uint8 (rows, columns, 3), or 4 with transparency, and bool (rows, columns).
    """
    rng = np.random.default_rng(seed)
    page = np.pad(image, [(_margin(rng, image), _margin(rng, image)) for _ in range(2)])
    if scene.megapixels is not None:
        scale = (scene.megapixels * 1e6 / page.size) ** 0.5
        scene = replace(scene, scale=scale, noise=scene.noise)
    ink = _rotate(_redraw(page, scene), scene.rotation)
    lines = _draw_lines(ink.shape, scene, rng)
    colour = np.empty((*ink.shape, 3), np.float32)
    colour[:] = scene.paper
    colour += lines[..., None] * (np.array(scene.line_colour, np.float32) - colour)
    colour += ink[..., None] * (np.array(scene.ink, np.float32) - colour)
    if scene.table:
        rim = max(2, min(ink.shape) // 15)
        colour[:rim] = colour[-2 * rim :] = colour[:, :rim] = (70, 50, 35)
    if scene.inverse:
        colour = 255 - colour
    colour *= _light(ink.shape, scene, rng)[..., None]
    if scene.noise:
        noise = rng.standard_normal((512, 512, 3), dtype=np.float32) * scene.noise
        tiles = [-(-side // 512) for side in ink.shape]
        colour += np.tile(noise, (*tiles, 1))[: ink.shape[0], : ink.shape[1]]
    photo = np.clip(colour, 0, 255).astype(np.uint8)
    if scene.jpeg:
        content = cv2.imencode(".jpg", photo[..., ::-1], [cv2.IMWRITE_JPEG_QUALITY, scene.jpeg])[1]
        photo = cv2.imdecode(content, cv2.IMREAD_COLOR)[..., ::-1]
    if scene.alpha:
        photo = np.dstack([photo, (ink * 255).astype(np.uint8)])
    return np.ascontiguousarray(photo), ink > 0.5


def _margin(rng: np.random.Generator, image: np.ndarray) -> int:
    return int(rng.uniform(0.2, 0.6) * min(image.shape))


def _redraw(page: np.ndarray, scene: Scene) -> np.ndarray:
    """The page's ink at another size and with another pen, float (rows, columns) in 0…1."""
    fine = max(scene.scale, 3.0)  # steps of a pen are too coarse in few pixels
    size = (round(page.shape[1] * fine), round(page.shape[0] * fine))
    ink = cv2.resize((page > 127).astype(np.float32), size, interpolation=cv2.INTER_LINEAR)
    ink = cv2.GaussianBlur(ink, (0, 0), 0.5 * fine)
    mask = (ink > 0.5).astype(np.uint8)
    reach = round(abs(scene.pen - 1) * PEN / 2 * fine)
    if reach:
        pen = cv2.getStructuringElement(cv2.MORPH_ELLIPSE, (2 * reach + 1, 2 * reach + 1))
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
    """The lines of the paper, float (rows, columns) in 0…1; they run beyond the image."""
    canvas = np.zeros(shape, np.float32)
    if scene.lines is None:
        return canvas
    rows, columns = shape
    spacing = (50 if scene.lines == "ruled" else 25) * scene.scale
    width = max(1, round(0.7 * scene.scale))
    slope = np.tan(np.radians(scene.rotation))
    start = rng.uniform(0, spacing)
    reach = rows + columns
    for place in np.arange(start - reach, reach, spacing):
        ends = [((0, place), (columns, place - columns * slope))]
        if scene.lines == "squared":
            ends.append(((place, 0), (place + rows * slope, rows)))
        for one, other in ends:
            one, other = tuple(map(round, one)), tuple(map(round, other))
            cv2.line(canvas, one, other, 1.0, width, cv2.LINE_AA)
    return canvas


def _light(shape: tuple[int, ...], scene: Scene, rng: np.random.Generator) -> np.ndarray:
    """How much light falls where: a gradient to a dark corner, and the soft edge of a hand."""
    rows, columns = shape
    down, right = np.mgrid[0:1:16j, 0:1:16j].astype(np.float32)
    if rng.random() < 0.5:
        right = 1 - right
    gradient = 1 - 0.6 * scene.shadow * (down + right) / 2
    hand = 1 / (1 + np.exp(-(right - rng.uniform(0.4, 0.7)) * 30))
    light = gradient * (1 - 0.4 * scene.shadow * hand)
    return cv2.resize(light.astype(np.float32), (columns, rows), interpolation=cv2.INTER_CUBIC)


def agreement(cleaned: np.ndarray, truth: np.ndarray, clean: np.ndarray, reach: int = 2) -> float:
    """How well ink was found: F1 of pixels, `reach` pixels aside counting as found.

    Args:
        cleaned: uint8 (height, width), what clean-up made.
        truth: bool, where the ink of the photograph is.
        clean: uint8, the image that was photographed, for the size to compare at.
        reach: pixels of the clean image.
    """
    _, _, width, height = cv2.boundingRect((clean > 127).astype(np.uint8))
    found = _fit(cleaned > 127, (width, height))
    true = _fit(truth, (width, height))
    near = cv2.getStructuringElement(cv2.MORPH_ELLIPSE, (2 * reach + 1, 2 * reach + 1))
    precision = (found & (cv2.dilate(true.astype(np.uint8), near) > 0)).sum() / max(found.sum(), 1)
    recall = (true & (cv2.dilate(found.astype(np.uint8), near) > 0)).sum() / max(true.sum(), 1)
    return float(2 * precision * recall / max(precision + recall, 1e-9))


def _fit(mask: np.ndarray, size: tuple[int, int]) -> np.ndarray:
    left, top, width, height = cv2.boundingRect(mask.astype(np.uint8))
    crop = mask[top : top + height, left : left + width].astype(np.float32)
    if crop.size == 0:
        return np.zeros(size[::-1], bool)
    shrinks = crop.size > size[0] * size[1]
    how = cv2.INTER_AREA if shrinks else cv2.INTER_LINEAR
    return cv2.resize(crop, size, interpolation=how) > 0.35
