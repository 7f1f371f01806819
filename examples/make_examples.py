"""Generates the images and ink of this folder in the project's own handwriting.

    python examples/make_examples.py

writes the files listed in `truth.tsv` (name, tab, caption) next to this script. The result is
reproducible.
"""

from dataclasses import replace
from pathlib import Path

import cv2
import numpy as np

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


def main() -> None:
    """Write all examples and their captions."""
    truth: list[tuple[str, AlignedInk]] = []
    for name, latex in NOTES.items():
        truth.append((f"{name}.png", write_formula(name, latex)))
        cv2.imwrite(str(HERE / truth[-1][0]), note(truth[-1][1]))
    for name, latex in IMAGES.items():
        truth.append((f"{name}.png", write_formula(name, latex)))
        cv2.imwrite(str(HERE / truth[-1][0]), render(strokes_in_pixels(truth[-1][1].strokes)))
    for name, latex in INK.items():
        truth.append((f"{name}.inkml", write_formula(name, latex)))
        write_inkml(truth[-1][1], HERE / truth[-1][0])
    lines = [f"{file}\t{' '.join(ink.tokens)}\n" for file, ink in truth]
    (HERE / "truth.tsv").write_text("".join(lines), encoding="utf-8")


if __name__ == "__main__":
    main()
