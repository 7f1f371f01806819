"""Explain an image: attention maps of one or two models, written into a folder."""

from collections.abc import Sequence
from dataclasses import dataclass
from os import PathLike, fspath
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from posformer.errors import PosformerError
from posformer.explain.figures import draw_frames, draw_overview, draw_sheets, save_animation
from posformer.explain.forced_decoding import Direction, ForcedDecoding, force_decode
from posformer.latex import is_structure, normalize, to_latex
from posformer.plotting import save_png
from posformer.recognizer import prepare
from posformer.runtime.decoding import decode_images
from posformer.runtime.engine import load_runtime
from posformer.search import DecodingOptions
from posformer.templating import render_template

_Path = str | PathLike[str]
_SUFFIXES = ("", "-against")  # of the files of the first and the second model


@dataclass(frozen=True)
class Formula:
    """The files of one formula; paths are relative to the output folder."""

    folder: str  # prefix of its files: "" or, for example, "formula-2/"
    decodings: tuple[ForcedDecoding, ...]  # of one or two models, for the same tokens
    predictions: tuple[str, ...]  # LaTeX that each model recognizes
    latex: str  # the decoded expression
    sheets: tuple[str, ...]  # an image for each token; empty without attention maps
    overviews: tuple[str | None, ...]  # for each model; None without attention maps
    animation: str | None
    arrays: tuple[str, ...]


@dataclass(frozen=True)
class Explained:
    """The output of `explain`."""

    page: Path
    latex: tuple[str, ...]  # of each formula
    notes: tuple[str, ...]  # what could not be shown, and why
    formulas: tuple[Formula, ...]


def explain(
    image: _Path,
    output: _Path,
    *,
    model: _Path | None = None,
    against: _Path | None = None,
    latex: str | None = None,
    direction: Direction = "forward",
    options: DecodingOptions | None = None,
    threads: int | None = None,
    allow_code: bool = False,
) -> Explained:
    """Write the attention maps of a model, or of two models side by side, into a folder.

    Args:
        image: Image of a formula, or InkML.
        output: Output folder; files of an earlier call are replaced.
        model: Model folder or training checkpoint; None for the bundled model.
        against: Second model, which decodes the same tokens.
        latex: Expression to decode; None for what the first model recognizes.
        direction: Decoding direction.
        options: How to decode; the defaults if None.
        threads: CPU threads; None for all cores.
        allow_code: Import the Python module that a model names.

    Raises:
        PosformerError: If the image or a model cannot be read, or a model cannot decode the
            expression.
    """
    paths = [model] if against is None else [model, against]
    models = [_Model(path, threads, allow_code) for path in paths]
    split = latex is None and r"\\" not in models[0].runtime.vocabulary
    images = prepare(image, split, models[0].runtime.config.image.preprocessing)
    given = None if latex is None else tuple(normalize(latex))
    folder = Path(output)
    formulas = []
    for number, formula in enumerate(images, start=1):
        predictions = [one.recognize(formula, options or DecodingOptions()) for one in models]
        tokens = predictions[0] if given is None else given
        if not tokens:
            raise PosformerError(f"{fspath(image)}: nothing recognized; set --latex")
        decodings = [one.force_decode(formula, tokens, direction) for one in models]
        subfolder = f"formula-{number}/" if len(images) > 1 else ""
        written = [to_latex(one) for one in (tokens, *predictions)]
        formulas.append(_write_formula(folder, subfolder, decodings, written))
    notes = tuple(f"{one.name}: {one.note}" for one in models if one.note)
    page = folder / "index.html"
    shown = {"title": Path(image).name, "notes": notes, "formulas": formulas}
    text = render_template(__package__, "explanation.html.j2", is_structure=is_structure, **shown)
    page.write_text(text, encoding="utf-8")
    return Explained(page, tuple(one.latex for one in formulas), notes, tuple(formulas))


class _Model:
    """A loaded model with its name and a note on missing outputs."""

    def __init__(self, path: _Path | None, threads: int | None, allow_code: bool) -> None:
        self.runtime = load_runtime(path, threads=threads, allow_code=allow_code)
        self._path, self._threads, self._allow_code = path, threads, allow_code
        self.name = "bundled model" if path is None else Path(path).stem
        self.note: str | None = None

    def recognize(self, formula: np.ndarray, options: DecodingOptions) -> tuple[str, ...]:
        ((best, *_),) = decode_images(self.runtime, [formula], options)
        return tuple(self.runtime.vocabulary.decode(best.tokens, skip_special=True))

    def force_decode(
        self, formula: np.ndarray, tokens: Sequence[str], direction: Direction
    ) -> ForcedDecoding:
        """Decode tokens; with PyTorch if the ONNX files lack outputs."""
        found = force_decode(self.runtime, formula, tokens, direction, self.name)
        if not found.attention:
            self.note = "this model has no attention maps; only its prediction is shown"
        elif not found.has_raw_weights:
            try:
                self.runtime = load_runtime(self._path, "pytorch", self._threads, self._allow_code)
            except PosformerError:
                self.note = (
                    "its decoder.onnx has attention weights after refinement only; export the "
                    "model again, or install PyTorch, to see the others"
                )
            else:
                found = force_decode(self.runtime, formula, tokens, direction, self.name)
        return found


def _write_formula(
    folder: Path, subfolder: str, decodings: Sequence[ForcedDecoding], latex: Sequence[str]
) -> Formula:
    """Write all files of one formula; `latex` is the decoded expression and the predictions."""
    sheet_folder = folder / subfolder / "symbols"
    sheet_folder.mkdir(parents=True, exist_ok=True)
    for old in sheet_folder.glob("[0-9][0-9][0-9].png"):
        old.unlink()
    Image.fromarray(255 - decodings[0].image).save(folder / subfolder / "image.png")
    shown = [one for one in decodings if one.attention]
    sheets, animation = [], None
    if shown:
        for number, sheet in enumerate(draw_sheets(shown), start=1):
            sheets.append(f"{subfolder}symbols/{number:03}.png")
            save_png(sheet, folder / sheets[-1])
        animation = f"{subfolder}attention.gif"
        save_animation(draw_frames(shown), folder / animation)
    overviews: list[str | None] = []
    arrays = []
    for decoding, suffix in zip(decodings, _SUFFIXES, strict=False):
        overview = f"{subfolder}overview{suffix}.png" if decoding.attention else None
        if overview:
            save_png(draw_overview(decoding), folder / overview)
        overviews.append(overview)
        arrays.append(f"{subfolder}attention{suffix}.npz")
        _save_arrays(folder / arrays[-1], decoding)
    return Formula(
        subfolder, tuple(decodings), tuple(latex[1:]), latex[0],
        tuple(sheets), tuple(overviews), animation, tuple(arrays),
    )  # fmt: skip


def _save_arrays(path: Path, decoding: ForcedDecoding) -> None:
    """Save all arrays of a decoding, with all heads, as `attention.npz`."""
    names = ("image", "tokens", "probability", "preferred")
    arrays: dict[str, Any] = {name: getattr(decoding, name) for name in names}
    arrays["left_out"] = decoding.excluded
    for number, layer in enumerate(decoding.attention, start=1):
        maps = {"before": layer.raw_weights, "after": layer.weights, "correction": layer.refinement}
        known = {name: array[0, 0] for name, array in maps.items() if array is not None}
        covered = decoding.coverage(number - 1)
        if covered is not None:
            known["coverage"] = covered
        arrays |= {f"{name}_{number}": array for name, array in known.items()}
    np.savez_compressed(path, **arrays)
