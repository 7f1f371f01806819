r"""Formula corpora: real texts for synthesis, in the conventions of CROHME's captions.

A corpus is a text file, optionally gzipped, of lines `tokens` or `count<TAB>tokens`. Braces stand
around every script and argument, and a subscript before a superscript. Operators with bounds get
`\limits`, as in CROHME's captions.
"""

from __future__ import annotations

import gzip
import hashlib
import os
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from posformer.errors import DataError, LatexError
from posformer.latex.forest import complexity
from posformer.latex.symbols import SYMBOLS
from posformer.latex.tree import Node, Row, parse

__all__ = [
    "OWN_FORMULAS",
    "TextCorpus",
    "canonical_tokens",
    "is_validation_text",
    "load_texts",
    "read_texts",
    "with_limits",
    "without_limits",
]

OWN_FORMULAS = Path(__file__).with_name("formulas.txt")
"""The project's own formulas."""

_LENGTH_CLASSES = (3, 6, 10, 15, 22, 32, 60, 120)  # upper bounds, in tokens
_MIN_STRATUM = 200  # texts; smaller strata are joined with their neighbors
_FORMAT = 2  # of the cache
_VALIDATION_TEXTS = 500  # one of so many texts is kept for validation


def with_limits(tokens: Sequence[str]) -> list[str]:
    r"""Add `\limits` between each operator that takes limits and its scripts."""
    result: list[str] = []
    for index, token in enumerate(tokens):
        result.append(token)
        symbol = SYMBOLS.get(token)
        following = tokens[index + 1] if index + 1 < len(tokens) else ""
        if symbol is not None and symbol.limits and following in ("_", "^"):
            result.append(r"\limits")
    return result


def without_limits(tokens: Sequence[str]) -> tuple[str, ...]:
    r"""Drop `\limits`."""
    return tuple(token for token in tokens if token != r"\limits")


def canonical_tokens(tokens: Sequence[str]) -> tuple[str, ...]:
    r"""Return the tokens of the expression tree in one form.

    Two texts with the same tree have the same canonical tokens: braces stand around arguments and
    scripts only, a subscript comes before a superscript, and `\limits` is dropped.

    Raises:
        LatexError: If the tokens are not an expression.
    """
    result: list[str] = []
    stack: list[str | Node | Row] = [parse(tokens).root]
    while stack:
        part = stack.pop()
        if isinstance(part, str):
            result.append(part)
        elif isinstance(part, Row):
            stack += reversed(part.nodes)
        else:
            stack += reversed(_parts(part))
    return tuple(result)


def is_validation_text(canonical: Sequence[str]) -> bool:
    """Return whether a text is kept for validation: training never uses it.

    A hash of the expression tree decides, so one of 500 texts is kept in any corpus, and all texts
    with the same tree are on the same side.

    Args:
        canonical: The text as returned by `canonical_tokens`.
    """
    digest = hashlib.sha256(" ".join(canonical).encode()).digest()
    return int.from_bytes(digest[:8], "big") % _VALIDATION_TEXTS == 0


def _parts(node: Node) -> list[str | Node | Row]:
    scripts = sorted(node.scripts, key=lambda script: script.token == "^")
    behind: list[str | Node | Row] = []
    for script in scripts:
        behind += [script.token, "{", script.arguments[0], "}"]
    if node.token == "{":
        (inner,) = node.arguments
        return ["{", inner, "}", *behind] if behind and len(inner.nodes) > 1 else [inner, *behind]
    if node.is_environment:
        end = node.token.replace(r"\begin", r"\end")
        return [node.token, *node.arguments, end, *behind]
    parts: list[str | Node | Row] = [node.token] if node.token else []
    if node.option is not None:
        parts += ["[", node.option, "]"]
    for row in node.arguments:
        parts += ["{", row, "}"]
    return parts + behind


