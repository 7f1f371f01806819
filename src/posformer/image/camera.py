"""Camera simulation: from rendered ink or print to what a phone, scanner or tablet delivers.

The stages follow the light: pen, sheet geometry, paper and printed lines, light, lens, sensor,
file. All random choices are made in `sample_style`; `photograph` applies them. Lengths are in
pixels of the working size, where symbols are about 30 pixels tall.
"""

from __future__ import annotations

from collections.abc import Mapping

import cv2
import numpy as np

from posformer.image.camera_style import KINDS, CameraStyle, Kind, sample_style
from posformer.image.paper_texture import draw_ruling, moire, smooth_field, tile

__all__ = [
    "KINDS",
    "Camera",
    "CameraStyle",
    "Kind",
    "photograph",
    "photograph_size",
    "sample_style",
]

PEN_SMOOTHING = 0.8  # pixels; rounds the steps of a rendered pen before its width is changed
USUAL_CORE = 0.8  # mean of a smoothed stroke of three pixels over its own pixels


class Camera:
    """Turns rendered ink into simulated photographs of mixed kinds.

    Args:
        kinds: Relative frequency of each kind; the default favours photographs.
        scale: Pixels of the output for one of the input; 0.5 where ink is rendered twice as large.
    """

    def __init__(self, kinds: Mapping[Kind, float] | None = None, scale: float = 1.0) -> None:
        kinds = kinds or {"photo": 5, "board": 1, "scan": 2, "screenshot": 1}
        if unknown := set(kinds) - set(KINDS):
            raise ValueError(f"unknown kind '{min(unknown)}'; known are {', '.join(KINDS)}")
        total = sum(kinds.values())
        self.kinds = tuple(kinds)
        self.weights = [weight / total for weight in kinds.values()]
        self.scale = scale

    def __call__(
        self, coverage: np.ndarray, boxes: np.ndarray, rng: np.random.Generator
    ) -> tuple[np.ndarray, np.ndarray]:
        """Simulate one image.

        Args:
            coverage: uint8 or float (height, width), 255 for ink, 0 for paper.
            boxes: float32 (tokens, 4), left, top, right, bottom in pixels; NaN where a token has
                no ink.
            rng: The only source of randomness.

        Returns:
            uint8 (new height, new width) grey image, and float32 (tokens, 4) boxes in it.
        """
        kind = self.kinds[int(rng.choice(len(self.kinds), p=self.weights))]
        style = sample_style(rng, kind)
        if self.scale != 1.0:
            size = [max(1, round(side * self.scale)) for side in coverage.shape[::-1]]
            ratio = np.array([size[0] / coverage.shape[1], size[1] / coverage.shape[0]] * 2)
            coverage = cv2.resize(coverage, size, interpolation=cv2.INTER_AREA)
            boxes = (boxes * ratio).astype(np.float32)
        return photograph(coverage, boxes, style)


def photograph(
    coverage: np.ndarray, boxes: np.ndarray, style: CameraStyle
) -> tuple[np.ndarray, np.ndarray]:
    """Apply a style; see `Camera.__call__` for arguments and results."""
    rng = np.random.default_rng(style.seed)
    ink = _change_pen(_as_share(coverage), style, rng)
    view = _View(coverage.shape, boxes, style)
    sheet = _sheet(view, ink, style, rng)
    lit = _light(sheet, style, rng)
    image = _sense(_focus(lit, style), style, rng)
    return image, view.boxes


def photograph_size(shape: tuple[int, int], style: CameraStyle) -> tuple[int, int]:
    """Return height and width of the image that `photograph` makes of an image of this shape."""
    return _View(shape, np.zeros((0, 4), np.float32), style).shape


def _as_share(coverage: np.ndarray) -> np.ndarray:
    """Share of each pixel that ink covers, float32 (height, width) from 0 to 1."""
    return np.multiply(coverage, np.float32(1 / 255), dtype=np.float32)


