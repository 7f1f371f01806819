"""Made-up handwritten expressions, for training on the fly and as sets in CROHME's layout."""

from __future__ import annotations

import json
import os
import re
import zipfile
from collections.abc import Collection, Iterable, Iterator, Sequence
from copy import copy
from dataclasses import dataclass, replace
from pathlib import Path

import cv2
import numpy as np

from posformer.data.image_dataset import list_splits, open_images
from posformer.data.ink_dataset import InkSample, InkSampler, load_ink
from posformer.errors import DataError
from posformer.ink.aligned import AlignedInk
from posformer.ink.alignment import in_pixels, inked_places
from posformer.ink.inkml import inkml_bytes
from posformer.ink.render import render_aligned
from posformer.latex import STRUCTURE_TOKENS, Vocabulary, complexity
from posformer.synthesis.bank import SymbolBank
from posformer.synthesis.glyphs import own_bank
from posformer.synthesis.grammar import Grammar
from posformer.synthesis.layout import NATURAL, LayoutStyle, lay_out
from posformer.synthesis.multiline import ENVIRONMENTS, arrange, environment_words

__all__ = [
    "SynthesisSampler",
    "Synthesizer",
    "open_synthesizer",
    "read_range",
    "write_set",
]

_NEW_TEXT_TRIES = 20
_TRIES = 1000
_EPOCH = (1980, 1, 1, 0, 0, 0)  # the archive of a seed is the same at any time of day


@dataclass(frozen=True)
class Synthesizer:
    """Draws texts from a grammar and writes them with symbols of a bank."""

    grammar: Grammar
    bank: SymbolBank
    levels: tuple[int, ...] = ()  # nested levels, drawn evenly; as the grammar has them if empty
    lines: tuple[int, int] = (1, 1)  # fewest and most lines
    environments: tuple[str, ...] = ()  # that lines are set in, drawn evenly; bare lines if empty
    max_tokens: int = 60  # of a line
    max_symbols: int | None = None  # with ink, of an expression
    style: LayoutStyle = NATURAL
    known: frozenset[tuple[str, ...]] = frozenset()  # texts that are not new
    held_out: frozenset[tuple[str, ...]] = frozenset()  # texts that are never made

    def __post_init__(self) -> None:
        if not 1 <= self.lines[0] <= self.lines[1]:
            raise DataError(f"lines {self.lines}: fewest and most, from 1, are needed")
        if any(level < 0 for level in self.levels):
            raise DataError(f"levels {self.levels}: a nested level is 0 or more")
        if unknown := set(self.environments) - ENVIRONMENTS:
            raise DataError(
                f"environment '{min(unknown)}': known are {', '.join(sorted(ENVIRONMENTS))}"
            )

    @classmethod
    def from_ink(
        cls, inks: Sequence[AlignedInk], vocabulary: Collection[str] | None = None
    ) -> Synthesizer:
        """Learn texts and symbols from aligned ink.

        Args:
            inks: Handwritten expressions.
            vocabulary: The words that may be used; all by default.
        """
        bank = SymbolBank.from_inks(inks)
        texts = [ink.tokens for ink in inks]
        grammar = Grammar.fit(texts, _usable(bank, vocabulary))
        return cls(grammar, bank, known=frozenset(texts))

    @classmethod
    def own(cls, vocabulary: Collection[str] | None = None) -> Synthesizer:
        """With the project's own formulas and ink: needs no corpus."""
        bank = own_bank()
        return cls(Grammar.own(_usable(bank, vocabulary)), bank)

    @property
    def tokens(self) -> frozenset[str]:
        """All words that expressions can have."""
        words = set(self.grammar.tokens)
        if self.lines[1] > 1:
            words.add("\\\\")
        return frozenset(words).union(*map(environment_words, self.environments))

    def make(
        self,
        rng: np.random.Generator,
        level: int | None = None,
        name: str = "",
        seen: Collection[tuple[str, ...]] = (),
    ) -> AlignedInk:
        """A new expression.

        Args:
            rng: All chance comes from here.
            level: Its nested level; drawn from `levels` by default.
            name: Its name.
            seen: Texts that are not new, beside those known; where no other is found in a few
                tries, as among the shortest, a text may come again.

        Returns:
            Ink in whole numbers, about 100 to an x-height.
        """
        if level is None and self.levels:
            level = self.levels[int(rng.integers(len(self.levels)))]
        for attempt in range(_TRIES):
            tokens = self._text(rng, level)
            new = tokens not in self.known and tokens not in seen
            if self._may_be(tokens, level) and (new or attempt >= _NEW_TEXT_TRIES):
                return lay_out(tokens, self.bank, rng, self.style, name=name)
        raise DataError(
            f"in {_TRIES} tries no new expression was found"
            + ("" if level is None else f" of level {level}")
            + ("" if self.max_symbols is None else f" with at most {self.max_symbols} symbols")
        )

    def _text(self, rng: np.random.Generator, level: int | None) -> tuple[str, ...]:
        lines = int(rng.integers(self.lines[0], self.lines[1] + 1))
        if not self.environments:
            return tuple(self.grammar.sample(rng, level, self.max_tokens, lines))
        environment = self.environments[int(rng.integers(len(self.environments)))]
        return tuple(arrange(self.grammar, environment, rng, lines, self.max_tokens))

    def _may_be(self, tokens: tuple[str, ...], level: int | None) -> bool:
        if self.max_symbols is not None and len(inked_places(tokens)) > self.max_symbols:
            return False
        if self.environments and level is not None and complexity(tokens) != level:
            return False
        return tokens not in self.held_out