@dataclass(frozen=True)
class TextCorpus:
    """Texts as indices into a list of tokens, compact enough to share between processes."""

    tokens: tuple[str, ...]
    indices: NDArray[np.uint16]  # (total tokens,), of all texts
    starts: NDArray[np.int64]  # (texts + 1,)
    levels: NDArray[np.uint8]  # (texts,), nested level
    dropped: int = 0  # texts of validation and test sets

    def __len__(self) -> int:
        return len(self.levels)

    def __getitem__(self, index: int) -> tuple[str, ...]:
        chosen = self.indices[self.starts[index] : self.starts[index + 1]]
        return tuple(self.tokens[number] for number in chosen.tolist())

    def sample(self, rng: np.random.Generator, rare_share: float = 0.4) -> tuple[str, ...]:
        """Sample a text.

        Args:
            rng: Random generator.
            rare_share: Share of the samples that are chosen for one of their tokens. Its
                probability grows with the fourth root of its frequency only, so that every symbol
                and structure is learned. All others are sampled evenly from the combinations of
                length class and nested level.
        """
        if rng.random() < rare_share:
            number = int(np.searchsorted(self._token_odds, rng.random()))
            texts = self._by_token[min(number, len(self._by_token) - 1)]
        else:
            texts = self._strata[int(rng.integers(len(self._strata)))]
        return self[int(texts[int(rng.integers(len(texts)))])]

    def sample_short(self, rng: np.random.Generator, max_tokens: int) -> tuple[str, ...]:
        """Sample a text of limited length, all lengths equally often.

        Raises:
            DataError: If there is none.
        """
        classes = self._by_length[:max_tokens]
        filled = [texts for texts in classes if len(texts)]
        if not filled:
            raise DataError(f"no text has at most {max_tokens} tokens")
        texts = filled[int(rng.integers(len(filled)))]
        return self[int(texts[int(rng.integers(len(texts)))])]

    @cached_property
    def _by_length(self) -> list[NDArray[np.int32]]:
        """The texts of 1, 2, … tokens."""
        lengths = np.diff(self.starts)
        order = np.argsort(lengths, kind="stable").astype(np.int32)
        edges = np.searchsorted(lengths[order], np.arange(1, int(lengths.max()) + 2))
        return [order[low:high] for low, high in pairwise(edges.tolist())]

    def counts(self) -> Counter[str]:
        """Return the number of texts that contain each token."""
        numbers = (len(texts) for texts in self._by_token)
        return Counter(dict(zip(self.tokens, numbers, strict=True)))

    @cached_property
    def _by_token(self) -> list[NDArray[np.int32]]:
        owner = np.repeat(np.arange(len(self), dtype=np.int64), np.diff(self.starts))
        token, text = np.divmod(np.unique(self.indices * np.int64(len(self)) + owner), len(self))
        edges = np.searchsorted(token, np.arange(len(self.tokens) + 1))
        return [text[low:high].astype(np.int32) for low, high in pairwise(edges.tolist())]

    @cached_property
    def _token_odds(self) -> NDArray[np.float64]:
        counts = np.array([len(texts) for texts in self._by_token], np.float64)
        odds = np.cumsum(counts**0.25)
        return odds / odds[-1]

    @cached_property
    def _strata(self) -> list[NDArray[np.int32]]:
        lengths = np.searchsorted(_LENGTH_CLASSES, np.diff(self.starts))
        keys = lengths * 8 + np.minimum(self.levels, 7)
        strata: list[NDArray[np.int32]] = []
        for key in np.unique(keys).tolist():
            texts = np.flatnonzero(keys == key).astype(np.int32)
            if strata and (len(texts) < _MIN_STRATUM or len(strata[-1]) < _MIN_STRATUM):
                texts = np.concatenate([strata.pop(), texts])
            strata.append(texts)
        return strata


