"""Formula corpora."""

import gzip
from collections import Counter

import numpy as np
import pytest

from posformer.errors import DataError
from posformer.synthesis.glyphs import own_bank
from posformer.synthesis.inventory import count_tokens, list_tokens, markdown_table
from posformer.synthesis.texts import (
    canonical_tokens,
    is_validation_text,
    load_texts,
    with_limits,
)

LINES = ["7\tx + y", "1\tx ^ { 2 } = y", "1\t\\sum _ { i } x", "1\t\\alpha + x", "x", "1\tx _ {"]
TOKENS = ["x", "y", "i", "2", "+", "=", "^", "_", "{", "}", "\\sum", "\\limits"]


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "texts.txt.gz"
    path.write_bytes(gzip.compress("\n".join(LINES).encode()))
    return path


def test_operators_with_bounds_get_limits():
    assert with_limits(["\\sum", "_", "{", "i", "}", "x"]) == [
        "\\sum",
        "\\limits",
        "_",
        "{",
        "i",
        "}",
        "x",
    ]
    assert with_limits(["\\sum", "x", "_", "1"]) == ["\\sum", "x", "_", "1"]


def test_texts_of_one_tree_have_one_canonical_form():
    forms = ["x ^ { 2 } _ 1", "{ x } _ { 1 } ^ 2", "x _ 1 ^ { { 2 } }"]
    assert len({canonical_tokens(form.split()) for form in forms}) == 1


def test_unknown_tokens_malformed_and_held_out_texts_are_dropped(path, tmp_path):
    for _ in range(2):  # the second time from the cache
        corpus = load_texts(
            [path], TOKENS, held_out=[["x", "^", "2", "=", "y"]], cache=tmp_path / "cache"
        )
        assert [" ".join(corpus[index]) for index in range(len(corpus))] == [
            "x + y",
            "\\sum \\limits _ { i } x",
            "x",
        ]
        assert corpus.dropped == 1
    with pytest.raises(DataError, match="no text"):
        load_texts([path], ["q"])
    with pytest.raises(DataError, match="missing"):
        load_texts([tmp_path / "missing.txt"], TOKENS)


def test_rare_tokens_and_all_lengths_are_sampled(tmp_path):
    path = tmp_path / "texts.txt"
    path.write_text("\n".join(["x + y"] * 500 + ["\\sum _ { i } x"]))
    corpus = load_texts([path], TOKENS)
    rng = np.random.default_rng(0)
    found = Counter(corpus.sample(rng) for _ in range(300))
    assert found[("\\sum", "\\limits", "_", "{", "i", "}", "x")] > 20
    assert {len(corpus.sample_short(rng, 3)) for _ in range(20)} == {3}
    with pytest.raises(DataError, match="at most 2"):
        corpus.sample_short(rng, 2)


def test_vocabulary_lists_what_can_be_drawn_and_is_used(path):
    counts = count_tokens([path])
    assert counts["x"] == 6
    assert counts["\\limits"] == 1
    counts = Counter(dict.fromkeys([*counts, "\\hat", "\\arctan", "\\aleph", "\\dfrac"], 50))
    entries = list_tokens(counts, own_bank())
    tokens = [entry.token for entry in entries]
    assert {"x", "\\hat", "\\arctan", "\\limits", "\\begin{cases}", "&"} <= set(tokens)
    assert not {"\\aleph", "\\dfrac", "z"} & set(tokens)
    assert tokens == sorted(tokens)
    assert "`\\hat` 50/0/0" in markdown_table(entries)


def test_some_texts_are_kept_for_validation(tmp_path):
    texts = [f"x ^ {{ {' '.join(str(number))} }}" for number in range(3000)]
    path = tmp_path / "texts.txt"
    path.write_text("\n".join(texts))
    tokens = [*"x^{}0123456789"]
    training, validation = (load_texts([path], tokens, validation=one) for one in (False, True))
    assert len(training) + len(validation) == 3000
    assert 1 <= len(validation) <= 20  # about one of 500
    kept = {canonical_tokens(validation[index]) for index in range(len(validation))}
    assert all(is_validation_text(text) for text in kept)
    assert not kept & {canonical_tokens(training[index]) for index in range(len(training))}
