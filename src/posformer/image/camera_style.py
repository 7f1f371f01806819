"""Parameters of the camera simulation, and how they are distributed for each kind of image."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np

from posformer.image.paper_texture import Ruling

__all__ = ["KINDS", "CameraStyle", "Kind", "sample_style"]

Kind = Literal["photo", "board", "scan", "screenshot", "print photo"]
KINDS: tuple[Kind, ...] = get_args(Kind)


@dataclass(frozen=True)
class CameraStyle:
    """All parameters of one simulated image."""

    kind: Kind = "photo"
    seed: int = 0  # of textures, fields and line positions
    # Geometry.
    margins: tuple[int, int, int, int] = (12, 12, 12, 12)  # top, left, bottom, right
    rotation: float = 0.0  # degrees
    shear: float = 0.0
    perspective: tuple[float, float] = (0.0, 0.0)  # relative change of size across width, height
    curl: float = 0.0  # height in pixels of the arc that a straight line becomes
    # Pen.
    pen: float = 0.5  # below 0.5 thicker strokes, above thinner
    pen_layers: int = 0  # pixels added around strokes first, for markers
    edge: float = 0.35  # width of the transition at the edge of a stroke; small is hard
    pressure: float = 0.0  # variation of width and darkness along strokes
    grain: float = 0.0  # share of the ink that rough paper or chalk leaves out
    # Sheet.
    light_ink: bool = False  # chalk, dark mode
    ink: float = 0.2  # reflectance of ink relative to paper, or of chalk
    paper: float = 0.9  # reflectance of the sheet or board
    texture: float = 0.0  # standard deviation of the paper's grain
    stains: float = 0.0  # standard deviation of large spots and smudges
    show_through: float = 0.0  # strength of writing on the back, or wiped off
    fragments: tuple[float, float] = (0.0, 0.0)  # visible height of writing above and below
    surroundings: float = 0.0  # width of a strip of the table at one edge
    ruling: Ruling = "none"
    ruling_period: float = 40.0
    ruling_thickness: float = 1.0
    ruling_strength: float = 0.0
    # Light.
    exposure: float = 1.0  # brightness of a white sheet
    gradient: float = 0.0  # light lost from one side to the other
    gradient_angle: float = 0.0
    unevenness: float = 0.0
    shadow: float = 0.0  # light lost in the shadow
    shadow_softness: float = 20.0  # width of its edge
    glare: float = 0.0  # light that a reflection adds, relative to the exposure
    stripes: float = 0.0  # contrast of the moiré of a photographed screen
    # Lens, sensor, file.
    blur: float = 0.0  # sigma
    motion: float = 0.0  # length of the motion
    motion_angle: float = 0.0
    resolution: float = 1.0  # pixels of the sensor for one of the working size, at most 1
    noise: float = 0.0  # standard deviation of 255
    smooth_noise: float = 0.0  # likewise, of noise that is wider than a pixel
    sharpening: float = 0.0
    jpeg: int = 0  # quality; 0 for none
    black: float = 0.0  # level that becomes black
    white: float = 1.0  # level that becomes white


def sample_style(rng: np.random.Generator, kind: Kind = "photo") -> CameraStyle:
    """Sample all parameters of an image of one kind."""
    if kind not in KINDS:
        raise ValueError(f"unknown kind '{kind}'; known are {', '.join(KINDS)}")
    values: dict[str, Any] = {"kind": kind, "seed": int(rng.integers(2**31))}
    values |= _SAMPLERS[kind](_Chance(rng))
    return CameraStyle(**values)


class _Chance:
    """Short names for the distributions used below."""

    def __init__(self, rng: np.random.Generator) -> None:
        self._rng = rng

    def maybe(self, probability: float) -> bool:
        return bool(self._rng.random() < probability)

    def between(self, low: float, high: float) -> float:
        """Uniform."""
        return float(low + (high - low) * self._rng.random())

    def mostly_small(self, high: float, power: float = 2.0) -> float:
        """From 0 to `high`, small values more often."""
        return float(high * self._rng.random() ** power)

    def normal(self, spread: float) -> float:
        """Normal with mean 0, cut at 2.5 standard deviations."""
        return float(np.clip(self._rng.standard_normal(), -2.5, 2.5) * spread)

    def pick(self, weights: dict[Any, float]) -> Any:
        """One of the keys."""
        edges = np.cumsum(list(weights.values()))
        return list(weights)[int(np.searchsorted(edges, self._rng.random() * edges[-1]))]


_PENS: dict[str, dict[str, tuple[float, float]]] = {
    "ballpoint": {
        "pen": (0.5, 0.78),
        "ink": (0.15, 0.5),
        "pressure": (0.1, 0.6),
        "grain": (0.0, 0.2),
    },
    "pencil": {
        "pen": (0.45, 0.78),
        "ink": (0.35, 0.75),
        "pressure": (0.1, 0.7),
        "grain": (0.1, 0.6),
    },
    "felt": {"pen": (0.3, 0.65), "ink": (0.05, 0.3), "pressure": (0.0, 0.3), "grain": (0.0, 0.05)},
    "marker": {"pen": (0.2, 0.5), "ink": (0.05, 0.5), "pressure": (0.0, 0.3), "grain": (0.0, 0.15)},
    "chalk": {"pen": (0.2, 0.6), "ink": (0.55, 0.95), "pressure": (0.2, 0.8), "grain": (0.3, 0.8)},
    "stylus": {"pen": (0.15, 0.72), "ink": (0.0, 0.35), "pressure": (0.0, 0.5), "grain": (0, 0)},
    "print": {"pen": (0.35, 0.6), "ink": (0.05, 0.4), "pressure": (0.0, 0.15), "grain": (0.0, 0.1)},
}


def _pen(chance: _Chance, name: str) -> dict[str, Any]:
    values: dict[str, Any] = {
        field: chance.between(*limits) for field, limits in _PENS[name].items()
    }
    values["edge"] = chance.between(0.25, 0.7)
    if name in ("marker", "chalk", "felt"):
        values["pen_layers"] = int(chance.maybe(0.35))
    return values


def _photo(chance: _Chance) -> dict[str, Any]:
    pen = chance.pick({"ballpoint": 5, "pencil": 3, "felt": 2, "marker": 1})
    return (
        _pen(chance, pen)
        | _geometry(chance)
        | _paper(chance)
        | _ruling(chance, {"none": 4, "ruled": 3, "squared": 3, "box": 0.3, "table": 0.4})
        | _lighting(chance)
        | _sensor(chance)
    )


def _board(chance: _Chance) -> dict[str, Any]:
    chalk = chance.maybe(0.5)
    values = _pen(chance, "chalk" if chalk else "marker")
    values |= _geometry(chance) | _lighting(chance) | _sensor(chance)
    values["stains"] = chance.mostly_small(0.06)
    values["texture"] = chance.mostly_small(0.05 if chalk else 0.015)
    values["show_through"] = chance.between(0.02, 0.15) if chance.maybe(0.4) else 0.0
    if chalk:
        values |= {"light_ink": True, "paper": chance.between(0.08, 0.4)}
    else:
        values |= {"paper": chance.between(0.75, 0.98)}
        values["glare"] = chance.mostly_small(0.5) if chance.maybe(0.5) else 0.0
    return values


def _scan(chance: _Chance) -> dict[str, Any]:
    pen = chance.pick({"ballpoint": 5, "pencil": 4, "felt": 3})
    clipped = chance.maybe(0.7)  # scanners make paper white
    values = _pen(chance, pen) | _margins(chance)
    values |= {
        "ink": 0.6 * values["ink"],  # scanners raise the contrast
        "rotation": chance.normal(0.8),
        "paper": chance.between(0.9, 0.97) if clipped else chance.between(0.55, 0.95),
        "texture": chance.mostly_small(0.02),
        "stains": chance.mostly_small(0.015),
        "white": chance.between(0.85, 0.93) if clipped else 1.0,
        "blur": chance.between(0.0, 0.6),
        "sharpening": chance.mostly_small(1.2) if chance.maybe(0.5) else 0.0,
        "noise": chance.mostly_small(3),
        "jpeg": int(chance.between(50, 95)) if chance.maybe(0.6) else 0,
        "resolution": _resolution(chance),
        "show_through": chance.mostly_small(0.06) if chance.maybe(0.15) else 0.0,
    }
    values |= _ruling(chance, {"none": 6, "form": 2, "box": 0.5, "table": 0.7, "ruled": 0.5})
    return values


def _screenshot(chance: _Chance) -> dict[str, Any]:
    dark = chance.maybe(0.35)
    values = _pen(chance, "stylus") | _margins(chance)
    if dark:
        values |= {"light_ink": True, "paper": chance.mostly_small(0.2)}
        values["ink"] = chance.between(0.6, 1.0)
    else:
        values["paper"] = 1.0 if chance.maybe(0.7) else chance.between(0.85, 1.0)
        values["ink"] = chance.mostly_small(0.6)
    values |= {
        "rotation": chance.normal(2.0) if chance.maybe(0.3) else 0.0,
        "jpeg": int(chance.between(40, 95)) if chance.maybe(0.4) else 0,
        "resolution": _resolution(chance),
    }
    return values | _ruling(chance, {"none": 6, "ruled": 1, "squared": 1})


def _print_photo(chance: _Chance) -> dict[str, Any]:
    values = _pen(chance, "print") | _geometry(chance) | _paper(chance)
    values |= _lighting(chance) | _sensor(chance)
    values |= _ruling(chance, {"none": 8, "box": 1, "table": 0.6})
    values["stripes"] = chance.mostly_small(0.15) if chance.maybe(0.15) else 0.0
    return values


def _margins(chance: _Chance) -> dict[str, Any]:
    margins = [round(4 + chance.mostly_small(28)) for _ in range(4)]
    fragments = [0.0, 0.0]
    for side, index in ((0, 0), (1, 2)):
        if chance.maybe(0.13):
            fragments[side] = chance.between(2, 14)
            # Room between the formula and the other writing.
            margins[index] = max(margins[index], round(fragments[side] + chance.between(4, 12)))
    return {"margins": tuple(margins), "fragments": tuple(fragments)}


def _geometry(chance: _Chance) -> dict[str, Any]:
    return _margins(chance) | {
        "rotation": chance.normal(1.8),
        "shear": chance.normal(0.04),
        "perspective": (chance.normal(0.05), chance.normal(0.025)),
        "curl": chance.normal(2.5) if chance.maybe(0.5) else 0.0,
        "surroundings": chance.between(1, 8) if chance.maybe(0.06) else 0.0,
    }


def _paper(chance: _Chance) -> dict[str, Any]:
    return {
        "paper": chance.between(0.65, 0.97),
        "texture": chance.mostly_small(0.025),
        "stains": chance.mostly_small(0.02),
        "show_through": chance.mostly_small(0.12) if chance.maybe(0.12) else 0.0,
    }


def _ruling(chance: _Chance, weights: dict[str, float]) -> dict[str, Any]:
    ruling = chance.pick(weights)
    if ruling == "none":
        return {}
    period = chance.between(12, 42) if ruling == "squared" else chance.between(32, 90)
    return {
        "ruling": ruling,
        "ruling_period": period,
        "ruling_thickness": chance.between(0.4, 2.2),
        "ruling_strength": 0.06
        + chance.mostly_small(1.0 if ruling in ("box", "table") else 0.7, 1.5),
    }


def _lighting(chance: _Chance) -> dict[str, Any]:
    return {
        "exposure": chance.between(0.2, 0.6) if chance.maybe(0.12) else chance.between(0.6, 1.08),
        "gradient": chance.mostly_small(0.35),
        "gradient_angle": chance.between(0, 2 * np.pi),
        "unevenness": chance.mostly_small(0.1),
        "shadow": chance.between(0.1, 0.6) if chance.maybe(0.18) else 0.0,
        "shadow_softness": chance.between(5, 40) if chance.maybe(0.2) else chance.between(40, 250),
        "glare": chance.mostly_small(0.3) if chance.maybe(0.06) else 0.0,
    }


def _sensor(chance: _Chance) -> dict[str, Any]:
    values: dict[str, Any] = {
        "blur": chance.between(0.1, 0.9),
        "noise": chance.mostly_small(5),
        "smooth_noise": chance.mostly_small(4),
        "resolution": _resolution(chance),
        "sharpening": chance.mostly_small(1.5) if chance.maybe(0.4) else 0.0,
        "jpeg": int(chance.between(30, 95)) if chance.maybe(0.6) else 0,
    }
    if chance.maybe(0.12):
        values |= {"blur": chance.between(1.0, 2.0)}
    if chance.maybe(0.1):
        values |= {"motion": chance.between(1.5, 4.5), "motion_angle": chance.between(0, np.pi)}
    return values


def _resolution(chance: _Chance) -> float:
    """Most photographs are larger than the working size; the others have been enlarged."""
    return 1.0 if chance.maybe(0.55) else chance.between(0.4, 1.0)


_SAMPLERS: dict[str, Callable[[_Chance], dict[str, Any]]] = {
    "photo": _photo,
    "board": _board,
    "scan": _scan,
    "screenshot": _screenshot,
    "print photo": _print_photo,
}