def load_texts(
    paths: Iterable[str | os.PathLike[str]],
    tokens: Collection[str],
    *,
    held_out: Iterable[Sequence[str]] = (),
    validation: bool = False,
    max_tokens: int = 60,
    cache: str | os.PathLike[str] | None = None,
) -> TextCorpus:
    """Load formula corpora.

    Args:
        paths: Text files, gzipped or not.
        tokens: Vocabulary; texts with other tokens are dropped.
        held_out: Texts that must not occur, such as those of validation and test sets. Expression
            trees are compared, so that redundant braces and the order of scripts do not matter.
        validation: Load the texts that are kept for validation instead of all others; see
            `is_validation_text`.
        max_tokens: Longer texts are dropped.
        cache: Folder that keeps the result between runs.

    Raises:
        DataError: If a file cannot be read or no text is left.
    """
    files = [Path(path) for path in paths]
    vocabulary = sorted(tokens)
    forbidden = frozenset(_canonical_or_plain(text) for text in held_out)
    if cache is None:
        return _read_texts(files, vocabulary, forbidden, validation, max_tokens)
    digest = _digest(files, vocabulary, forbidden, validation, max_tokens)
    stored = Path(cache) / f"texts-{digest}.npz"
    if stored.exists():
        with np.load(stored) as arrays:
            return TextCorpus(
                tuple(vocabulary),
                arrays["indices"],
                arrays["starts"],
                arrays["levels"],
                int(arrays["dropped"]),
            )
    corpus = _read_texts(files, vocabulary, forbidden, validation, max_tokens)
    stored.parent.mkdir(parents=True, exist_ok=True)
    unfinished = stored.with_suffix(f".{os.getpid()}.npz")
    np.savez_compressed(
        unfinished,
        indices=corpus.indices,
        starts=corpus.starts,
        levels=corpus.levels,
        dropped=corpus.dropped,
    )
    unfinished.replace(stored)
    return corpus


def _canonical_or_plain(tokens: Sequence[str]) -> tuple[str, ...]:
    try:
        return canonical_tokens(tokens)
    except LatexError:  # a caption of a test set may be malformed
        return tuple(tokens)


def _read_texts(
    files: Sequence[Path],
    vocabulary: Sequence[str],
    forbidden: frozenset[tuple[str, ...]],
    validation: bool,
    max_tokens: int,
) -> TextCorpus:
    known = {token: number for number, token in enumerate(vocabulary)}
    indices: list[int] = []
    lengths: list[int] = []
    levels: list[int] = []
    dropped = 0
    for text in read_texts(files):
        converted = with_limits(text)
        if not 0 < len(converted) <= max_tokens or not known.keys() >= set(converted):
            continue
        try:
            canonical = canonical_tokens(converted)
            if canonical in forbidden:
                dropped += 1
                continue
            if is_validation_text(canonical) != validation:
                continue
            level = complexity(converted)
        except LatexError:
            continue
        indices += [known[token] for token in converted]
        lengths.append(len(converted))
        levels.append(min(level, 255))
    if not lengths:
        raise DataError(f"{', '.join(map(str, files))}: no text uses only the given tokens")
    return TextCorpus(
        tuple(vocabulary),
        np.array(indices, np.uint16),
        np.concatenate([[0], np.cumsum(lengths)]),
        np.array(levels, np.uint8),
        dropped,
    )


def read_texts(files: Iterable[Path]) -> Iterator[list[str]]:
    """Yield the tokens of every line.

    Raises:
        DataError: If a file cannot be read.
    """
    for file in files:
        try:
            with gzip.open(file, "rt") if file.suffix == ".gz" else file.open() as lines:
                for line in lines:
                    yield line.rpartition("\t")[2].split()
        except (OSError, UnicodeDecodeError, EOFError) as error:
            raise DataError(f"{file}: {error}") from error


def _digest(
    files: Sequence[Path],
    vocabulary: Sequence[str],
    forbidden: frozenset[tuple[str, ...]],
    validation: bool,
    max_tokens: int,
) -> str:
    """Identify the result of reading by its inputs."""
    try:
        states = [(str(file), file.stat().st_size, file.stat().st_mtime_ns) for file in files]
    except OSError as error:
        raise DataError(f"{error.filename}: {error.strerror}") from error
    content = repr((_FORMAT, states, vocabulary, sorted(forbidden), validation, max_tokens))
    return hashlib.sha256(content.encode()).hexdigest()[:16]
