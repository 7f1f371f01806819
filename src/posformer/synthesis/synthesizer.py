"""Synthetic handwritten expressions, for training and as datasets in CROHME's layout."""

from __future__ import annotations

import json
import os
import re
import zipfile
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import cv2
import numpy as np

from posformer.atomic import atomic_path
from posformer.data.image_dataset import list_splits, open_images
from posformer.data.ink_dataset import InkSample, InkSampler, load_ink
from posformer.data.sampling import Sample, Sampler
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
from posformer.synthesis.multiline import ENVIRONMENTS, arrange, environment_tokens

__all__ = [
    "SynthesisSampler",
    "Synthesizer",
    "open_synthesizer",
    "read_range",
    "write_samples",
    "write_set",
]

_NEW_TEXT_ATTEMPTS = 20
_MAX_ATTEMPTS = 1000
_ZIP_TIME = (1980, 1, 1, 0, 0, 0)  # constant, so that archives are reproducible


@dataclass(frozen=True)
class Synthesizer:
    """Samples texts from a grammar and writes them with the symbols of a bank."""

    grammar: Grammar
    bank: SymbolBank
    levels: tuple[int, ...] = ()  # nested levels, sampled uniformly; any if empty
    lines: tuple[int, int] = (1, 1)  # minimum and maximum number of lines
    environments: tuple[str, ...] = ()  # sampled uniformly; plain lines if empty
    max_tokens: int = 60  # per line
    max_symbols: int | None = None  # with ink, per expression
    style: LayoutStyle = NATURAL
    known: frozenset[tuple[str, ...]] = frozenset()  # texts to avoid
    held_out: frozenset[tuple[str, ...]] = frozenset()  # texts that are never generated

    def __post_init__(self) -> None:
        if not 1 <= self.lines[0] <= self.lines[1]:
            raise DataError(f"lines {self.lines}: expected 1 <= minimum <= maximum")
        if any(level < 0 for level in self.levels):
            raise DataError(f"levels {self.levels}: a nested level is at least 0")
        if unknown := set(self.environments) - ENVIRONMENTS:
            raise DataError(
                f"environment '{min(unknown)}': expected one of {', '.join(sorted(ENVIRONMENTS))}"
            )

    @classmethod
    def from_ink(
        cls, inks: Sequence[AlignedInk], vocabulary: Collection[str] | None = None
    ) -> Synthesizer:
        """Create a synthesizer from the texts and symbols of aligned ink.

        Args:
            inks: Handwritten expressions.
            vocabulary: Allowed tokens; all by default.
        """
        bank = SymbolBank.from_inks(inks)
        texts = [ink.tokens for ink in inks]
        grammar = Grammar.fit(texts, _usable(bank, vocabulary))
        return cls(grammar, bank, known=frozenset(texts))

    @classmethod
    def own(cls, vocabulary: Collection[str] | None = None) -> Synthesizer:
        """Create a synthesizer from the project's own formulas and ink; needs no corpus."""
        bank = own_bank()
        return cls(Grammar.own(_usable(bank, vocabulary)), bank)

    @property
    def tokens(self) -> frozenset[str]:
        """All tokens that expressions can contain."""
        tokens = set(self.grammar.tokens)
        if self.lines[1] > 1:
            tokens.add("\\\\")
        return frozenset(tokens).union(*map(environment_tokens, self.environments))

    def make(
        self,
        rng: np.random.Generator,
        level: int | None = None,
        name: str = "",
        seen: Collection[tuple[str, ...]] = (),
    ) -> AlignedInk:
        """Generate an expression.

        Args:
            rng: Random generator.
            level: Nested level; sampled from `levels` by default.
            name: Name of the expression.
            seen: Texts to avoid in addition to `known`. If a few attempts yield no other text,
                as among the shortest, one of them is used again.

        Returns:
            Ink with integral coordinates, about 100 units per x-height.

        Raises:
            DataError: If the constraints cannot be met.
        """
        if level is None and self.levels:
            level = self.levels[int(rng.integers(len(self.levels)))]
        for attempt in range(_MAX_ATTEMPTS):
            tokens = self._sample_text(rng, level)
            new = tokens not in self.known and tokens not in seen
            if self._is_allowed(tokens, level) and (new or attempt >= _NEW_TEXT_ATTEMPTS):
                return lay_out(tokens, self.bank, rng, self.style, name=name)
        raise DataError(
            f"found no new expression in {_MAX_ATTEMPTS} attempts"
            + ("" if level is None else f" of level {level}")
            + ("" if self.max_symbols is None else f" with at most {self.max_symbols} symbols")
        )

    def _sample_text(self, rng: np.random.Generator, level: int | None) -> tuple[str, ...]:
        lines = int(rng.integers(self.lines[0], self.lines[1] + 1))
        if not self.environments:
            return tuple(self.grammar.sample(rng, level, self.max_tokens, lines))
        environment = self.environments[int(rng.integers(len(self.environments)))]
        return tuple(arrange(self.grammar, environment, rng, lines, self.max_tokens))

    def _is_allowed(self, tokens: tuple[str, ...], level: int | None) -> bool:
        if self.max_symbols is not None and len(inked_places(tokens)) > self.max_symbols:
            return False
        if self.environments and level is not None and complexity(tokens) != level:
            return False
        return tokens not in self.held_out


