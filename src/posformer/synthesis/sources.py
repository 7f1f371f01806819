"""Training examples from formula texts: handwritten, typeset, in several lines, photographed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import cv2
import numpy as np
from numpy.typing import NDArray

from posformer.data.ink_dataset import AlignedSample, InkSampler
from posformer.data.sampling import Sample, Sampler
from posformer.errors import DataError, LatexError
from posformer.image.camera import CameraStyle, Kind, photograph, photograph_size, sample_style
from posformer.image.normalize import flatten
from posformer.image.sizing import fit_scale
from posformer.ink.alignment import in_pixels
from posformer.ink.fill import fill_aligned, filled_size, print_scale
from posformer.synthesis.bank import SymbolBank
from posformer.synthesis.layout import NATURAL, PRINT, LayoutStyle, lay_out
from posformer.synthesis.texts import TextCorpus

__all__ = [
    "CameraSampler",
    "InkWriter",
    "PrintSample",
    "PrintWriter",
    "TextSampler",
    "WeightedSampler",
    "compose_lines",
]

Writer = Callable[[tuple[str, ...], str, np.random.Generator], Sample]
"""Makes an example of tokens and a name."""

_ATTEMPTS = 50
_MATRICES = ("matrix", "pmatrix", "bmatrix", "vmatrix")
_CELL, _LINE = 5, 20  # maximum tokens of a cell of a matrix, and of a line
_RELATIONS = frozenset(("=", "<", ">", r"\leq", r"\geq", r"\equiv", r"\approx", r"\in"))

# Fonts are photographed, scanned and shown on screens; pens also write on boards.
HAND_KINDS: Mapping[Kind, float] = {"photo": 5, "board": 1, "scan": 2, "screenshot": 1}
PRINT_KINDS: Mapping[Kind, float] = {"print photo": 4, "scan": 2, "screenshot": 3}


@dataclass(frozen=True)
class TextSampler:
    """Samples texts and writes them; see `Sampler`.

    A text that cannot be written, because a styled letter has no sample, is replaced by another.
    """

    sample_text: Callable[[np.random.Generator], tuple[str, ...]]
    write: Writer
    length: int

    def __len__(self) -> int:
        return self.length

    def sample(self, index: int, rng: np.random.Generator) -> Sample:
        """Make all random choices for one example, without rendering it."""
        for _ in range(_ATTEMPTS):
            try:
                return self.write(self.sample_text(rng), f"text-{index}", rng)
            except (DataError, LatexError) as error:
                reason = error
        raise DataError(f"none of {_ATTEMPTS} texts can be written: {reason}")


@dataclass(frozen=True)
class InkWriter:
    """Writes texts by hand."""

    bank: SymbolBank
    template: InkSampler  # style, scale and augmentation
    style: LayoutStyle = NATURAL

    def __call__(self, tokens: tuple[str, ...], name: str, rng: np.random.Generator) -> Sample:
        """Write a text in the hand of a random writer."""
        ink = lay_out(tokens, self.bank, rng, self.style, name=name)
        return self.template.sample_ink(in_pixels(ink), rng)


@dataclass(frozen=True)
class PrintSample(AlignedSample):
    """Typeset contours with all random choices made; see `Sample`."""

    scale: float  # pixels per unit of the ink
    margin: int
    resolution: float  # share of the pixels that the image was made with, at most 1
    height: int
    width: int

    def render(self) -> tuple[NDArray[np.uint8], NDArray[np.float32]]:
        """Render the image, uint8 (height, width), and token boxes, float32 (tokens, 4)."""
        image, boxes = fill_aligned(self.ink, self.scale, self.margin)
        if self.resolution < 1:
            size = [max(1, round(side * self.resolution)) for side in image.shape[::-1]]
            small = cv2.resize(image, size, interpolation=cv2.INTER_AREA)
            full = (self.width, self.height)
            image = np.asarray(cv2.resize(small, full, interpolation=cv2.INTER_CUBIC), np.uint8)
        return image, boxes


@dataclass(frozen=True)
class PrintWriter:
    """Typesets texts with fonts."""

    bank: SymbolBank  # of contours
    scale_range: tuple[float, float] = (0.7, 1.3)
    scale: float = 1.0  # of finished images
    margin: int = 12  # of finished images
    max_pixels: int | None = None
    handwriting: bool = False  # irregular, as handwriting fonts need it
    low_resolution: float = 0.3  # share of images of small type on screens

    def __call__(self, tokens: tuple[str, ...], name: str, rng: np.random.Generator) -> PrintSample:
        """Typeset a text in a random font."""
        ink = lay_out(tokens, self.bank, rng, self._sample_style(rng), name=name)
        scale = print_scale(ink) * self.scale * float(rng.uniform(*self.scale_range))
        height, width = filled_size(ink, scale, self.margin)
        shrink = fit_scale(height, width, self.max_pixels, None)
        if shrink < 1.0:
            scale *= shrink
            height, width = filled_size(ink, scale, self.margin)
        small = rng.random() < self.low_resolution
        resolution = float(rng.uniform(0.3, 1.0)) if small else 1.0
        return PrintSample(ink, scale, self.margin, resolution, height, width)

    def _sample_style(self, rng: np.random.Generator) -> LayoutStyle:
        """Return the habits of a document: fractions of full or small size, tight or loose."""
        style = replace(
            PRINT,
            fraction_size=float(rng.choice((0.7, 0.85, 1.0))),
            script_size=float(rng.uniform(0.62, 0.76)),
            spacing=float(rng.uniform(0.75, 1.35)),
            rule=float(rng.uniform(0.07, 0.14)),
        )
        return replace(style, irregularity=0.4, exact=False) if self.handwriting else style


def compose_lines(
    texts: TextCorpus,
    environments: Sequence[str],
    rng: np.random.Generator,
    *,
    lines: tuple[int, int] = (2, 4),
) -> tuple[str, ...]:
    r"""Compose a matrix, a case distinction or a derivation from short texts.

    Args:
        texts: The texts.
        environments: Names such as `cases`; one of them is used.
        rng: Random generator.
        lines: Minimum and maximum number of lines.
    """
    environment = environments[int(rng.integers(len(environments)))]
    count = int(rng.integers(lines[0], lines[1] + 1))
    if environment in _MATRICES:
        columns = int(rng.integers(1, 4))
        rows = [[texts.sample_short(rng, _CELL) for _ in range(columns)] for _ in range(count)]
        parts = [[token for cell in row for token in ("&", *cell)][1:] for row in rows]
    else:
        split = environment == "aligned" or (environment == "cases" and rng.random() < 0.5)
        parts = [_line(texts, split, rng) for _ in range(count)]
    body = [token for part in parts for token in ("\\\\", *part)][1:]
    before: tuple[str, ...] = ()
    if environment != "aligned" and rng.random() < 0.4:
        before = (*texts.sample_short(rng, _CELL), "=")
    return (*before, f"\\begin{{{environment}}}", *body, f"\\end{{{environment}}}")


def _line(texts: TextCorpus, split: bool, rng: np.random.Generator) -> list[str]:
    """Return a line, split in two cells before its first relation if it has one."""
    text = list(texts.sample_short(rng, _LINE))
    if not split:
        return text
    depth = 0
    for index, token in enumerate(text):
        depth += (token == "{") - (token == "}")
        if token in _RELATIONS and depth == 0 and index:
            return [*text[:index], "&", *text[index:]]
    return [*text, "&", "=", *texts.sample_short(rng, _CELL)]


@dataclass(frozen=True)
class _Photo:
    """A photographed example; see `Sample`."""

    subject: Sample
    style: CameraStyle
    height: int
    width: int

    @property
    def name(self) -> str:
        """Name of the example."""
        return self.subject.name

    @property
    def tokens(self) -> tuple[str, ...]:
        """The caption."""
        return self.subject.tokens

    def render(self) -> tuple[NDArray[np.uint8], NDArray[np.float32] | None]:
        """Render, photograph, flatten the light and resize."""
        image, boxes = self.subject.render()
        known = np.zeros((0, 4), np.float32) if boxes is None else boxes
        photo, moved = photograph(image, known, self.style)
        flat = flatten(photo, self.style.light_ink)
        ratio = np.array([self.width / flat.shape[1], self.height / flat.shape[0]] * 2, np.float32)
        size = (self.width, self.height)
        small = np.asarray(cv2.resize(flat, size, interpolation=cv2.INTER_AREA), np.uint8)
        return small, None if boxes is None else moved * ratio


@dataclass(frozen=True)
class CameraSampler:
    """Replaces a share of the examples of a sampler by simulated photographs."""

    plain: Sampler
    subject: Sampler  # the same examples in full size and without margins
    share: float  # of photographs
    kinds: Mapping[Kind, float]
    scale: float = 1.0  # of finished images
    max_pixels: int | None = None

    def __len__(self) -> int:
        return len(self.plain)

    def sample(self, index: int, rng: np.random.Generator) -> Sample:
        """Make all random choices for one example, without rendering it."""
        if rng.random() >= self.share:
            return self.plain.sample(index, rng)
        subject = self.subject.sample(index, rng)
        weights = np.array(list(self.kinds.values()), float)
        kind = list(self.kinds)[int(rng.choice(len(weights), p=weights / weights.sum()))]
        style = sample_style(rng, kind)
        height, width = photograph_size((subject.height, subject.width), style)
        scale = min(self.scale, fit_scale(height, width, self.max_pixels, None))
        return _Photo(subject, style, max(1, int(height * scale)), max(1, int(width * scale)))


class WeightedSampler:
    """Mixes samplers with weights; an epoch is as long as the given length."""

    def __init__(self, samplers: Sequence[Sampler], weights: Sequence[float], length: int) -> None:
        """Create a sampler.

        Raises:
            DataError: If no weight is positive.
        """
        if min(weights, default=0) < 0 or not sum(weights) > 0:
            raise DataError(f"the weights {list(weights)} are not positive")
        self.samplers = tuple(samplers)
        self.edges = np.cumsum(weights) / sum(weights)
        self.length = length

    def __len__(self) -> int:
        return self.length

    def sample(self, index: int, rng: np.random.Generator) -> Sample:
        """Make all random choices for one example, without rendering it."""
        number = int(np.searchsorted(self.edges, rng.random(), side="right"))
        sampler = self.samplers[min(number, len(self.samplers) - 1)]
        return sampler.sample(index % len(sampler), rng)
