"""Fonts as writers: the glyphs of a family as samples of a symbol bank.

A glyph is a list of closed contours to be filled, where a handwritten symbol is a list of strokes
to be drawn with a pen. Both have a baseline and an x-height, so one layout serves both.
"""

from __future__ import annotations

import os
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import comb
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import NDArray

from posformer.data.array_cache import DEFAULT_CACHE, ArrayCache, file_state
from posformer.errors import DataError
from posformer.latex.characters import NAMED
from posformer.latex.symbols import SYMBOLS, tokens_of
from posformer.synthesis.bank import SymbolBank, SymbolSample
from posformer.synthesis.layout import SPELLED_NAMES
from posformer.synthesis.marks import outline

if TYPE_CHECKING:
    from fontTools.ttLib import TTFont
    from fontTools.ttLib.ttGlyphSet import _TTGlyphSet

__all__ = [
    "VALIDATION_FAMILIES",
    "FontFamily",
    "find_families",
    "font_bank",
    "handwriting_bank",
    "load_fonts",
]

VALIDATION_FAMILIES = frozenset(("texgyreschola-math", "libertinus-math", "noto-sans-math"))
"""Families that training never uses."""

Contour = NDArray[np.float32]  # (points, 2) in font units, y up, closed

_SUFFIXES = (".otf", ".ttf", ".woff", ".woff2")
_FLATNESS = 5  # line segments per curve
_CACHE_VERSION = 1  # to be raised whenever reading glyphs changes
_NAMES = tokens_of("function", "limit") | SPELLED_NAMES.keys()
_STYLES = {"bb": "DOUBLE-STRUCK", "cal": "SCRIPT", "fr": "FRAKTUR"}
_PEN = 0.14  # of lent ink among handwriting fonts, in x-heights
_LENT = 40  # samples of each token that handwriting fonts lack

# Characters of tokens whose first character in `NAMED` is another shape in print.
_CHARACTERS = {
    r"\epsilon": "ϵ",
    r"\varepsilon": "ε",
    r"\phi": "ϕ",
    r"\varphi": "φ",
    r"\prime": "′",
    r"\{": "{",
    r"\}": "}",
    r"\%": "%",
    r"\#": "#",
    r"\&": "&",
    r"\Vert": "‖",
    r"\vert": "|",
    r"\sqrt": "√",
    r"\top": "⊤",
    r"\bot": "⊥",
    "-": "−",
    "*": "∗",
    r"\hat": "ˆ",
    r"\bar": "ˉ",
    r"\tilde": "˜",
    r"\vec": "\u20d7",
    r"\dot": "˙",
    r"\ddot": "¨",
    r"\check": "ˇ",
    r"\breve": "˘",
    r"\acute": "´",
    r"\grave": "`",
    r"\mathring": "˚",
}
_CHARACTERS |= {
    latex: character
    for character, latex in reversed(NAMED.items())
    if latex.startswith("\\") and latex not in _CHARACTERS
}