def _usable(bank: SymbolBank, vocabulary: Collection[str] | None) -> frozenset[str]:
    """Return the allowed tokens that the bank can write."""
    tokens = bank.tokens | STRUCTURE_TOKENS
    return tokens if vocabulary is None else tokens.intersection(vocabulary)


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
    r"""Create a synthesizer from command-line options.

    Args:
        ink: A dataset of InkML files, folder or archive; the project's own ink by default.
        ink_split: Split of that dataset.
        vocabulary: A file of allowed tokens, one per line; `\\` is always allowed.
        levels: Nested levels, such as `1-4`; any if empty.
        lines: Numbers of lines, such as `2-4`.
        environments: Environments of lines, such as `cases,aligned,pmatrix`; none if empty.
        max_tokens: Maximum number of tokens per line.
        max_symbols: Maximum number of symbols with ink per expression; None for no limit.
        leave_out: A dataset of images whose texts are not generated.
    """
    tokens = None if vocabulary is None else Vocabulary.load(vocabulary).tokens
    if ink is None:
        synthesizer = Synthesizer.own(tokens)
    else:
        synthesizer = Synthesizer.from_ink(load_ink(ink, ink_split), tokens)
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
    """Return the captions of all splits of a dataset of images."""
    return frozenset(
        example.tokens for split in list_splits(path) for example in open_images(path, split)
    )


def read_range(text: str) -> tuple[int, int]:
    """Parse a range such as `1-4`, or `3` for a single number.

    Returns:
        Smallest and largest number.

    Raises:
        DataError: If the text is not a range.
    """
    match = re.fullmatch(r"(\d+)(?:-(\d+))?", text)
    low, high = (int(match[1]), int(match[2] or match[1])) if match else (1, 0)
    if high < low:
        raise DataError(f"'{text}' is not a range such as 1-4")
    return low, high


class SynthesisSampler:
    """Samples synthetic training examples; see `Sampler`.

    Every call generates a new example; the index only appears in its name.
    """

    def __init__(
        self,
        synthesizer: Synthesizer,
        length: int,
        template: InkSampler | None = None,
    ) -> None:
        """Create a sampler.

        Args:
            synthesizer: Generates expressions.
            length: Number of examples per epoch.
            template: Style, scale and augmentation of examples; its own ink is not used. By
                default images look like CROHME's, without augmentation.
        """
        self.synthesizer = synthesizer
        self.length = length
        # A sampler without ink is empty and therefore false.
        self.template = InkSampler((), scale_range=None) if template is None else template

    def __len__(self) -> int:
        return self.length

    def sample(self, index: int, rng: np.random.Generator) -> InkSample:
        """Generate an example, without rendering it."""
        ink = self.synthesizer.make(rng, name=f"synthetic-{index}")
        return self.template.sample_ink(in_pixels(ink), rng)


