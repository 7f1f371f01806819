"""From an image to a folder that shows where models looked in it."""

from collections.abc import Sequence
from dataclasses import dataclass
from os import PathLike, fspath
from pathlib import Path

import numpy as np
from PIL import Image

from posformer.errors import PosformerError
from posformer.explain.attention_maps import Direction, LayerLook, Looking, look
from posformer.explain.figures import (
    animate,
    draw_frames,
    draw_overview,
    draw_symbols,
    in_few_colours,
)
from posformer.explain.page import Section, page
from posformer.latex import normalize, to_latex
from posformer.recognizer import prepare
from posformer.runtime.decoding import DEFAULT_BEAM, DEFAULT_VIEWS, decode_images, search_options
from posformer.runtime.engine import Runtime, load_runtime

__all__ = ["Explained", "explain"]

_Path = str | PathLike[str]


@dataclass(frozen=True)
class Explained:
    """What was written into a folder."""

    page: Path  # shows all of it
    latex: tuple[str, ...]  # of each formula
    notes: tuple[str, ...]  # what could not be shown, and why
    sections: tuple[Section, ...]


def explain(
    image: _Path,
    output: _Path,
    *,
    model: _Path | None = None,
    against: _Path | None = None,
    latex: str | None = None,
    direction: Direction = "forward",
    beam: int = DEFAULT_BEAM,
    threads: int | None = None,
) -> Explained:
    """Show where a model, or two side by side, look while they write what an image says.

    Args:
        image: of a formula, or InkML.
        output: the folder to write; what an earlier call left in it is replaced.
        model: a model folder, or a checkpoint that training left; None for the shipped model.
        against: another model, made to write the same.
        latex: what to write, instead of what the first model reads.
        direction: in which it is written.
        beam: hypotheses followed while reading.
        threads: of the CPU; None for as many as there are cores.

    Raises:
        PosformerError: If the image or a model cannot be read, or a model cannot write this.
    """
    models = [_Model.load(model, threads)]
    if against is not None:
        models.append(_Model.load(against, threads))
    splits = latex is None and r"\\" not in models[0].runtime.vocabulary
    formulas = prepare(image, splits)
    wanted = None if latex is None else tuple(normalize(latex))
    folder, sections = Path(output), []
    for number, formula in enumerate(formulas, start=1):
        place = f"formula-{number}/" if len(formulas) > 1 else ""
        readings = [one.read(formula, beam) for one in models]
        tokens = readings[0] if wanted is None else wanted
        if not tokens:
            raise PosformerError(
                f"{fspath(image)}: nothing was read; say with --latex what to write"
            )
        lookings = [one.look(formula, tokens, direction) for one in models]
        sections.append(_write(folder, place, lookings, readings, to_latex(tokens)))
    notes = tuple(note for one in models for note in one.notes)
    shown = folder / "index.html"
    shown.write_text(page(Path(image).name, sections, notes), encoding="utf-8")
    return Explained(shown, tuple(one.written for one in sections), notes, tuple(sections))


class _Model:
    """A model, what to call it, and what it cannot tell."""

    def __init__(self, runtime: Runtime, path: _Path | None, threads: int | None) -> None:
        self.runtime, self._path, self._threads = runtime, path, threads
        self.name = "shipped model" if path is None else Path(path).stem
        self.notes: list[str] = []

    @classmethod
    def load(cls, path: _Path | None, threads: int | None) -> "_Model":
        return cls(load_runtime(path, threads=threads), path, threads)

    def read(self, formula: np.ndarray, beam: int) -> tuple[str, ...]:
        """What the model reads by itself."""
        options = search_options(self.runtime.config, beam, views=DEFAULT_VIEWS)
        ((best, *_),) = decode_images(self.runtime, [formula], options)
        return tuple(self.runtime.vocabulary.decode(best.tokens, skip_special=True))

    def look(self, formula: np.ndarray, tokens: Sequence[str], direction: Direction) -> Looking:
        """Where it looks; by PyTorch if its ONNX files do not tell enough."""
        found = look(self.runtime, formula, tokens, direction, self.name)
        if not found.layers:
            self._note("this kind of model does not tell where it looks; what it read is shown")
        elif not found.knows_before:
            try:
                self.runtime = load_runtime(self._path, "pytorch", self._threads)
            except PosformerError:
                self._note(
                    "its decoder.onnx tells attention after correction only; export the model "
                    "anew, or install PyTorch, to see the rest"
                )
            else:
                found = look(self.runtime, formula, tokens, direction, self.name)
        return found

    def _note(self, text: str) -> None:
        if not self.notes:
            self.notes.append(f"{self.name}: {text}")


def _write(
    folder: Path,
    place: str,
    lookings: Sequence[Looking],
    readings: Sequence[Sequence[str]],
    written: str,
) -> Section:
    """All files of one formula."""
    (folder / place).mkdir(parents=True, exist_ok=True)
    Image.fromarray(255 - lookings[0].image).save(folder / place / "image.png")
    telling = [one for one in lookings if one.layers]
    endings = ("", "-against")
    return Section(
        place,
        tuple(lookings),
        tuple(to_latex(reading) for reading in readings),
        written,
        _write_sheets(folder, place, telling),
        tuple(
            _saved(draw_overview(one), folder, f"{place}overview{ending}.png")
            if one.layers
            else None
            for one, ending in zip(lookings, endings, strict=False)
        ),
        _write_animation(folder, f"{place}attention.gif", telling),
        tuple(
            _write_numbers(folder, f"{place}attention{ending}.npz", one)
            for one, ending in zip(lookings, endings, strict=False)
        ),
    )


def _saved(image: Image.Image, folder: Path, name: str) -> str:
    (reduced,) = in_few_colours([image])
    reduced.save(folder / name, optimize=True)
    return name


def _write_sheets(folder: Path, place: str, lookings: Sequence[Looking]) -> tuple[str, ...]:
    sheets = folder / place / "symbols"
    sheets.mkdir(exist_ok=True)
    for old in sheets.glob("[0-9][0-9][0-9].png"):
        old.unlink()
    if not lookings:
        return ()
    return tuple(
        _saved(sheet, folder, f"{place}symbols/{number:03}.png")
        for number, sheet in enumerate(draw_symbols(lookings), start=1)
    )


def _write_animation(folder: Path, name: str, lookings: Sequence[Looking]) -> str | None:
    if not lookings:
        return None
    (first, *others), times = animate(draw_frames(lookings))
    first.save(folder / name, save_all=True, append_images=others, duration=times, loop=0)
    return name


def _write_numbers(folder: Path, name: str, looking: Looking) -> str:
    """`attention.npz`: everything, head by head."""
    arrays: dict[str, np.ndarray] = {
        "image": looking.image,
        "tokens": np.array(looking.tokens),
        "probability": looking.probability,
        "preferred": np.array(looking.preferred),
        "left_out": np.array(looking.left_out),
    }
    for number, layer in enumerate(looking.layers, start=1):
        arrays |= {f"{kind}_{number}": maps for kind, maps in _told(layer)}
    np.savez_compressed(folder / name, **arrays)  # type: ignore[arg-type]
    return name


def _told(layer: LayerLook) -> list[tuple[str, np.ndarray]]:
    kinds = ("before", "after", "coverage", "correction")
    found = [(kind, getattr(layer, kind)) for kind in kinds]
    return [(kind, maps) for kind, maps in found if maps is not None]