@dataclass(frozen=True)
class FontFamily:
    """Font files that are used together, the preferred one first."""

    name: str
    kind: Literal["math", "handwriting"]
    upright: tuple[Path, ...]
    italic: tuple[Path, ...] = ()  # for letters; the upright fonts may have their own italic ones

    def samples(self, tokens: Iterable[str]) -> Iterator[SymbolSample]:
        """Yield a sample of each token that the family has glyphs for."""
        for token in tokens:
            glyphs = self._glyphs(token)
            if glyphs is not None:
                yield self._sample(token, glyphs)

    @cached_property
    def _faces(self) -> tuple[_Face, ...]:
        return tuple(_Face(path) for path in self.upright)

    @cached_property
    def _italic_faces(self) -> tuple[_Face, ...]:
        return tuple(_Face(path) for path in self.italic)

    @cached_property
    def _x_height(self) -> float:
        glyph = self._find("x", self._faces)
        if glyph is None:
            raise DataError(f"font family {self.name}: has no letter x")
        return float(np.concatenate(glyph[0])[:, 1].max())

    def _glyphs(self, token: str) -> list[tuple[list[Contour], float]] | None:
        """The glyphs that spell a token: contours and advance width of each, in em units."""
        if token in _NAMES:
            return self._spelled(SPELLED_NAMES.get(token, token[1:]))
        character = _styled_character(token) or _CHARACTERS.get(token, token)
        if len(character) != 1:
            return None
        if self.kind == "math" and character.isalpha() and unicodedata.category(character) != "Lo":
            glyph = self._italic(character)
            if glyph is not None:
                return [glyph]
        glyph = self._find(character, self._faces)
        return None if glyph is None else [glyph]

    def _spelled(self, name: str) -> list[tuple[list[Contour], float]] | None:
        """A function name such as `sin`, letter by letter."""
        blank: tuple[list[Contour], float] = ([], 0.17)
        found = [blank if one == " " else self._find(one, self._faces) for one in name]
        return None if None in found else [glyph for glyph in found if glyph is not None]

    def _italic(self, character: str) -> tuple[list[Contour], float] | None:
        """The mathematical italic of a letter; capital Greek letters stand upright in print."""
        if "GREEK CAPITAL" in unicodedata.name(character, ""):
            return None
        styled = _mathematical_italic(character)
        glyph = self._find(styled, self._faces) if styled else None
        return glyph or self._find(character, self._italic_faces)

    @staticmethod
    def _find(character: str, faces: Sequence[_Face]) -> tuple[list[Contour], float] | None:
        for face in faces:
            glyph = face.glyph(character)
            if glyph is not None:
                return glyph
        return None

    def _sample(self, token: str, glyphs: Sequence[tuple[list[Contour], float]]) -> SymbolSample:
        contours, x = [], 0.0
        for parts, advance in glyphs:
            contours += [part + np.array([x, 0.0], np.float32) for part in parts]
            x += advance
        points = np.concatenate(contours) * np.array([1.0, -1.0], np.float32)
        low = points.min(axis=0)
        width, height = (points.max(axis=0) - low).tolist()
        return SymbolSample(
            token=token,
            writer=self.name,
            points=points - low,
            lengths=tuple(len(contour) for contour in contours),
            width=width,
            height=height,
            unit=self._x_height,
            baseline=-float(low[1]),
        )


def _styled_character(token: str) -> str:
    r"""Return the character of a styled letter such as `\mathbb{R}`; empty for other tokens."""
    style = next(
        (style for name, style in _STYLES.items() if token.startswith(f"\\math{name}")), ""
    )
    if not style or not token.endswith("}"):
        return ""
    letter = token[-2]
    case = "DIGIT" if letter.isdigit() else "CAPITAL" if letter.isupper() else "SMALL"
    name = unicodedata.name(letter).rpartition(" ")[2]
    for prefix in (f"MATHEMATICAL {style}", style, style.replace("FRAKTUR", "BLACK-LETTER")):
        try:
            return unicodedata.lookup(f"{prefix} {case} {name}")
        except KeyError:
            continue
    return ""


def _mathematical_italic(character: str) -> str | None:
    name = unicodedata.name(character, "")
    if character == "h":
        return "ℎ"  # the place of h in the alphabet of italic letters is empty
    name = name.replace("LATIN ", "").replace("GREEK ", "").replace(" LETTER", "")
    try:
        return unicodedata.lookup(f"MATHEMATICAL ITALIC {name}")
    except KeyError:
        return None