def write_set(
    path: str | os.PathLike[str],
    synthesizer: Synthesizer,
    count: int,
    seed: int = 0,
    split: str = "synthetic",
) -> Iterator[AlignedInk]:
    r"""Write synthetic expressions to a zip archive in CROHME's layout.

    The archive contains `data/<split>/caption.txt`, `img/<name>.bmp`, `inkml/<name>.inkml` and
    `boxes.json`: for every name its nested `level`, its `tokens` and their boxes in the image
    (left, top, right, bottom, or null). Nested levels alternate, so all are equally frequent. The
    archive depends only on the seed, byte for byte, and a longer dataset begins with a shorter
    one.

    Args:
        path: The archive to write.
        synthesizer: Generates expressions.
        count: Number of expressions.
        seed: Random seed.
        split: Name of the split within the archive.

    Yields:
        Every expression once it is written. The archive is complete after the last.

    Raises:
        DataError: If the name of the split is invalid or the archive cannot be written.
    """
    with _open_split(path, split) as writer:
        for ink in _generate(synthesizer, count, seed, split):
            image, boxes = render_aligned(in_pixels(ink))
            writer.add(ink.name, ink.tokens, image, boxes, inkml_bytes(ink))
            yield ink


def write_samples(
    path: str | os.PathLike[str],
    sampler: Sampler,
    count: int,
    seed: int = 0,
    split: str = "synthetic",
) -> Iterator[Sample]:
    """Write samples to a zip archive like that of `write_set`, without InkML.

    Args:
        path: The archive to write.
        sampler: Samples expressions.
        count: Number of expressions.
        seed: Random seed.
        split: Name of the split within the archive.

    Yields:
        Every sample once it is written. The archive is complete after the last.

    Raises:
        DataError: If the name of the split is invalid or the archive cannot be written.
    """
    with _open_split(path, split) as writer:
        for number in range(count):
            sample = sampler.sample(0, np.random.default_rng([seed, number]))
            writer.add(f"{split}_{number:06d}", sample.tokens, *sample.render())
            yield sample


@contextmanager
def _open_split(path: str | os.PathLike[str], split: str) -> Iterator[_SplitWriter]:
    """Yield a writer to an archive that appears under its name when it is complete."""
    if not re.fullmatch(r"\w[\w.-]*", split):
        raise DataError(f"invalid split name '{split}': use letters, digits, '_', '-' and '.'")
    try:
        with atomic_path(Path(path)) as part, zipfile.ZipFile(part, "w") as archive:
            writer = _SplitWriter(archive, split)
            yield writer
            writer.finish()
    except OSError as error:
        raise DataError(f"{path}: cannot write: {error.strerror}") from error


class _SplitWriter:
    """Adds expressions to an archive, and finally their captions and boxes."""

    def __init__(self, archive: zipfile.ZipFile, split: str) -> None:
        self._archive, self._folder = archive, f"data/{split}"
        self._captions: list[str] = []
        self._boxes: dict[str, object] = {}

    def add(
        self,
        name: str,
        tokens: Sequence[str],
        image: np.ndarray,
        boxes: np.ndarray | None,
        inkml: bytes | None = None,
    ) -> None:
        """Add an expression.

        Args:
            name: Name of the expression.
            tokens: Its caption.
            image: uint8 (height, width).
            boxes: Token boxes, float32 (tokens, 4), if known.
            inkml: Its ink, if it has any.
        """
        self._write(f"img/{name}.bmp", bytes(cv2.imencode(".bmp", image)[1]))
        if inkml is not None:
            self._write(f"inkml/{name}.inkml", inkml)
        self._captions.append(f"{name}\t{' '.join(tokens)}\n")
        found = () if boxes is None else boxes
        self._boxes[name] = {
            "level": complexity(tokens),
            "tokens": tokens,
            "boxes": [None if np.isnan(box[0]) else box.tolist() for box in found],
        }

    def finish(self) -> None:
        """Add the files that describe all expressions."""
        self._write("caption.txt", "".join(self._captions).encode())
        self._write("boxes.json", json.dumps(self._boxes).encode())

    def _write(self, name: str, data: bytes) -> None:
        entry = zipfile.ZipInfo(f"{self._folder}/{name}", _ZIP_TIME)
        entry.compress_type = zipfile.ZIP_DEFLATED
        entry.create_system = 3  # Unix, whatever system writes the archive
        entry.external_attr = 0o644 << 16
        self._archive.writestr(entry, data, compresslevel=1)


def _generate(synthesizer: Synthesizer, count: int, seed: int, split: str) -> Iterator[AlignedInk]:
    seen: set[tuple[str, ...]] = set()
    levels = synthesizer.levels or (None,)
    for number in range(count):
        rng = np.random.Generator(np.random.PCG64(np.random.SeedSequence([seed, number])))
        level = levels[number % len(levels)]
        ink = synthesizer.make(rng, level, f"{split}_{number:06d}", seen)
        seen.add(ink.tokens)
        yield ink
