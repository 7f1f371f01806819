"""Counting of an n-gram language model on formula texts, with Kneser-Ney smoothing."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from posformer.errors import ConfigError
from posformer.search.ngram_model import (
    BEGIN,
    END,
    FIRST_TOKEN,
    STEPS,
    HashTable,
    NgramModel,
    hash_columns,
)
from posformer.synthesis.texts import TextCorpus

MIN_COUNTS = (1, 3, 8, 14, 20)
"""How often n-grams of each length must occur; five tokens is the longest."""


def count_ngrams(
    corpus: TextCorpus, min_counts: Sequence[int] = MIN_COUNTS, info: dict[str, Any] | None = None
) -> NgramModel:
    """Return the n-gram model of a corpus.

    Probabilities are those of interpolated Kneser-Ney smoothing with one discount per order: a
    shorter n-gram counts how many different tokens stand before it, not how often it occurs.

    Args:
        corpus: The texts.
        min_counts: How often n-grams of 1, 2, … tokens must occur; rarer ones are left out.
        info: What to say about the training.

    Raises:
        ConfigError: If the n-grams are too long for a vocabulary of this size.
    """
    order, bits = len(min_counts), int(len(corpus.tokens) + FIRST_TOKEN).bit_length()
    if order * bits > 62:
        raise ConfigError(f"n-grams of {order} of {len(corpus.tokens)} tokens are too long")
    line, ends = _join_texts(corpus, order)
    counted = [
        np.unique(_keys(line, ends, n, bits), return_counts=True) for n in range(1, order + 1)
    ]
    tables, contexts = [], []
    lower: NDArray[np.float64] | None = None
    for n, (keys, counts) in enumerate(counted, 1):
        adjusted = counts
        if n < order:
            adjusted = _continuations(keys, counts, counted[n][0], n, bits)
        kept = counts >= min_counts[n - 1] if n > 1 else np.ones(len(keys), bool)
        if n == 1:
            probabilities = adjusted / adjusted.sum()
        else:
            assert lower is not None
            shorter = counted[n - 2][0]
            suffixes = np.searchsorted(shorter, keys & ((1 << (n - 1) * bits) - 1))
            probabilities, before, weights = _interpolate(
                keys >> bits, adjusted, kept, lower[suffixes]
            )
            contexts.append(_table(before, weights, n - 1, bits))
        tables.append(_table(keys[kept], probabilities[kept], n, bits))
        lower = probabilities
    return NgramModel(tuple(corpus.tokens), tuple(tables), tuple(contexts), dict(info or {}))


def _join_texts(corpus: TextCorpus, order: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return all texts in a line, unknown tokens before each, and the places that are predicted."""
    lengths = np.diff(corpus.starts)
    starts = np.cumsum(lengths + order + 1) - (lengths + order + 1) + order
    line = np.zeros(int((lengths + order + 1).sum()), np.int64)
    places = np.repeat(starts - corpus.starts[:-1], lengths) + np.arange(len(corpus.indices))
    line[places] = corpus.indices.astype(np.int64) + FIRST_TOKEN
    line[starts - 1], line[starts + lengths] = BEGIN, END
    return line, np.sort(np.concatenate([places, starts + lengths]))


def _keys(line: NDArray[np.int64], ends: NDArray[np.int64], n: int, bits: int) -> NDArray[np.int64]:
    """Return the n-grams that end at some places as numbers, without those that are too short."""
    inside = ends[line[ends - n + 1] > 0]  # a line begins with unknown tokens
    keys = np.zeros(len(inside), np.int64)
    for back in range(n):
        keys |= line[inside - back] << (back * bits)
    return keys


def _continuations(
    keys: NDArray[np.int64],
    counts: NDArray[np.int64],
    longer: NDArray[np.int64],
    n: int,
    bits: int,
) -> NDArray[np.int64]:
    """Return how many tokens stand before n-grams; nothing stands before the begin of a text."""
    suffixes, different = np.unique(longer & ((1 << n * bits) - 1), return_counts=True)
    found = counts.copy()
    has_begin = keys >> ((n - 1) * bits) == BEGIN
    places = np.searchsorted(keys, suffixes)
    found[places] = different
    return np.where(has_begin, counts, found)


def _interpolate(
    before: NDArray[np.int64],
    counts: NDArray[np.int64],
    kept: NDArray[np.bool_],
    lower: NDArray[np.float64],
) -> tuple[NDArray[np.float64], NDArray[np.int64], NDArray[np.float64]]:
    """Return probabilities, the contexts of n-grams that are kept, and their back-off weights.

    Args:
        before: The context of each n-gram, sorted.
        counts: Of the n-grams.
        kept: Which n-grams are not left out.
        lower: The probabilities of the n-grams without their first token.
    """
    once, twice = int((counts == 1).sum()), int((counts == 2).sum())
    discount = once / (once + 2 * twice) if once else 0.5
    unique, inverse = np.unique(before, return_inverse=True)
    totals = np.bincount(inverse, counts)
    left = np.bincount(inverse, np.where(kept, np.minimum(counts, discount), counts)) / totals
    own = np.where(kept, np.maximum(counts - discount, 0.0), 0.0) / totals[inverse]
    has_kept = np.bincount(inverse, kept) > 0
    return own + left[inverse] * lower, unique[has_kept], left[has_kept]


def _table(
    keys: NDArray[np.int64], probabilities: NDArray[np.float64], n: int, bits: int
) -> HashTable:
    """Return n-grams by their hashes; of two with the same hash, one is left out."""
    ids = np.stack([keys >> (bits * (n - 1 - place)) & ((1 << bits) - 1) for place in range(n)])
    hashes = hash_columns(ids.astype(np.uint32))
    unique, first = np.unique(hashes, return_index=True)
    steps = np.rint(-np.log(np.maximum(probabilities, 1e-300)) * STEPS)
    return HashTable(unique, np.clip(steps, 0, 255).astype(np.uint8)[first])