class _Face:
    """One font file; outlines are read when they are first asked for."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @cached_property
    def _font(self) -> TTFont:
        from fontTools.ttLib import TTFont, TTLibError

        try:
            return TTFont(self.path, lazy=True)
        except (OSError, TTLibError) as error:
            raise DataError(f"{self.path}: not a font ({error})") from error

    @cached_property
    def _characters(self) -> dict[int, str]:
        return self._font.getBestCmap() or {}

    @cached_property
    def _glyph_set(self) -> _TTGlyphSet:
        return self._font.getGlyphSet()

    @cached_property
    def _scale(self) -> float:
        return 1.0 / float(self._font["head"].unitsPerEm)

    def glyph(self, character: str) -> tuple[list[Contour], float] | None:
        """Contours and advance width in em units; None if the font lacks the character."""
        from fontTools.pens.recordingPen import DecomposingRecordingPen

        name = self._characters.get(ord(character))
        if name is None:
            return None
        glyphs = self._glyph_set
        pen = DecomposingRecordingPen(glyphs)
        glyphs[name].draw(pen)
        contours = [contour * self._scale for contour in _flattened(pen.value)]
        return (contours, glyphs[name].width * self._scale) if contours else None


def _flattened(commands: Iterable[tuple[str, tuple[tuple[float, float], ...]]]) -> list[Contour]:
    """Contours of straight lines from the drawing commands of a glyph."""
    contours: list[list[NDArray[np.float64]]] = []
    for name, given in commands:
        points = [np.array(point, float) for point in given if point is not None]
        if name == "moveTo":
            contours.append([points[0]])
        elif name == "lineTo":
            contours[-1].append(points[0])
        elif name == "curveTo":
            contours[-1] += _curve([contours[-1][-1], *points])
        elif name == "qCurveTo" and given[-1] is None:  # a closed contour of control points only
            start = (points[-1] + points[0]) / 2
            contours.append([start, *_quadratic_spline(start, [*points, start])])
        elif name == "qCurveTo":
            contours[-1] += _quadratic_spline(contours[-1][-1], points)
    return [np.array(contour, np.float32) for contour in contours if len(contour) > 2]


def _quadratic_spline(
    start: NDArray[np.float64], points: list[NDArray[np.float64]]
) -> list[NDArray[np.float64]]:
    """TrueType curves: between two control points lies an implied point on the curve."""
    result: list[NDArray[np.float64]] = []
    *controls, end = points
    for number, control in enumerate(controls):
        last = number == len(controls) - 1
        stop = end if last else (control + controls[number + 1]) / 2
        result += _curve([start, control, stop])
        start = stop
    return result or [end]


def _curve(controls: Sequence[NDArray[np.float64]]) -> list[NDArray[np.float64]]:
    """Points of a Bézier curve behind its first."""
    return list(_BERNSTEIN[len(controls)] @ np.array(controls))


def _bernstein(controls: int) -> NDArray[np.float64]:
    """Weights of control points at the points of a curve, (_FLATNESS, controls)."""
    t, degree = np.arange(1, _FLATNESS + 1)[:, None] / _FLATNESS, controls - 1
    power = np.arange(controls)
    binomials = np.array([comb(degree, n) for n in range(controls)])
    return np.asarray(binomials * t**power * (1 - t) ** (degree - power))


_BERNSTEIN = {controls: _bernstein(controls) for controls in range(2, 5)}


def find_families(folder: Path) -> list[FontFamily]:
    """Find the families below `math/` and `handwriting/` in a folder of fonts.

    Each mathematical font file is a family; other files of its folder serve it: an italic companion
    for letters. All files of a folder of handwriting are one family, in parts.

    Raises:
        DataError: If there are no fonts.
    """
    families = []
    for path in sorted((folder / "handwriting").glob("*/")):
        if files := _files(path):
            families.append(FontFamily(path.name, "handwriting", tuple(files)))
    for path in sorted((folder / "math").glob("*/")):
        families += _math_families(path)
    if not families:
        raise DataError(f"{folder}: no fonts; scripts/fetch_fonts.py downloads some")
    return families


def _math_families(folder: Path) -> Iterator[FontFamily]:
    files = _files(folder)
    complete = [file for file in files if "math" in file.stem.lower()]
    for file in complete:
        name = file.stem.lower().removesuffix("-latin-400-normal")
        yield FontFamily(name, "math", (file,))
    if complete:
        return
    regular = [file for file in files if "bold" not in file.stem.lower()]
    italic = [file for file in regular if _is_italic(file)]
    for file in regular:
        if file not in italic:
            yield FontFamily(file.stem.lower(), "math", (file,), tuple(italic[:1]))


def _is_italic(file: Path) -> bool:
    stem = file.stem.lower()
    return any(word in stem for word in ("ital", "obliq")) or file.stem.endswith(
        ("It", "_RI", "ti")
    )


def _files(folder: Path) -> list[Path]:
    return sorted(file for file in folder.iterdir() if file.suffix.lower() in _SUFFIXES)


def load_fonts(
    folder: str | os.PathLike[str], cache: str | os.PathLike[str] | None = DEFAULT_CACHE
) -> SymbolBank:
    """Load all families of a folder as writers, with every token that they have glyphs for.

    Args:
        folder: A folder with `math/` and `handwriting/`; scripts/fetch_fonts.py makes one.
        cache: Cache folder; None to disable the cache.

    Returns:
        A bank of contours. Writers are named `math:<family>` and `handwriting:<family>`.

    Raises:
        DataError: If there are no fonts.
    """
    families = find_families(Path(folder))
    if cache is None:
        return font_bank(families)
    files = [file for family in families for file in (*family.upright, *family.italic)]
    stored = ArrayCache(Path(cache), "fonts", [_CACHE_VERSION, file_state(files), _all_tokens()])
    arrays = stored.load()
    if arrays is None:
        arrays = font_bank(families).to_arrays()
        stored.save(arrays)
    return SymbolBank.from_arrays(arrays)


def font_bank(families: Iterable[FontFamily], tokens: Iterable[str] | None = None) -> SymbolBank:
    """Return a symbol bank whose writers are font families."""
    wanted = list(_all_tokens() if tokens is None else tokens)
    return SymbolBank.from_samples(
        replace(sample, writer=f"{family.kind}:{family.name}")
        for family in families
        for sample in family.samples(wanted)
    )


def handwriting_bank(fonts: SymbolBank, ink: SymbolBank) -> SymbolBank:
    """Return handwriting fonts as lead writers, with ink for what they lack.

    Args:
        fonts: The handwriting fonts of `load_fonts`.
        ink: A bank of strokes. They become contours of a pen.
    """
    lent = [
        _outlined(sample)
        for token in _all_tokens()
        if fonts.counts.get(token, 0) < len(fonts.writers)
        for sample in ink.samples(token, limit=_LENT)
    ]
    lender = SymbolBank.from_samples(lent) if lent else None
    return SymbolBank.merge([fonts] if lender is None else [fonts, lender.as_lenders()])


def _outlined(sample: SymbolSample) -> SymbolSample:
    contours = [outline(stroke, _PEN * sample.unit) for stroke in sample.strokes if len(stroke) > 1]
    contours = contours or [outline(sample.strokes[0][[0, 0]], _PEN * sample.unit)]
    points = np.concatenate(contours)
    low = points.min(axis=0)
    width, height = (points.max(axis=0) - low).tolist()
    return replace(
        sample,
        writer=f"ink:{sample.writer}",
        points=points - low,
        lengths=tuple(len(contour) for contour in contours),
        width=width,
        height=height,
        baseline=sample.baseline - float(low[1]),
    )


def _all_tokens() -> list[str]:
    """Return the tokens that fonts may have glyphs for, styled letters included."""
    letters = sorted(token for token in tokens_of("letter", "digit"))
    styled = [f"\\math{name}{{{x}}}" for name in ("bb", "cal", "frak") for x in letters]
    return [*SYMBOLS, *styled]
