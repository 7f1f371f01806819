"""The recognizer: an image or strokes in, LaTeX out."""

from __future__ import annotations

import io
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

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
from posformer.runtime.decoding import decode_images
from posformer.runtime.engine import Engine, Runtime, load_runtime
from posformer.search import DecodingOptions, Hypothesis

Image = NDArray[np.uint8]  # (height, width), white ink on black
# Each stroke is a list of points or an array (points, 2 or more): x, y (down), in any unit.
Strokes = Sequence[Sequence[Sequence[float]]] | Sequence[NDArray[Any]]
Source = ImageInput | Strokes

_LINE_BREAK = r"\\"
_UNSURE_BELOW = 0.5
_UNSURE_BELOW_UNCALIBRATED = 0.9
_WINDOW_SOURCES = 32  # decoded together at most, which bounds memory and latency
_WINDOW_PIXELS = 4_000_000
_MAX_COORDINATE = 1e9


@dataclass(frozen=True)
class Alternative:
    """Another hypothesis for the same image."""

    latex: str
    confidence: float
    tokens: tuple[str, ...]


@dataclass(frozen=True)
class Recognition:
    """The result of recognizing one image."""

    latex: str
    confidence: float  # probability that every token is correct; see `calibrated`
    tokens: tuple[str, ...]
    alternatives: tuple[Alternative, ...] = ()  # next best hypotheses, best first
    calibrated: bool = False  # if not, confidence is the mean probability of a token
    lines: tuple[Recognition, ...] = ()  # of formulas that stand below each other, if several

    @property
    def is_unsure(self) -> bool:
        """Whether the result is more likely wrong than right."""
        return self.confidence < (_UNSURE_BELOW if self.calibrated else _UNSURE_BELOW_UNCALIBRATED)

    @property
    def readings(self) -> tuple[Alternative, ...]:
        """All hypotheses, the best first."""
        return Alternative(self.latex, self.confidence, self.tokens), *self.alternatives

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-serializable dict of `latex`, `confidence` and `alternatives`."""
        best, *others = (
            {"latex": one.latex, "confidence": round(one.confidence, 6)} for one in self.readings
        )
        return {**best, "alternatives": others}

    @property
    def markdown(self) -> str:
        """The result as a Markdown formula."""
        return f"$${self.latex}$$" if self._is_display else f"${self.latex}$"

    @property
    def _is_display(self) -> bool:
        """Whether it has several lines, which only display mode can show."""
        return bool(self.lines) or _LINE_BREAK in self.tokens

    @property
    def mathml(self) -> str:
        """The result as presentation MathML; an `merror` if its LaTeX is malformed."""
        return to_mathml(self.latex, display=self._is_display)


class Recognizer:
    """Recognizes handwritten or printed mathematics. Thread-safe.

    The recognition methods take a `DecodingOptions`, keyword arguments that override single
    fields of it, or both: `recognize(image, top_k=3)`.

    Args:
        runtime: A loaded model; `Recognizer.load` creates one.
    """

    def __init__(self, runtime: Runtime) -> None:
        self.runtime = runtime
        self.calibration = Calibration.from_info(runtime.info)
        # A model that knows line breaks reads several lines at once.
        self._splits_lines = _LINE_BREAK not in runtime.vocabulary

    @classmethod
    def load(
        cls,
        path: str | os.PathLike[str] | None = None,
        engine: Engine = "auto",
        threads: int | None = None,
    ) -> Recognizer:
        """Load a model.

        Args:
            path: A model folder or a training checkpoint; the bundled model if None.
            engine: `onnx`, `pytorch`, or `auto` for ONNX Runtime where the model supports it.
            threads: CPU threads; all cores if None.

        Raises:
            ModelError: If the model is missing or damaged.
        """
        return cls(load_runtime(path, engine, threads))

    def recognize(
        self, source: Source, options: DecodingOptions | None = None, **overrides: Any
    ) -> Recognition:
        """Recognize one image or one set of strokes.

        Args:
            source: A path, bytes, or a binary file of an image or of InkML; a PIL image; an array
                (height, width) or (height, width, channels), uint8, uint16, bool or float; or
                strokes, see `recognize_strokes`.
            options: How to decode; the defaults if None.
            **overrides: Single fields of the options, such as `top_k=3`, `beam=10`, `scales=1` or
                `greedy=True`.

        Raises:
            PosformerError: If the source cannot be read or contains no ink, or an option is
                invalid.
        """
        return next(self.recognize_many([source], options, **overrides))

    def recognize_strokes(
        self, strokes: Strokes, options: DecodingOptions | None = None, **overrides: Any
    ) -> Recognition:
        """Recognize pen strokes; see `recognize`.

        Args:
            strokes: Each a list of points or a float array (points, 2 or more): x, y (down), in
                any unit. Further columns, such as pressure, are ignored.
            options: How to decode; the defaults if None.
            **overrides: Single fields of the options.
        """
        return self.recognize(strokes, options, **overrides)

    def recognize_many(
        self, sources: Iterable[Source], options: DecodingOptions | None = None, **overrides: Any
    ) -> Iterator[Recognition]:
        """Recognize any number of sources lazily, in order; see `recognize`.

        Memory use is bounded. The first source that cannot be read raises its error when its
        turn comes; `attempt_many` continues after it.
        """
        for result in self.attempt_many(sources, options, **overrides):
            if isinstance(result, PosformerError):
                raise result
            yield result

    def attempt_many(
        self,
        sources: Iterable[Source | PosformerError],
        options: DecodingOptions | None = None,
        **overrides: Any,
    ) -> Iterator[Recognition | PosformerError]:
        """Like `recognize_many`, but yield the error of a source that cannot be read.

        An error among the sources is passed through.
        """
        options = DecodingOptions.override(options, **overrides)
        for window in _windows(self._prepare(source) for source in sources):
            yield from self._decode(window, options)

    def _prepare(self, source: Source | PosformerError) -> list[Image] | PosformerError:
        """Return the images of a source's formulas, or the error that prevents it."""
        if isinstance(source, PosformerError):
            return source
        try:
            return prepare(source, self._splits_lines)
        except PosformerError as error:
            return error

    def _decode(
        self, window: Sequence[list[Image] | PosformerError], options: DecodingOptions
    ) -> Iterator[Recognition | PosformerError]:
        images = [part for part in window if not isinstance(part, PosformerError)]
        decoded = iter(decode_images(self.runtime, list(chain(*images)), options))
        for part in window:
            if isinstance(part, PosformerError):
                yield part
            else:
                yield _join_lines([self._recognition(next(decoded)) for _ in part])

    def _recognition(self, hypotheses: Sequence[Hypothesis]) -> Recognition:
        readings = []
        scores = confidences(hypotheses, self.calibration)
        for hypothesis, confidence in zip(hypotheses, scores, strict=True):
            tokens = tuple(self.runtime.vocabulary.decode(hypothesis.tokens, skip_special=True))
            readings.append(Alternative(to_latex(in_lines(tokens)), confidence, tokens))
        best, *others = readings
        calibrated = self.calibration is not None
        return Recognition(best.latex, best.confidence, best.tokens, tuple(others), calibrated)


