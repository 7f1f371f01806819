"""The front door: an image or ink in, LaTeX out."""

from __future__ import annotations

import io
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Any, cast

import numpy as np

from posformer.errors import InkError, NoInkError, PosformerError
from posformer.image.cleanup import clean
from posformer.image.lines import split_lines
from posformer.image.loading import ImageInput, load_image
from posformer.ink.inkml import read_inkml
from posformer.ink.render import render, strokes_in_pixels
from posformer.ink.splitting import split_strokes
from posformer.latex import in_lines, to_latex
from posformer.latex.mathml import to_mathml
from posformer.runtime.calibration import Calibration, confidences
from posformer.runtime.decoding import DEFAULT_BEAM, DEFAULT_VIEWS, decode_images, search_options
from posformer.runtime.engine import Engine, Runtime, load_runtime
from posformer.search import DecodingOptions, Hypothesis

__all__ = ["Alternative", "Recognition", "Recognizer", "Source", "Strokes", "is_inkml", "prepare"]

# Strokes of points (x, y), y down, in any unit.
Strokes = Sequence[Sequence[Sequence[float]]] | Sequence[np.ndarray]
Source = ImageInput | Strokes

_LINE_BREAK = r"\\"
_UNSURE_BELOW = 0.5
_UNSURE_BELOW_UNCALIBRATED = 0.9
_WINDOW_SOURCES = 32  # read together at most, so that memory is bounded and results keep coming
_WINDOW_PIXELS = 4_000_000
_FARTHEST = 1e9  # coordinates beyond are no handwriting


@dataclass(frozen=True)
class Alternative:
    """Another reading of the same image."""

    latex: str
    confidence: float
    tokens: tuple[str, ...]


@dataclass(frozen=True)
class Recognition:
    """What an image says."""

    latex: str
    confidence: float  # chance that the reading is right in every token; see `calibrated`
    tokens: tuple[str, ...]
    alternatives: tuple[Alternative, ...] = ()  # next best readings, best first
    calibrated: bool = False  # else confidence is the mean probability of a token
    lines: tuple[Recognition, ...] = ()  # where several formulas stand below each other

    @property
    def is_unsure(self) -> bool:
        """Whether the reading is more likely wrong than right."""
        return self.confidence < (_UNSURE_BELOW if self.calibrated else _UNSURE_BELOW_UNCALIBRATED)

    @property
    def readings(self) -> tuple[Alternative, ...]:
        """All readings, the best first."""
        return Alternative(self.latex, self.confidence, self.tokens), *self.alternatives

    def to_dict(self) -> dict[str, Any]:
        """Plain values: `latex`, `confidence`, and `alternatives` with the same two."""
        return {
            "latex": self.latex,
            "confidence": round(self.confidence, 6),
            "alternatives": [
                {"latex": other.latex, "confidence": round(other.confidence, 6)}
                for other in self.alternatives
            ],
        }

    @property
    def markdown(self) -> str:
        """The reading as a formula in Markdown."""
        return f"$${self.latex}$$" if self._is_display else f"${self.latex}$"

    @property
    def _is_display(self) -> bool:
        """Whether it has several lines, and so stands apart from the text."""
        return bool(self.lines) or _LINE_BREAK in self.tokens

    @property
    def mathml(self) -> str:
        """The reading as presentation MathML; an `merror` where its LaTeX makes no sense."""
        return to_mathml(self.latex, display=self._is_display)


