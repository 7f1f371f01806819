"""The recognizer: an image or strokes in, LaTeX out."""

from __future__ import annotations

import io
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from posformer.errors import ImageError, InkError, ModelError, NoInkError, PosformerError
from posformer.image.loading import ImageInput, load_reduced
from posformer.image.preparation import InputKind, Preprocessing, input_kind, prepare_image
from posformer.ink.aligned import bounds
from posformer.ink.ink_formats import InkDocument, is_ink, read_ink
from posformer.ink.render import render, strokes_in_pixels
from posformer.ink.splitting import split_page, split_strokes
from posformer.latex import convert, in_lines, to_latex
from posformer.runtime.calibration import Calibrations, confidences
from posformer.runtime.decoding import decode_images
from posformer.runtime.engine import Engine, Runtime, load_runtime, model_path
from posformer.runtime.symbol_confidence import SymbolScore, score_symbols
from posformer.runtime.thresholds import Thresholds
from posformer.search import DecodingOptions, Hypothesis

Image = NDArray[np.uint8]  # (height, width), white ink on black
# Each stroke is a list of points or an array (points, 2 or more): x, y (down), in any unit.
Strokes = Sequence[Sequence[Sequence[float]]] | Sequence[NDArray[Any]]
Source = ImageInput | Strokes | InkDocument
Box = tuple[float, float, float, float]  # left, top, right, bottom

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
    lines: tuple[Recognition, ...] = ()  # of the formulas of the source, if several
    readable: bool = True  # if not, the result is a guess: most likely there is no formula
    # The place of a formula in a document of ink: page from 1, box in the unit of the document.
    page: int | None = field(default=None, compare=False)
    box: Box | None = field(default=None, compare=False)
    symbols: tuple[SymbolScore, ...] = ()  # if requested with `symbols=True`

    @property
    def is_unsure(self) -> bool:
        """Whether the result is more likely wrong than right."""
        return self.confidence < (_UNSURE_BELOW if self.calibrated else _UNSURE_BELOW_UNCALIBRATED)

    @property
    def error(self) -> str | None:
        """The reason why the result should not be used, or None."""
        return None if self.readable else "not readable"

    @property
    def readings(self) -> tuple[Alternative, ...]:
        """All hypotheses, the best first."""
        return Alternative(self.latex, self.confidence, self.tokens), *self.alternatives

    @property
    def formulas(self) -> tuple[Recognition, ...]:
        """The results to report one by one: the formulas of a document of ink, or this one."""
        return self.lines if any(line.box for line in self.lines) else (self,)

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-serializable dict of `latex`, `confidence` and `alternatives`.

        A formula of a document of ink also has `page` and `box`. If the symbols were requested,
        there are `tokens` and `symbols`, too.
        """
        best, *others = self._records()
        place = {"page": self.page, "box": self.box} if self.box else {}
        return {**best, "alternatives": others, **place, **self._symbol_records()}

    def to(self, format: str) -> str:
        """Return the result in a format of `posformer.latex.FORMATS`, such as `typst`.

        Raises:
            ConfigError: If the format is unknown.
            LatexError: If the result cannot be expressed in the format.
        """
        return convert(self.tokens, format)

    def to_failure(self) -> dict[str, Any]:
        """Return a JSON-serializable dict of `error` and `alternatives`, if not readable.

        The alternatives are all hypotheses, the best first.
        """
        return {"error": self.error, "alternatives": self._records()}

    def _records(self) -> list[dict[str, Any]]:
        return [
            {"latex": one.latex, "confidence": round(one.confidence, 6)} for one in self.readings
        ]

    def _symbol_records(self) -> dict[str, Any]:
        if not self.symbols:
            return {}
        symbols = [
            {
                "index": one.index,
                "token": one.token,
                "confidence": round(one.confidence, 6),
                "alternatives": [
                    {"token": token, "confidence": round(confidence, 6)}
                    for token, confidence in one.alternatives
                ],
            }
            for one in self.symbols
        ]
        return {"tokens": list(self.tokens), "symbols": symbols}

    @property
    def markdown(self) -> str:
        """The result as a Markdown formula."""
        return self.to("markdown")

    @property
    def mathml(self) -> str:
        """The result as presentation MathML; an `merror` if its LaTeX is malformed."""
        return self.to("mathml")


class Recognizer:
    """Recognizes handwritten or printed mathematics. Thread-safe.

    The recognition methods take a `DecodingOptions`, keyword arguments that override single
    fields of it, or both: `recognize(image, top_k=3)`.

    Args:
        runtime: A loaded model; `Recognizer.load` creates one.
    """

    def __init__(self, runtime: Runtime) -> None:
        self.runtime = runtime
        self._loaded_from: tuple[Any, ...] | None = None  # arguments of `load`
        self.calibrations = Calibrations.from_info(runtime.info)
        self.calibration = self.calibrations.of("ink")
        self.thresholds = Thresholds.from_info(runtime.info)
        # A model that knows line breaks reads several lines at once.
        self.splits_lines = _LINE_BREAK not in runtime.vocabulary

    @classmethod
    def load(
        cls,
        path: str | os.PathLike[str] | None = None,
        engine: Engine = "auto",
        threads: int | None = None,
        allow_code: bool = False,
    ) -> Recognizer:
        """Load a model.

        Args:
            path: A model folder or a training checkpoint; a model of the Hugging Face Hub
                (`hf://OWNER/NAME@REVISION`) or a model folder at another URL (`s3://…`); the
                bundled model if None.
            engine: `onnx`, `pytorch`, or `auto` for ONNX Runtime where the model supports it.
            threads: CPU threads; all cores if None.
            allow_code: Import the Python module that a model outside this package names; a model
                with ONNX files does not need it.

        Raises:
            ModelError: If the model is missing or damaged, or its module may not be imported.
        """
        path = path if path is None else model_path(path)  # other processes need no download
        recognizer = cls(load_runtime(path, engine, threads, allow_code))
        recognizer._loaded_from = (path, engine, threads, allow_code)
        return recognizer

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle as the arguments of `load`: another process loads the model itself."""
        if self._loaded_from is None:
            raise TypeError("only a recognizer that Recognizer.load returned can be pickled")
        return type(self).load, self._loaded_from

    def recognize(
        self, source: Source, options: DecodingOptions | None = None, **overrides: Any
    ) -> Recognition:
        """Recognize one image or one set of strokes.

        Args:
            source: A path, bytes, or a binary file of an image or of ink (InkML, Xournal++, SVG,
                Excalidraw); a PIL image; an array (height, width) or (height, width, channels),
                uint8, uint16, bool or float; strokes, see `recognize_strokes`; or what
                `posformer.ink.read_ink` returns.
            options: How to decode; the defaults if None.
            **overrides: Single fields of the options, such as `top_k=3`, `beam=10`, `scales=1` or
                `greedy=True`.

        Raises:
            PosformerError: If the source cannot be read, contains no ink or no formula is found
                in it, or an option is invalid.
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

    def prepare(self, source: Source, split: bool = True) -> list[Image]:
        """Convert a source to images for this model; see the function `prepare`."""
        return prepare(source, split, self.runtime.config.image.preprocessing)

    def _prepare(self, source: Source | PosformerError) -> list[Formula] | PosformerError:
        """Return the formulas of a source, or the error that prevents it."""
        if isinstance(source, PosformerError):
            return source
        try:
            how = self.runtime.config.image.preprocessing
            return find_formulas(source, self.splits_lines, how)
        except PosformerError as error:
            return error
        except MemoryError:  # a worker process reports it with its budget
            raise
        except Exception as error:  # an input must not end the run, whatever is wrong with it
            reason = next(iter(str(error).splitlines()), "") or type(error).__name__
            return ImageError(f"{_name(source)}: cannot be read ({reason[:120]})")

    def _decode(
        self, window: Sequence[list[Formula] | PosformerError], options: DecodingOptions
    ) -> Iterator[Recognition | PosformerError]:
        formulas = [part for part in window if not isinstance(part, PosformerError)]
        images = [formula.image for formula in chain(*formulas)]
        decoded = iter(decode_images(self.runtime, images, options))
        for part in window:
            if isinstance(part, PosformerError):
                yield part
            else:
                found = _join_lines(
                    [self._recognition(next(decoded), one, options) for one in part]
                )
                is_empty = not any(line.tokens for line in found.lines or (found,))
                yield NoInkError("no formula found") if is_empty else found

    def _recognition(
        self,
        hypotheses: Sequence[Hypothesis],
        formula: Formula,
        options: DecodingOptions = DecodingOptions(),  # noqa: B008 (frozen)
    ) -> Recognition:
        if not hypotheses:  # its outputs are not numbers
            raise ModelError("the model finds nothing at all; its weights are damaged")
        readings = []
        calibration = self.calibrations.of(formula.kind)
        scores = confidences(hypotheses, calibration)
        for hypothesis, confidence in zip(hypotheses, scores, strict=True):
            tokens = tuple(self.runtime.vocabulary.decode(hypothesis.tokens, skip_special=True))
            readings.append(Alternative(to_latex(in_lines(tokens)), confidence, tokens))
        best, *others = readings
        return Recognition(
            best.latex,
            best.confidence,
            best.tokens,
            tuple(others),
            calibrated=calibration is not None,
            readable=self.thresholds.is_readable(hypotheses[0]),
            page=formula.page,
            box=formula.box,
            symbols=score_symbols(self.runtime, formula.image, best.tokens)
            if options.symbols
            else (),
        )


@dataclass(frozen=True)
class Formula:
    """A formula before it is recognized."""

    image: Image  # in the size of CROHME's images
    page: int | None = None  # of a document of ink
    box: Box | None = None
    kind: InputKind = "ink"


def prepare(
    source: Source, split: bool = True, preprocessing: Preprocessing = "binary"
) -> list[Image]:
    """Convert a source to images like those that models are trained on.

    Args:
        source: See `Recognizer.recognize`.
        split: Split formulas that stand below each other.
        preprocessing: How images are prepared: `runtime.config.image.preprocessing` of the model.

    Returns:
        One image per formula: uint8 (height, width), white ink on black, in the size of CROHME's
        images.

    Raises:
        PosformerError: If the source cannot be read or contains no ink.
    """
    return [formula.image for formula in find_formulas(source, split, preprocessing)]


def find_formulas(
    source: Source, split: bool = True, preprocessing: Preprocessing = "binary"
) -> list[Formula]:
    """Return the formulas of a source with their images; see `prepare`.

    Formulas of a document of ink are split by the layout of the page, and know their place on it.
    """
    if isinstance(source, InkDocument):
        return _prepare_document(source, split)
    if isinstance(source, (list, tuple)):
        return _prepare_strokes(_check_strokes(source), split)
    if isinstance(source, (str, os.PathLike)):
        name = os.fspath(source)
        if is_ink(_head(name), name):
            return _prepare_document(read_ink(source), split)
        return _prepare_image(source, name, split, preprocessing)
    if isinstance(source, (bytes, bytearray, memoryview)):
        source = io.BytesIO(source)
    read = getattr(source, "read", None)
    if read is None:
        return _prepare_image(cast(ImageInput, source), "image", split, preprocessing)
    content, name = read(), str(getattr(source, "name", "image"))
    if not isinstance(content, bytes):
        raise InkError(f"{name}: the file is in text mode; open it in binary mode")
    if is_ink(content[:64]):
        return _prepare_document(read_ink(content, name), split)
    file = io.BytesIO(content)
    file.name = name
    return _prepare_image(file, name, split, preprocessing)


def _name(source: Source) -> str:
    """Return the name of a source for error messages."""
    if isinstance(source, (str, os.PathLike)):
        return os.fspath(source)
    return str(getattr(source, "name", "strokes" if isinstance(source, list | tuple) else "image"))


def _head(path: str) -> bytes:
    """Return the first bytes of a file; none if it cannot be read, which loading it reports.

    A pipe is not touched: what is read from it is gone.
    """
    if not Path(path).is_file():
        return b""
    try:
        with Path(path).open("rb") as stream:
            return stream.read(64)
    except OSError:
        return b""


def _prepare_document(document: InkDocument, split: bool) -> list[Formula]:
    return [
        Formula(render(strokes_in_pixels(strokes)), number, _box(strokes))
        for number, page in enumerate(document.pages, start=1)
        if page
        for strokes in split_page(page, lines=split)
    ]


def _box(strokes: Sequence[NDArray[Any]]) -> Box:
    corners = np.round(bounds(np.concatenate(strokes)), 2)
    (left, top), (right, bottom) = corners.tolist()
    return left, top, right, bottom


def _prepare_strokes(strokes: Sequence[NDArray[Any]], split: bool) -> list[Formula]:
    in_pixels = strokes_in_pixels(strokes)
    formulas = split_strokes(in_pixels) if split else [in_pixels]
    return [Formula(render(formula)) for formula in formulas]


def _prepare_image(
    source: ImageInput, name: str, split: bool, preprocessing: Preprocessing
) -> list[Formula]:
    try:
        image, reload = load_reduced(source)
        images = prepare_image(image, preprocessing, split, reload)
    except NoInkError as error:
        raise NoInkError(f"{name}: {error}") from None
    kind = input_kind(image)
    return [Formula(prepared, kind=kind) for prepared in images]


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
    prepared: Iterable[list[Formula] | PosformerError],
) -> Iterator[list[list[Formula] | PosformerError]]:
    """Yield a few sources at a time, bounded in number and in pixels."""
    window: list[list[Formula] | PosformerError] = []
    pixels = 0
    for part in prepared:
        window.append(part)
        if not isinstance(part, PosformerError):
            pixels += sum(formula.image.size for formula in part)
        if len(window) >= _WINDOW_SOURCES or pixels >= _WINDOW_PIXELS:
            yield window
            window, pixels = [], 0
    if window:
        yield window


def _join_lines(lines: Sequence[Recognition]) -> Recognition:
    """Join the formulas of a source into one result."""
    if len(lines) == 1:
        return lines[0]
    tokens = list(lines[0].tokens)
    symbols = list(lines[0].symbols)
    for line in lines[1:]:
        tokens.append(_LINE_BREAK)
        symbols += [replace(one, index=one.index + len(tokens)) for one in line.symbols]
        tokens += line.tokens
    return replace(
        lines[0],
        latex=to_latex(in_lines(tokens)),
        confidence=float(np.prod([line.confidence for line in lines])),
        tokens=tuple(tokens),
        alternatives=(),
        lines=tuple(lines),
        readable=2 * sum(len(line.tokens) for line in lines if line.readable) > len(tokens),
        page=None,
        box=None,
        symbols=tuple(symbols),
    )