def _usable(bank: SymbolBank, vocabulary: Collection[str] | None) -> frozenset[str]:
    """The words that can be written, of those that may be."""
    words = bank.tokens | STRUCTURE_TOKENS
    return words if vocabulary is None else words.intersection(vocabulary)


def open_synthesizer(
    ink: str | os.PathLike[str] | None = None,
    ink_split: str = "train",
    vocabulary: str | os.PathLike[str] | None = None,
    *,
    levels: str = "",
    lines: str = "1",
    environments: str = "",
    max_tokens: int = 60,
    max_symbols: int | None = None,
    leave_out: str | os.PathLike[str] | None = None,
) -> Synthesizer:
    r"""A synthesizer as it is asked for in words.

    Args:
        ink: A set of InkML files, folder or archive; the project's own ink by default.
        ink_split: Which part of it.
        vocabulary: A file of the words that may be used, one a line; `\\` always may.
        levels: Nested levels, such as `1-4`; any if empty.
        lines: Numbers of lines, such as `2-4`.
        environments: What lines are set in, such as `cases,aligned,pmatrix`; nothing if empty.
        max_tokens: No more tokens than this in a line.
        max_symbols: No more symbols with ink than this in an expression; None for any number.
        leave_out: A set of images whose texts are not made.
    """
    words = None if vocabulary is None else Vocabulary.load(vocabulary).tokens
    if ink is None:
        synthesizer = Synthesizer.own(words)
    else:
        synthesizer = Synthesizer.from_ink(load_ink(ink, ink_split), words)
    lowest, highest = read_range(levels) if levels else (0, -1)
    return replace(
        synthesizer,
        levels=tuple(range(lowest, highest + 1)),
        lines=read_range(lines),
        environments=tuple(environments.split(",")) if environments else (),
        max_tokens=max_tokens,
        max_symbols=max_symbols,
        held_out=frozenset() if leave_out is None else _texts(leave_out),
    )


def _texts(path: str | os.PathLike[str]) -> frozenset[tuple[str, ...]]:
    """The captions of all splits of a set of images."""
    return frozenset(
        example.tokens for split in list_splits(path) for example in open_images(path, split)
    )


def read_range(text: str) -> tuple[int, int]:
    """Smallest and largest of a range such as `1-4`, or `3` for a single number."""
    match = re.fullmatch(r"(\d+)(?:-(\d+))?", text)
    low, high = (int(match[1]), int(match[2] or match[1])) if match else (1, 0)
    if high < low:
        raise DataError(f"'{text}' is not a range such as 1-4")
    return low, high


