"""N-gram language model of formulas: a prior of the search over token sequences.

The recognizer tells how well a sequence fits the image; the language model tells how usual it is.
Probabilities back off: an n-gram that the model does not have gets the probability of the shorter
one, times the back-off weight of its context. The file is in safetensors layout. Of each n-gram it
has a 32-bit hash and a logarithm in steps of 1/16, so an n-gram takes five bytes.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from posformer.atomic import atomic_path
from posformer.errors import ModelError
from posformer.latex import Vocabulary

UNKNOWN, BEGIN, END, FIRST_TOKEN = 0, 1, 2, 3  # ids; tokens follow
STEPS = 16  # of a stored logarithm, per unit
_FORMAT = "posformer n-gram model 1"
_DTYPES: dict[str, np.dtype[Any]] = {"U8": np.dtype("<u1"), "U32": np.dtype("<u4")}

Prior = Callable[[tuple[int, ...]], float]
"""Returns what a sequence adds to its score in each direction; at most zero."""


def no_prior(tokens: tuple[int, ...]) -> float:
    """Add nothing."""
    return 0.0


@dataclass(frozen=True)
class HashTable:
    """Logarithms of probabilities or of back-off weights by the hash of their n-grams."""

    hashes: NDArray[np.uint32]  # (entries,), sorted
    values: NDArray[np.uint8]  # (entries,), negative logarithms in steps

    def look_up(self, hashes: NDArray[np.uint32]) -> tuple[NDArray[np.bool_], NDArray[np.float64]]:
        """Return which n-grams the table has, and their logarithms (0 for others)."""
        if not len(self.hashes):
            return np.zeros(len(hashes), bool), np.zeros(len(hashes))
        place = np.minimum(np.searchsorted(self.hashes, hashes), len(self.hashes) - 1)
        found = self.hashes[place] == hashes
        return found, np.where(found, self.values[place] / -STEPS, 0.0)


@dataclass(frozen=True)
class NgramModel:
    """An n-gram model with back-off."""

    tokens: tuple[str, ...]  # those that it knows
    ngrams: tuple[HashTable, ...]  # log-probability of the last token, by order
    contexts: tuple[HashTable, ...]  # back-off weight of contexts of 1, 2, … tokens
    info: dict[str, Any]  # of its training
    ids: NDArray[np.uint32] | None = None  # by the ids of a vocabulary, see `for_vocabulary`

    @property
    def order(self) -> int:
        """The length of the longest n-grams."""
        return len(self.ngrams)

    def for_vocabulary(self, vocabulary: Vocabulary) -> NgramModel:
        """Return the model for sequences of the ids of a vocabulary."""
        ids = np.full(len(vocabulary), UNKNOWN, np.uint32)
        for number, token in enumerate(self.tokens, FIRST_TOKEN):
            if token in vocabulary:
                ids[vocabulary.index(token)] = number
        return replace(self, ids=ids)

    def mean_log_probability(self, sequence: Sequence[int]) -> float:
        """Return the log-probability per token of a sequence, its end included.

        Tokens that the model does not know, such as those of matrices, do not count.

        Args:
            sequence: Ids of the vocabulary of `for_vocabulary`.
        """
        assert self.ids is not None
        line = np.full(len(sequence) + self.order + 1, END, np.uint32)
        line[: self.order - 1], line[self.order - 1] = UNKNOWN, BEGIN
        line[self.order : -1] = self.ids[np.asarray(sequence, np.int64)]
        first = self.order
        counted, scores = self.ngrams[0].look_up(hash_ngrams(line, first, 1))
        for length in range(1, self.order):
            has_context, backoff = self.contexts[length - 1].look_up(
                hash_ngrams(line[:-1], first - 1, length)
            )
            scores = np.where(has_context, scores + backoff, scores)
            found, known = self.ngrams[length].look_up(hash_ngrams(line, first, length + 1))
            scores = np.where(found, known, scores)
        return float(scores[counted].mean()) if counted.any() else 0.0

    def prior(self, weight: float, length_power: float = 1.0) -> Prior:
        """Return a prior that adds `weight · log-probability per token` to a score.

        Half of it belongs to each direction.

        Args:
            weight: Of the language model.
            length_power: See `DecodingOptions.length_power`.
        """

        def score(sequence: tuple[int, ...]) -> float:
            length = (len(sequence) + 1) ** (1 - length_power)
            return float(weight / 2 * self.mean_log_probability(sequence) * length)

        return cache(score) if weight else no_prior

    def save(self, path: Path) -> None:
        """Write a file."""
        tables = {f"ngrams.{number}": table for number, table in enumerate(self.ngrams, 1)}
        tables |= {f"contexts.{number}": table for number, table in enumerate(self.contexts, 1)}
        about = {"tokens": json.dumps(self.tokens), "info": json.dumps(self.info)}
        header: dict[str, Any] = {"__metadata__": {"format": _FORMAT, **about}}
        data = b""
        for name, table in tables.items():
            for field, kind in (("hashes", "U32"), ("values", "U8")):
                array = getattr(table, field).astype(_DTYPES[kind])
                place = [len(data), len(data) + array.nbytes]
                entry = {"dtype": kind, "shape": [len(array)], "data_offsets": place}
                header[f"{name}.{field}"] = entry
                data += array.tobytes()
        text = json.dumps(header).encode()
        text += b" " * (-len(text) % 8)
        path.parent.mkdir(parents=True, exist_ok=True)
        with atomic_path(path) as part:
            part.write_bytes(len(text).to_bytes(8, "little") + text + data)

    @classmethod
    def load(cls, path: Path) -> NgramModel:
        """Read a file.

        Raises:
            ModelError: If it is no n-gram model or damaged.
        """
        try:
            return cls._parse(path.read_bytes())
        except OSError as error:
            raise ModelError(f"{path}: {error.strerror or error}") from error
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise ModelError(f"{path}: not an n-gram model, or damaged: {error}") from error

    @classmethod
    def _parse(cls, content: bytes) -> NgramModel:
        size = int.from_bytes(content[:8], "little")
        if size > len(content) - 8:
            raise ValueError("it is cut off")
        header, data = json.loads(content[8 : 8 + size]), content[8 + size :]
        about = header.pop("__metadata__")
        if about.get("format") != _FORMAT:
            raise ValueError(f"its format is {about.get('format')!r}, not {_FORMAT!r}")
        arrays = {}
        for name, entry in header.items():
            start, end = entry["data_offsets"]
            if not 0 <= start <= end <= len(data):
                raise ValueError("it is cut off")
            arrays[name] = np.frombuffer(data[start:end], _DTYPES[entry["dtype"]])

        def table(name: str) -> HashTable:
            hashes, values = arrays[f"{name}.hashes"], arrays[f"{name}.values"]
            if len(hashes) != len(values) or (hashes[1:] <= hashes[:-1]).any():
                raise ValueError(f"the entries of {name} are wrong")
            return HashTable(hashes, values)

        order = sum(name.startswith("ngrams.") for name in arrays) // 2
        tokens = tuple(map(str, json.loads(about["tokens"])))
        ngrams = tuple(table(f"ngrams.{number}") for number in range(1, order + 1))
        contexts = tuple(table(f"contexts.{number}") for number in range(1, order))
        if not ngrams:
            raise ValueError("it has no n-grams")
        return cls(tokens, ngrams, contexts, json.loads(about["info"]))


def hash_ngrams(line: NDArray[np.uint32], first: int, length: int) -> NDArray[np.uint32]:
    """Return the hash of the n-gram that ends at each place of a line, from `first` on."""
    columns = [line[first - back : len(line) - back] for back in range(length - 1, -1, -1)]
    return hash_columns(columns)


def hash_columns(columns: Iterable[NDArray[np.uint32]]) -> NDArray[np.uint32]:
    """Return the hashes of n-grams whose first, second, … ids are given: FNV-1a of 32 bits."""
    hashes: Any = np.uint32(2166136261)
    for column in columns:
        hashes = (hashes ^ column) * np.uint32(16777619)
    return np.asarray(hashes)