def _change_pen(ink: np.ndarray, style: CameraStyle, rng: np.random.Generator) -> np.ndarray:
    """Redraw strokes with another pen: width, edge, pressure and gaps.

    Strokes are blurred and cut at a level: a high level makes them thinner, a low one thicker. The
    level follows the blurred strokes' own brightness, so that thin input does not vanish.
    """
    reach = 2 + style.pen_layers
    ink = cv2.copyMakeBorder(ink, reach, reach, reach, reach, cv2.BORDER_CONSTANT, value=0)
    if style.pen_layers:
        side = 2 * style.pen_layers + 1
        ink = cv2.dilate(ink, cv2.getStructuringElement(cv2.MORPH_ELLIPSE, (side, side)))
    total = float(ink.sum())
    smooth: np.ndarray = np.asarray(cv2.GaussianBlur(ink, (0, 0), PEN_SMOOTHING))
    core = float(np.vdot(smooth, ink)) / max(total, 1.0)
    smooth = smooth * np.float32(USUAL_CORE / max(core, 0.05))
    if style.pressure:
        cells = (2 + ink.shape[0] // 24, 2 + ink.shape[1] // 24)
        press = smooth_field(rng, ink.shape, cells)
        smooth = smooth * (1 + press * np.float32(0.3 * style.pressure))
    edge = min(style.edge, 2 * style.pen)  # a softer one would tint the paper
    ink = np.clip((smooth - np.float32(style.pen)) * np.float32(1 / edge) + 0.5, 0, 1)
    if style.pressure:
        ink *= 1 - np.float32(0.3 * style.pressure) * (1 - press)
    if style.grain:
        rough = tile(rng, ink.shape, "fine") * 0.5 + 0.6
        ink *= 1 - np.float32(style.grain) * np.clip(rough, 0, 1)
    return ink[reach:-reach, reach:-reach]


class _View:
    """The geometry of an image: where every pixel comes from, and where boxes go.

    Attributes:
        shape: Height and width of the image.
        boxes: float32 (tokens, 4), boxes around what boxes of the source became.
    """

    def __init__(self, shape: tuple[int, ...], boxes: np.ndarray, style: CameraStyle) -> None:
        height, width = shape
        top, left, bottom, right = style.margins
        turned = np.radians(style.rotation)
        cosine, sine = np.cos(turned), np.sin(turned)
        self._middle = np.array([width, height]) / 2
        self._matrix = np.array([[cosine, sine + style.shear], [-sine, cosine]])
        self._reach = np.maximum(self._middle, 60.0)  # in a tiny image margins are most of it
        self._bends = np.array(style.perspective) / self._reach
        self._curl = style.curl
        self._offset = np.zeros(2)
        edges = np.array([[0, 0, width, height]], np.float64)
        outlines = self._forward(_outlines(np.concatenate([edges, boxes])))
        low, high = outlines.min(axis=1), outlines.max(axis=1)
        self._offset = np.array([left, top]) - low[0]
        across, down = np.ceil(high[0] - low[0]).astype(int).tolist()
        self.shape: tuple[int, int] = (down + top + bottom, across + left + right)
        moved = np.concatenate([low[1:] + self._offset, high[1:] + self._offset], axis=1)
        self.boxes = moved.astype(np.float32)

    def _backward(self, points: np.ndarray) -> np.ndarray:
        """Source of points of the image, float64 (…, 2)."""
        centered = points - (self._offset + self._middle)
        moved = centered @ self._matrix.T
        moved /= (1 + centered @ self._bends)[..., None]
        moved[..., 1] -= self._curl * (1 - (centered[..., 0] / self._reach[0]) ** 2)
        moved += self._middle
        return moved

    def _forward(self, points: np.ndarray) -> np.ndarray:
        """Where points of the source are in the image, by a few Newton steps."""
        inverse = np.linalg.inv(self._matrix).T
        found = (points - self._middle) @ inverse + (self._middle + self._offset)
        for _ in range(4):
            found -= (self._backward(found) - points) @ inverse
        return found

    def warp(self, ink: np.ndarray) -> np.ndarray:
        """The source as seen in the image, float32 `shape`."""
        height, width = self.shape
        # The map is smooth: a coarse grid of it, enlarged, is exact enough and cheap.
        rows, columns = (max(2, -(-side // 16) + 1) for side in self.shape)
        x = np.linspace(0, width - 1, columns) + 0.5
        y = np.linspace(0, height - 1, rows) + 0.5
        grid = self._backward(np.stack(np.meshgrid(x, y), axis=-1)) - 0.5
        maps = _enlarge(grid.astype(np.float32), self.shape)
        return np.asarray(
            cv2.remap(ink, maps[..., 0], maps[..., 1], cv2.INTER_LINEAR, borderValue=0)
        )


def _enlarge(grid: np.ndarray, shape: tuple[int, int]) -> np.ndarray:
    """Interpolate values given from the first to the last pixel centre, float32 (…, 2)."""
    rows, columns = grid.shape[:2]
    scale = ((columns - 1) / max(shape[1] - 1, 1), (rows - 1) / max(shape[0] - 1, 1))
    matrix = np.array([[scale[0], 0, 0], [0, scale[1], 0]], np.float64)
    flags = cv2.INTER_LINEAR | cv2.WARP_INVERSE_MAP
    border = cv2.BORDER_REPLICATE
    return np.asarray(
        cv2.warpAffine(grid, matrix, (shape[1], shape[0]), flags=flags, borderMode=border)
    )


def _outlines(boxes: np.ndarray) -> np.ndarray:
    """Corners and middles of the sides of boxes, float (boxes, 8, 2)."""
    left, top, right, bottom = boxes.T
    x, y = (left + right) / 2, (top + bottom) / 2
    horizontal = np.stack([left, x, right, right, right, x, left, left], axis=1)
    vertical = np.stack([top, top, top, y, bottom, bottom, bottom, y], axis=1)
    return np.stack([horizontal, vertical], axis=2)


def _sheet(
    view: _View, ink: np.ndarray, style: CameraStyle, rng: np.random.Generator
) -> np.ndarray:
    """The written sheet before light falls on it: reflectance, float32 (height, width)."""
    shape = view.shape
    drawn = view.warp(ink)
    _add_fragments(drawn, ink, style, rng)
    sheet = np.full(shape, style.paper, np.float32)
    if style.texture:
        sheet += tile(rng, shape, "fine") * np.float32(style.texture * style.paper * 0.7)
        sheet += tile(rng, shape, "medium") * np.float32(style.texture * style.paper * 0.7)
    if style.stains:
        sheet += tile(rng, shape, "coarse") * np.float32(style.stains)
    if style.show_through:
        back = cv2.GaussianBlur(cv2.flip(drawn, 1), (0, 0), 1.8)
        back = np.roll(back, (shape[0] // 3, shape[1] // 5), axis=(0, 1))
        sheet += back * np.float32(style.show_through * (1 if style.light_ink else -1))
    if style.ruling != "none":
        lines = draw_ruling(
            shape,
            style.ruling,
            rng=rng,
            period=style.ruling_period,
            thickness=style.ruling_thickness,
            tilt=-float(np.tan(np.radians(style.rotation))) * 0.5 + rng.normal(0, 0.008),
            bend=style.curl,
        )
        contrast = style.ruling_strength * abs(style.paper - _ink_reflectance(style))
        sheet += lines * np.float32(contrast * (1 if style.light_ink else -1))
    # Ink lies over the lines: where both are, the darker one counts.
    sheet += drawn * (np.float32(_ink_reflectance(style)) - sheet)
    if style.surroundings:
        _add_surroundings(sheet, style.surroundings, rng)
    return sheet


def _add_surroundings(sheet: np.ndarray, width: float, rng: np.random.Generator) -> None:
    """Let the table show at one edge, darker or lighter than the paper."""
    turned = np.rot90(sheet, int(rng.integers(4)))
    tilt = rng.uniform(-0.02, 0.02) * turned.shape[1]
    ends = np.linspace(width - tilt / 2, width + tilt / 2, turned.shape[1], dtype=np.float32)
    depth = int(max(ends.max(), 0)) + 2
    strip = turned[:depth]
    share = np.clip(ends - np.arange(len(strip), dtype=np.float32)[:, None], 0, 1)
    strip += share * (np.float32(rng.uniform(0.02, 0.5)) - strip)


def _ink_reflectance(style: CameraStyle) -> float:
    return style.ink if style.light_ink else style.ink * style.paper


def _add_fragments(
    drawn: np.ndarray, ink: np.ndarray, style: CameraStyle, rng: np.random.Generator
) -> None:
    """Let writing of the lines above and below reach into the image.

    Parts of the formula itself, mirrored, stand in for other writing.
    """
    height, width = drawn.shape
    other = ink[:, ::-1]
    for below, visible in enumerate(style.fragments):
        rows = min(round(visible), height, other.shape[0])
        if rows < 1:
            continue
        columns = min(width, other.shape[1])
        start = int(rng.integers(-columns // 2, max(width - columns // 2, 1)))
        first, last = max(start, 0), min(start + columns, width)
        inked = np.flatnonzero(other.any(axis=1))
        if last <= first or not len(inked):
            continue
        top = inked[0] if below else max(0, inked[-1] + 1 - rows)
        part = other[top : top + rows, first - start : last - start]
        place = drawn[height - len(part) :] if below else drawn[: len(part)]
        np.maximum(place[:, first:last], part, out=place[:, first:last])


def _light(sheet: np.ndarray, style: CameraStyle, rng: np.random.Generator) -> np.ndarray:
    """Light on the sheet: exposure, gradient, shadow, reflection; float32, 1 is white."""
    coarse = _coarse_light(sheet.shape, style, rng)
    if coarse is None:
        lit: np.ndarray = sheet * np.float32(style.exposure)
    else:
        size = (sheet.shape[1], sheet.shape[0])
        lit = sheet * cv2.resize(coarse[0], size, interpolation=cv2.INTER_LINEAR)
        if style.glare:
            lit += cv2.resize(coarse[1], size, interpolation=cv2.INTER_LINEAR)
    if style.stripes:
        lit *= 1 + np.float32(style.stripes) * moire(rng, sheet.shape, rng.uniform(2.2, 7))
    return lit


def _coarse_light(
    shape: tuple[int, ...], style: CameraStyle, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray] | None:
    """Factor and addend of the light at a quarter of the size; None for even light."""
    if not (style.gradient or style.unevenness or style.shadow or style.glare):
        return None
    height, width = (max(2, -(-side // 4)) for side in shape)
    x = np.linspace(-1, 1, width, dtype=np.float32)
    y = np.linspace(-1, 1, height, dtype=np.float32)[:, None]
    slope = np.cos(style.gradient_angle) * x + np.sin(style.gradient_angle) * y
    light = np.float32(style.exposure) * (1 - np.float32(style.gradient / 2) * slope)
    if style.unevenness:
        light *= 1 + np.float32(style.unevenness) * smooth_field(rng, (height, width), (3, 5))
    if style.shadow:
        angle = rng.uniform(0, 2 * np.pi)
        across = np.cos(angle) * x * width * 2 + np.sin(angle) * y * height * 2
        wavy = smooth_field(rng, (height, width), (2, 4)) * np.float32(height)
        start = rng.uniform(-0.7, 0.7) * (abs(np.cos(angle)) * width + height) * 1.2
        inside = np.clip((across + wavy - start) / np.float32(style.shadow_softness) + 0.5, 0, 1)
        light *= 1 - np.float32(style.shadow) * inside
    glare = np.zeros((height, width), np.float32)
    if style.glare:
        centre, spread = rng.uniform(-1, 1, 2), rng.uniform(0.15, 0.8, 2)
        distance = ((x - centre[0]) / spread[0]) ** 2 + ((y - centre[1]) / spread[1] / 2) ** 2
        glare = (np.float32(style.glare * style.exposure) * np.exp(-distance)).astype(np.float32)
    return light.astype(np.float32), glare


def _focus(lit: np.ndarray, style: CameraStyle) -> np.ndarray:
    """Defocus and motion blur."""
    if style.blur > 0.2:
        lit = np.asarray(cv2.GaussianBlur(lit, (0, 0), style.blur))
    if style.motion > 1:
        lit = np.asarray(cv2.filter2D(lit, -1, _motion_kernel(style.motion, style.motion_angle)))
    return lit


def _motion_kernel(length: float, angle: float) -> np.ndarray:
    side = 2 * int(np.ceil(length / 2)) + 1
    kernel = np.zeros((side, side), np.uint8)
    reach = np.array([np.cos(angle), np.sin(angle)]) * length / 2
    one, other = np.round((side // 2 - reach) * 16), np.round((side // 2 + reach) * 16)
    cv2.line(kernel, one.astype(int).tolist(), other.astype(int).tolist(), 255, 1, cv2.LINE_AA, 4)
    return (kernel / max(int(kernel.sum()), 1)).astype(np.float32)


def _sense(lit: np.ndarray, style: CameraStyle, rng: np.random.Generator) -> np.ndarray:
    """Pixels of the sensor, sharpened and compressed, at the working size again; uint8."""
    height, width = lit.shape
    if style.resolution < 1:
        size = [max(4, round(side * style.resolution)) for side in (width, height)]
        lit = cv2.resize(lit, size, interpolation=cv2.INTER_AREA)
    image: np.ndarray = lit * np.float32(255)
    if style.noise:
        # Photon noise: the standard deviation grows with the root of the brightness.
        spread = np.sqrt(np.clip(lit, 0.05, 1)) * np.float32(style.noise)
        image += tile(rng, image.shape, "white") * spread
    if style.smooth_noise:
        image += tile(rng, image.shape, "fine") * np.float32(style.smooth_noise)
    if style.sharpening:
        soft = cv2.GaussianBlur(image, (0, 0), 1.2)
        image = cv2.addWeighted(image, 1 + style.sharpening, soft, -style.sharpening, 0)
    if style.black > 0 or style.white != 1:
        gain = 1 / (style.white - style.black)
        image = image * np.float32(gain) - np.float32(255 * style.black * gain)
    pixels = cv2.convertScaleAbs(np.maximum(image, 0))
    if style.jpeg:
        _, file = cv2.imencode(".jpg", pixels, [cv2.IMWRITE_JPEG_QUALITY, style.jpeg])
        pixels = np.asarray(cv2.imdecode(file, cv2.IMREAD_GRAYSCALE))
    if pixels.shape != (height, width):
        pixels = cv2.resize(pixels, (width, height), interpolation=cv2.INTER_CUBIC)
    return np.asarray(pixels)
