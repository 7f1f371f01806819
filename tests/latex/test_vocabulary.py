"""A vocabulary gives ids to tokens and is immutable."""

from pathlib import Path

import numpy as np
import pytest

from posformer.errors import LatexError, UnknownTokenError
from posformer.latex import Vocabulary

TOKENS = ["+", r"\frac", "x", "{", "}"]


@pytest.fixture
def vocabulary() -> Vocabulary:
    return Vocabulary(TOKENS)


def test_tokens_follow_the_three_special_ones(vocabulary: Vocabulary) -> None:
    assert (vocabulary.pad, vocabulary.sos, vocabulary.eos) == (0, 1, 2)
    assert len(vocabulary) == len(TOKENS) + 3
    assert vocabulary.tokens == tuple(TOKENS)
    assert list(vocabulary) == TOKENS
    assert vocabulary.index("+") == 3
    assert "x" in vocabulary
    assert "y" not in vocabulary
    assert "<pad>" not in vocabulary


def test_tokens_of_captions_are_sorted_by_code_point() -> None:
    vocabulary = Vocabulary.from_captions([["x", "a", "Z"], [r"\pi", "x", "1", "α"]])
    assert vocabulary.tokens == ("1", "Z", r"\pi", "a", "x", "α")


def test_encoding_and_decoding_are_inverse(vocabulary: Vocabulary) -> None:
    tokens = [r"\frac", "{", "x", "}", "{", "+", "}"]
    assert vocabulary.encode(tokens) == [4, 6, 5, 7, 6, 3, 7]
    assert vocabulary.decode(vocabulary.encode(tokens)) == tokens
    assert vocabulary.decode(np.array([5, 3])) == ["x", "+"]


def test_an_unknown_token_is_named_with_its_place(vocabulary: Vocabulary) -> None:
    with pytest.raises(UnknownTokenError, match=r"^\\pi \(token 2\) is not in") as caught:
        vocabulary.encode(["x", r"\pi", r"\pi"])
    assert (caught.value.token, caught.value.number) == (r"\pi", 2)
    with pytest.raises(UnknownTokenError, match="y is not in"):
        vocabulary.index("y")


@pytest.mark.parametrize("index", [0, 1, 2])
def test_special_ids_are_not_tokens(vocabulary: Vocabulary, index: int) -> None:
    with pytest.raises(LatexError, match=rf"index {index} \(token 2\) is the special <"):
        vocabulary.decode([5, index])
    assert vocabulary.decode([5, index, 3], skip_special=True) == ["x", "+"]


@pytest.mark.parametrize("index", [-1, 8, 1000])
def test_ids_out_of_range_are_errors(vocabulary: Vocabulary, index: int) -> None:
    with pytest.raises(LatexError, match=r"outside 0…7"):
        vocabulary.decode([index], skip_special=True)


def test_saving_and_loading_are_inverse(vocabulary: Vocabulary, tmp_path: Path) -> None:
    path = tmp_path / "vocabulary.txt"
    vocabulary.save(path)
    vocabulary.save(path)
    assert path.read_text(encoding="utf-8") == "+\n\\frac\nx\n{\n}\n"
    assert Vocabulary.load(path) == vocabulary
    assert list(tmp_path.iterdir()) == [path]


def test_files_of_windows_editors_are_read(tmp_path: Path) -> None:
    path = tmp_path / "vocabulary.txt"
    path.write_bytes("\ufeffx\r\nπ\r\n".encode())
    assert Vocabulary.load(path).tokens == ("x", "π")


def test_an_empty_vocabulary_can_be_saved(tmp_path: Path) -> None:
    Vocabulary([]).save(tmp_path / "empty.txt")
    assert Vocabulary.load(tmp_path / "empty.txt") == Vocabulary([])


@pytest.mark.parametrize(
    ("tokens", "fault"),
    [
        (["x", ""], "is empty"),
        (["x", "a b"], "white space"),
        (["x", "<eos>"], "reserved"),
        (["x", "x"], "twice"),
    ],
)
def test_errors_name_the_line_that_is_not_a_token(
    tokens: list[str], fault: str, tmp_path: Path
) -> None:
    with pytest.raises(LatexError, match=f"token 2 .*{fault}"):
        Vocabulary(tokens)
    path = tmp_path / "vocabulary.txt"
    path.write_text("\n".join([*tokens, "y"]), encoding="utf-8")
    with pytest.raises(LatexError, match=rf"vocabulary\.txt, line 2: .*{fault}"):
        Vocabulary.load(path)


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(LatexError, match=r"missing\.txt"):
        Vocabulary.load(tmp_path / "missing.txt")
    (tmp_path / "binary.txt").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(LatexError, match=r"binary\.txt"):
        Vocabulary.load(tmp_path / "binary.txt")


def test_extending_keeps_ids(vocabulary: Vocabulary) -> None:
    larger = vocabulary.extended(["y", "x", "a", "y"])
    assert larger.tokens == (*TOKENS, "y", "a")
    assert all(larger.index(token) == vocabulary.index(token) for token in vocabulary)
    assert vocabulary.tokens == tuple(TOKENS)


def test_equal_tokens_are_equal_vocabularies(vocabulary: Vocabulary) -> None:
    assert vocabulary == Vocabulary(TOKENS)
    assert hash(vocabulary) == hash(Vocabulary(TOKENS))
    assert vocabulary != Vocabulary(TOKENS[::-1])
    assert vocabulary != TOKENS


def test_the_dictionary_of_crohme_has_113_tokens(reference: Path) -> None:
    vocabulary = Vocabulary.load(reference / "crohme_dictionary.txt")
    assert len(vocabulary) == 113
    assert list(vocabulary.tokens) == sorted(vocabulary.tokens)
