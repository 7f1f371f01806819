"""Generates the images and ink of this folder: the project's own handwriting, and print.

    python examples/make_examples.py

writes the files listed in `truth.tsv` (name, tab, caption) next to this script. The result is
reproducible.
"""

from dataclasses import replace
from pathlib import Path

import cv2
import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from posformer.image.camera import photograph, sample_style
from posformer.ink.aligned import AlignedInk
from posformer.ink.inkml import write_inkml
from posformer.ink.render import render, strokes_in_pixels
from posformer.latex import normalize
from posformer.synthesis.glyphs import own_bank
from posformer.synthesis.layout import NATURAL, lay_out

HERE = Path(__file__).parent
TIDY = replace(
    NATURAL, irregularity=0.5, script_size=0.62, smallest=0.45, spacing=0.9, sum_limits_beside=0.0
)

NOTES = {
    "quadratic": r"x = \frac{-b \pm \sqrt{b^2 - 4ac}}{2a}",
    "euler": r"e^{i\pi} + 1 = 0",
    "basel": r"\sum\limits_{n=1}^{\infty} \frac{1}{n^2} = \frac{\pi^2}{6}",
    "gauss": r"\int\limits_{-\infty}^{\infty} e^{-x^2} dx = \sqrt{\pi}",
    "limit": r"\lim\limits_{n \to \infty} (1 + \frac{1}{n})^n = e",
    "pendulum": r"T = 2\pi \sqrt{\frac{L}{g}}",
}
"""Dark ink on light paper, as in photos and scans."""

IMAGES = {
    "pythagoras": r"\sin^2\theta + \cos^2\theta = 1",
    "distance": r"d = \sqrt{(x_2 - x_1)^2 + (y_2 - y_1)^2}",
    "recurrence": r"a_{n+1} = \frac{a_n + a_{n-1}}{2}",
    "tower": r"x^{2^n} + y^{\frac{1}{k}} \leq z_{i_j}",
    "roots": r"\sqrt[3]{8} + \log_2 16 = 6",
    "sets": r"\forall x \in [0, 1] , |f(x)| < \mu",
}
"""White ink on black, like CROHME's images."""

INK = {
    "gravity": r"F = G \frac{m_1 m_2}{r^2}",
    "binomial": r"(a + b)^2 = a^2 + 2ab + b^2",
    "fraction": r"1 + \frac{1}{2 + \frac{1}{3 + \cdots}}",
}
"""Strokes, as recorded by a tablet."""

PHOTOS = {
    "photo-series": r"f(x) = \sum\limits_{k=0}^{n} a_k x^k",
    "photo-matrix": r"A = \begin{pmatrix} 1 & 2 \\ 3 & 4 \end{pmatrix}",
    "photo-system": r"\begin{cases} x + y = 5 \\ 2x - y = 1 \end{cases}",
}
"""Simulated photographs of paper."""

PRINT = {
    "print-gamma": r"\Gamma(z) = \int\limits_0^{\infty} t^{z-1} e^{-t} dt",
    "print-wave": r"\frac{\partial^2 u}{\partial t^2} = c^2 \nabla^2 u",
}
"""Typeset by matplotlib, as on a screen."""


def write_formula(name: str, latex: str) -> AlignedInk:
    """Return a formula in the project's own ink; its name is the random seed."""
    rng = np.random.default_rng(list(name.encode()))
    return lay_out(normalize(latex), own_bank(), rng, TIDY, name=name)


def note(ink: AlignedInk, pen: float = 0.11) -> np.ndarray:
    """Return dark ink on light paper, uint8 (height, width), at 36 pixels per x-height.

    Args:
        ink: Ink with an x-height of 100.
        pen: Width of the pen in x-heights.
    """
    finer, scale, margin = 4, 0.36, 30
    corner = np.concatenate(ink.strokes).min(axis=0)
    strokes = [np.rint(((points - corner) * scale + margin) * finer) for points in ink.strokes]
    width, height = np.concatenate(strokes).max(axis=0).astype(int) + finer * margin
    image = np.full((height, width), 247, np.uint8)
    for points in strokes:
        cv2.polylines(image, [points.astype(np.int32)], False, 42, round(100 * scale * pen * finer))
    return cv2.resize(image, (width // finer, height // finer), interpolation=cv2.INTER_AREA)


def binary(ink: AlignedInk) -> np.ndarray:
    """Return white ink on black, uint8 (height, width)."""
    return render(strokes_in_pixels(ink.strokes))


def photo(ink: AlignedInk) -> np.ndarray:
    """Return a simulated photograph of ink, uint8 (height, width); its name is the random seed."""
    image = 255 - note(ink)
    style = sample_style(np.random.default_rng(list(ink.name.encode())), "photo")
    return photograph(image, np.zeros((0, 4), np.float32), style)[0]


def typeset(latex: str, em: int = 26) -> np.ndarray:
    """Return a printed formula, uint8 (height, width), with an em of some pixels."""
    figure = Figure(figsize=(8, 2), dpi=72)
    text = latex.replace(r"\limits", "")
    figure.text(0.5, 0.5, f"${text}$", fontsize=em, math_fontfamily="cm", ha="center", va="center")
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    image = cv2.cvtColor(np.asarray(canvas.buffer_rgba()), cv2.COLOR_RGBA2GRAY)
    rows, columns = (np.flatnonzero((image < 255).any(axis)) for axis in (1, 0))
    return np.pad(image[rows[0] : rows[-1], columns[0] : columns[-1]], 12, constant_values=255)


def main() -> None:
    """Write all examples and their captions."""
    truth: dict[str, tuple[str, ...]] = {}
    for formulas, draw in ((NOTES, note), (IMAGES, binary), (PHOTOS, photo)):
        for name, latex in formulas.items():
            ink = write_formula(name, latex)
            truth[f"{name}.png"] = ink.tokens
            cv2.imwrite(str(HERE / f"{name}.png"), draw(ink))
    for name, latex in INK.items():
        ink = write_formula(name, latex)
        truth[f"{name}.inkml"] = ink.tokens
        write_inkml(ink, HERE / f"{name}.inkml")
    for name, latex in PRINT.items():
        truth[f"{name}.png"] = tuple(normalize(latex))
        cv2.imwrite(str(HERE / f"{name}.png"), typeset(latex))
    lines = [f"{file}\t{' '.join(tokens)}\n" for file, tokens in truth.items()]
    (HERE / "truth.tsv").write_text("".join(lines), encoding="utf-8")


if __name__ == "__main__":
    main()