def prepare(source: Source, split: bool = True) -> list[Image]:
    """Convert a source to images like those that models are trained on.

    Args:
        source: See `Recognizer.recognize`.
        split: Split formulas that stand below each other.

    Returns:
        One image per formula: uint8 (height, width), white ink on black, in the size of CROHME's
        images.

    Raises:
        PosformerError: If the source cannot be read or contains no ink.
    """
    if isinstance(source, (list, tuple)):
        return _prepare_strokes(_check_strokes(source), split)
    if isinstance(source, (str, os.PathLike)):
        if Path(source).suffix.lower() == ".inkml":
            return _prepare_strokes(read_inkml(source).strokes, split)
        return _prepare_image(source, os.fspath(source), split)
    if isinstance(source, (bytes, bytearray, memoryview)):
        source = io.BytesIO(source)
    read = getattr(source, "read", None)
    if read is None:
        return _prepare_image(cast(ImageInput, source), "image", split)
    content, name = read(), str(getattr(source, "name", "image"))
    if not isinstance(content, bytes):
        raise InkError(f"{name}: the file is in text mode; open it in binary mode")
    if is_inkml(content):
        return _prepare_strokes(read_inkml(content, name).strokes, split)
    file = io.BytesIO(content)
    file.name = name
    return _prepare_image(file, name, split)


def is_inkml(content: bytes) -> bool:
    """Return whether content starts like XML, as no image does."""
    return content[:64].lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"<")


def _prepare_strokes(strokes: Sequence[NDArray[Any]], split: bool) -> list[Image]:
    in_pixels = strokes_in_pixels(strokes)
    formulas = split_strokes(in_pixels) if split else [in_pixels]
    return [render(formula) for formula in formulas]


def _prepare_image(source: ImageInput, name: str, split: bool) -> list[Image]:
    try:
        cleaned = clean(load_image(source))
    except NoInkError as error:
        raise NoInkError(f"{name}: {error}") from None
    formulas = split_lines(cleaned) if split else [cleaned]
    return [formula.image for formula in formulas]


def _check_strokes(strokes: Sequence[Any]) -> list[NDArray[np.float64]]:
    """Return the strokes as float64 (points, 2) each, without empty ones."""
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
        if not (np.abs(points) <= _MAX_COORDINATE).all():
            raise InkError(f"strokes: stroke {number} has a coordinate that is out of range")
        checked.append(points)
    if not checked:
        raise InkError("strokes: there is no ink")
    return checked


def _windows(
    prepared: Iterable[list[Image] | PosformerError],
) -> Iterator[list[list[Image] | PosformerError]]:
    """Yield a few sources at a time, bounded in number and in pixels."""
    window: list[list[Image] | PosformerError] = []
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


def _join_lines(lines: Sequence[Recognition]) -> Recognition:
    """Join formulas that stand below each other into one result."""
    if len(lines) == 1:
        return lines[0]
    tokens = list(lines[0].tokens)
    for line in lines[1:]:
        tokens += [_LINE_BREAK, *line.tokens]
    return replace(
        lines[0],
        latex=to_latex(in_lines(tokens)),
        confidence=float(np.prod([line.confidence for line in lines])),
        tokens=tuple(tokens),
        alternatives=(),
        lines=tuple(lines),
    )