class Recognizer:
    """Reads handwritten mathematics. One may be used from several threads at once.

    Args:
        runtime: a loaded model; `Recognizer.load` makes one.
    """

    def __init__(self, runtime: Runtime) -> None:
        self.runtime = runtime
        self.calibration = Calibration.from_info(runtime.info)
        # A model that knows line breaks reads several lines at once.
        self._splits = _LINE_BREAK not in runtime.vocabulary

    @classmethod
    def load(
        cls,
        path: str | os.PathLike[str] | None = None,
        engine: Engine = "auto",
        threads: int | None = None,
    ) -> Recognizer:
        """Load a model.

        Args:
            path: a model folder, or a checkpoint that training left; None for the shipped model.
            engine: what runs it: `onnx`, `pytorch`, or `auto` for ONNX Runtime where it can.
            threads: of the CPU; None for as many as there are cores.

        Raises:
            ModelError: If there is no such model or it is damaged.
        """
        return cls(load_runtime(path, engine, threads))

    def recognize(
        self,
        source: Source,
        top_k: int = 1,
        beam: int = DEFAULT_BEAM,
        greedy: bool = False,
        views: int = DEFAULT_VIEWS,
    ) -> Recognition:
        """Read one image, or ink.

        Args:
            source: a path, bytes, or an open binary file of an image or of InkML; a PIL image;
                an array (height, width) or (height, width, channels); or strokes.
            top_k: how many readings are wanted, the best included.
            beam: hypotheses followed in each direction; more is slower and reads a little better.
            greedy: take the best token at every step of one view: fastest, gives one reading only.
            views: sizes that each formula is read at, 1 to 3; more is slower and reads better.

        Raises:
            PosformerError: If it cannot be read, or nothing is written there.
        """
        return next(self.recognize_many([source], top_k, beam, greedy, views))

    def recognize_strokes(
        self,
        strokes: Strokes,
        top_k: int = 1,
        beam: int = DEFAULT_BEAM,
        greedy: bool = False,
        views: int = DEFAULT_VIEWS,
    ) -> Recognition:
        """Read strokes of points (x, y), y down, in any unit; see `recognize`."""
        return self.recognize(strokes, top_k, beam, greedy, views)

    def recognize_many(
        self,
        sources: Iterable[Source],
        top_k: int = 1,
        beam: int = DEFAULT_BEAM,
        greedy: bool = False,
        views: int = DEFAULT_VIEWS,
    ) -> Iterator[Recognition]:
        """Read any number of images, in their order, as they come; see `recognize`.

        Only some sources are held at a time. The first that cannot be read raises its error in its
        turn; `attempt_many` goes on behind it.
        """
        for result in self.attempt_many(sources, top_k, beam, greedy, views):
            if isinstance(result, PosformerError):
                raise result
            yield result

    def attempt_many(
        self,
        sources: Iterable[Source | PosformerError],
        top_k: int = 1,
        beam: int = DEFAULT_BEAM,
        greedy: bool = False,
        views: int = DEFAULT_VIEWS,
    ) -> Iterator[Recognition | PosformerError]:
        """Like `recognize_many`, with an error in the place of what cannot be read.

        An error among the sources is passed on in its turn.
        """
        options = search_options(self.runtime.config, beam, top_k, greedy, views)
        for window in _windows(self._prepared(source) for source in sources):
            yield from self._read(window, options)

    def _prepared(self, source: Source | PosformerError) -> list[np.ndarray] | PosformerError:
        """The formulas of a source as the model knows images; the error if there are none."""
        if isinstance(source, PosformerError):
            return source
        try:
            return prepare(source, self._splits)
        except PosformerError as error:
            return error

    def _read(
        self, window: Sequence[list[np.ndarray] | PosformerError], options: DecodingOptions
    ) -> Iterator[Recognition | PosformerError]:
        images = [part for part in window if not isinstance(part, PosformerError)]
        found = iter(decode_images(self.runtime, list(chain(*images)), options))
        for part in window:
            if isinstance(part, PosformerError):
                yield part
            else:
                yield _joined([self._recognition(next(found)) for _ in part])

    def _recognition(self, hypotheses: Sequence[Hypothesis]) -> Recognition:
        readings = []
        sure = confidences(hypotheses, self.calibration)
        for hypothesis, confidence in zip(hypotheses, sure, strict=True):
            tokens = tuple(self.runtime.vocabulary.decode(hypothesis.tokens, skip_special=True))
            readings.append(Alternative(to_latex(in_lines(tokens)), confidence, tokens))
        best, *others = readings
        return Recognition(
            best.latex,
            best.confidence,
            best.tokens,
            tuple(others),
            calibrated=self.calibration is not None,
        )