class SynthesisSampler:
    """Draws made-up training examples; see `Sampler`.

    Every example is new each time it is drawn; the index says nothing.
    """

    def __init__(
        self,
        synthesizer: Synthesizer,
        length: int,
        template: InkSampler | None = None,
    ) -> None:
        """Draw from a synthesizer.

        Args:
            synthesizer: What makes expressions.
            length: How many examples an epoch has.
            template: How ink becomes an example: style, scale, augmentation; its own ink is not
                used. By default images look like CROHME's, with no augmentation.
        """
        self.synthesizer = synthesizer
        self.length = length
        # A template without ink is empty, and so false.
        self.template = InkSampler((), scale_range=None) if template is None else template

    def __len__(self) -> int:
        return self.length

    def sample(self, index: int, rng: np.random.Generator) -> InkSample:
        """Make up one example; nothing is rendered."""
        ink = self.synthesizer.make(rng, name=f"synthetic-{index}")
        source = copy(self.template)
        source.inks = [in_pixels(ink)]
        return source.sample(0, rng)


def write_set(
    path: str | os.PathLike[str],
    synthesizer: Synthesizer,
    count: int,
    seed: int = 0,
    split: str = "synthetic",
) -> Iterator[AlignedInk]:
    r"""Write a set of made-up expressions as a zip archive in CROHME's layout.

    It holds `data/<split>/caption.txt`, `img/<name>.bmp`, `inkml/<name>.inkml` and `boxes.json`:
    for every name its nested `level`, its `tokens` and for each of them the box in the image
    (left, top, right, bottom) or null. Levels take turns, so a set has as many of each. The
    archive depends on the seed alone, byte for byte, and a longer set begins with a shorter one.

    Args:
        path: The archive.
        synthesizer: What makes expressions.
        count: How many.
        seed: Other seeds give other sets.
        split: Name of the set within the archive.

    Yields:
        Every expression once it is written; the archive is complete after the last.
    """
    if not re.fullmatch(r"\w[\w.-]*", split):
        raise DataError(f"'{split}' is no name for a set: letters, digits, '_', '-' and '.'")
    unfinished = Path(f"{os.fspath(path)}.part")
    try:
        with zipfile.ZipFile(unfinished, "w") as archive:
            yield from _written(archive, _numbered(synthesizer, count, seed, split), split)
        unfinished.replace(path)
    except OSError as error:
        raise DataError(f"{path}: cannot be written: {error.strerror}") from error
    finally:
        unfinished.unlink(missing_ok=True)


def _written(
    archive: zipfile.ZipFile, inks: Iterable[AlignedInk], split: str
) -> Iterator[AlignedInk]:
    """Put ink into an archive, one after the other, and in the end what is said about all."""
    captions: list[str] = []
    boxes: dict[str, object] = {}
    for ink in inks:
        image, places = render_aligned(in_pixels(ink))
        _add(archive, f"data/{split}/img/{ink.name}.bmp", _bmp(image))
        _add(archive, f"data/{split}/inkml/{ink.name}.inkml", inkml_bytes(ink))
        captions.append(f"{ink.name}\t{' '.join(ink.tokens)}\n")
        boxes[ink.name] = {
            "level": complexity(ink.tokens),
            "tokens": ink.tokens,
            "boxes": [None if np.isnan(box[0]) else box.tolist() for box in places],
        }
        yield ink
    _add(archive, f"data/{split}/caption.txt", "".join(captions).encode())
    _add(archive, f"data/{split}/boxes.json", json.dumps(boxes).encode())


def _numbered(synthesizer: Synthesizer, count: int, seed: int, split: str) -> Iterator[AlignedInk]:
    seen: set[tuple[str, ...]] = set()
    levels = synthesizer.levels or (None,)
    for number in range(count):
        rng = np.random.Generator(np.random.PCG64(np.random.SeedSequence([seed, number])))
        level = levels[number % len(levels)]
        ink = synthesizer.make(rng, level, f"{split}_{number:06d}", seen)
        seen.add(ink.tokens)
        yield ink


def _add(archive: zipfile.ZipFile, name: str, data: bytes) -> None:
    entry = zipfile.ZipInfo(name, _EPOCH)
    entry.compress_type = zipfile.ZIP_DEFLATED
    entry.create_system = 3  # else the archive would tell the system it was made on
    entry.external_attr = 0o644 << 16
    archive.writestr(entry, data, compresslevel=1)


def _bmp(image: np.ndarray) -> bytes:
    return bytes(cv2.imencode(".bmp", image)[1])