def prepare(source: Source, split: bool = True) -> list[np.ndarray]:
    """Bring a source into the form of the images that models are trained on.

    Args:
        source: what `Recognizer.recognize` takes.
        split: cut formulas that stand below each other apart.

    Returns:
        uint8 (height, width) each, white ink on black, in the size of CROHME's images.

    Raises:
        PosformerError: If it cannot be read, or nothing is written there.
    """
    if isinstance(source, (list, tuple)):
        return _prepare_ink(_checked(source), split)
    if isinstance(source, (str, os.PathLike)):
        if Path(source).suffix.lower() == ".inkml":
            return _prepare_ink(read_inkml(source).strokes, split)
        return _prepare_image(source, os.fspath(source), split)
    if isinstance(source, (bytes, bytearray, memoryview)):
        source = _Named(bytes(source), "image")
    elif hasattr(source, "read"):
        source = _named(source)
    if isinstance(source, _Named) and is_inkml(source.getbuffer()):
        return _prepare_ink(read_inkml(source.getvalue(), source.name).strokes, split)
    return _prepare_image(cast(ImageInput, source), getattr(source, "name", "image"), split)


class _Named(io.BytesIO):
    """The content of a file, and what to call it."""

    def __init__(self, content: bytes, name: str) -> None:
        super().__init__(content)
        self.name = name


def _named(file: Any) -> _Named:
    content = file.read()
    name = str(getattr(file, "name", "image"))
    if not isinstance(content, bytes):
        raise InkError(f"{name}: the file gives text; open it in binary mode")
    return _Named(content, name)


def is_inkml(content: bytes | memoryview) -> bool:
    """Whether content can only be InkML: no image begins like this."""
    return bytes(content[:64]).lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"<")


def _prepare_ink(strokes: Sequence[np.ndarray], split: bool) -> list[np.ndarray]:
    drawn = strokes_in_pixels(strokes)
    return [render(formula) for formula in (split_strokes(drawn) if split else [drawn])]


def _prepare_image(source: ImageInput, name: str, split: bool) -> list[np.ndarray]:
    try:
        cleaned = clean(load_image(source))
    except NoInkError as error:
        raise NoInkError(f"{name}: {error}") from None
    formulas = split_lines(cleaned) if split else [cleaned]
    return [formula.image for formula in formulas]


def _checked(strokes: Sequence[Any]) -> list[np.ndarray]:
    """Strokes as arrays (points, 2); empty ones are left out."""
    checked = []
    for number, stroke in enumerate(strokes, start=1):
        if len(stroke) == 0:
            continue
        try:
            points = np.asarray(stroke, np.float64)
        except (TypeError, ValueError):
            points = np.empty(0)
        if points.ndim != 2 or points.shape[1] < 2:
            raise InkError(f"strokes: stroke {number} is not a list of points (x, y)")
        points = points[:, :2]
        if not (np.abs(points) <= _FARTHEST).all():
            raise InkError(f"strokes: stroke {number} has a coordinate that is no usual number")
        checked.append(points)
    if not checked:
        raise InkError("strokes: there is no ink")
    return checked


def _windows(
    prepared: Iterable[list[np.ndarray] | PosformerError],
) -> Iterator[list[list[np.ndarray] | PosformerError]]:
    """Some sources at a time, bounded in number and in pixels."""
    window: list[list[np.ndarray] | PosformerError] = []
    pixels = 0
    for part in prepared:
        window.append(part)
        if not isinstance(part, PosformerError):
            pixels += sum(image.size for image in part)
        if len(window) >= _WINDOW_SOURCES or pixels >= _WINDOW_PIXELS:
            yield window
            window, pixels = [], 0
    if window:
        yield window


def _joined(lines: Sequence[Recognition]) -> Recognition:
    """Formulas that stand below each other as one result."""
    if len(lines) == 1:
        return lines[0]
    tokens: list[str] = []
    for number, line in enumerate(lines):
        tokens += [_LINE_BREAK, *line.tokens] if number else line.tokens
    return replace(
        lines[0],
        latex=to_latex(in_lines(tokens)),
        confidence=float(np.prod([line.confidence for line in lines])),
        tokens=tuple(tokens),
        alternatives=(),
        lines=tuple(lines),
    )
