"""The words a model knows, and their numbers."""

import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from posformer.atomic import atomic_write
from posformer.errors import LatexError, UnknownTokenError

_SPECIAL = ("<pad>", "<sos>", "<eos>")


class Vocabulary:
    """An immutable list of words behind the three special ones: `<pad>` 0, `<sos>` 1, `<eos>` 2.

    Args:
        words: The words in order, without the special ones.

    Raises:
        LatexError: A word is empty, repeated, reserved, or holds white space.
    """

    pad = 0
    sos = 1
    eos = 2

    def __init__(self, words: Iterable[str]) -> None:
        self._words = tuple(words)
        if fault := _first_fault(self._words):
            number, what = fault
            raise LatexError(what, f"word {number} of a vocabulary, {self._words[number - 1]!r},")
        self._index = {word: index for index, word in enumerate(self._words, len(_SPECIAL))}

    @classmethod
    def from_captions(cls, captions: Iterable[Sequence[str]]) -> "Vocabulary":
        """The words that occur in captions, sorted by code point."""
        return cls(sorted({token for caption in captions for token in caption}))

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> "Vocabulary":
        """Read a file of one word a line, without the special ones.

        Raises:
            LatexError: The file is missing, not UTF-8, or a line is no word; names file and line.
        """
        try:
            text = Path(path).read_text(encoding="utf-8-sig")
        except (OSError, UnicodeDecodeError) as error:
            raise LatexError(f"{path}: cannot be read as a vocabulary: {error}") from error
        # Not splitlines(), which also breaks at characters that an editor shows as part of a line.
        lines = text.removesuffix("\n").split("\n") if text else []
        words = [line.removesuffix("\r") for line in lines]
        if fault := _first_fault(words):
            number, what = fault
            raise LatexError(what, f"{path}, line {number}: the word {words[number - 1]!r}")
        return cls(words)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write one word a line; a file that is there is replaced in one step or not at all."""
        atomic_write(path, "".join(f"{word}\n" for word in self._words))

    @property
    def tokens(self) -> tuple[str, ...]:
        """The words in order, without the special ones."""
        return self._words

    def index(self, token: str) -> int:
        """The number of a token.

        Raises:
            UnknownTokenError: The vocabulary does not hold it.
        """
        try:
            return self._index[token]
        except KeyError:
            raise UnknownTokenError("is not in the vocabulary", token) from None

    def encode(self, tokens: Sequence[str]) -> list[int]:
        """The numbers of tokens.

        Raises:
            UnknownTokenError: Names the first token that is unknown, and its place.
        """
        try:
            return [self._index[token] for token in tokens]
        except KeyError as error:
            token = error.args[0]
            place = list(tokens).index(token) + 1
            raise UnknownTokenError("is not in the vocabulary", token, place) from None

    def decode(self, indices: Iterable[int], *, skip_special: bool = False) -> list[str]:
        """The tokens of numbers.

        Args:
            indices: Numbers from 0 to `len(self) - 1`; any integer type.
            skip_special: Leave the special words out; otherwise they are an error.

        Raises:
            LatexError: A number is special or out of range; names it and its place.
        """
        tokens = []
        for place, index in enumerate(indices, start=1):
            word = int(index) - len(_SPECIAL)
            if 0 <= word < len(self._words):
                tokens.append(self._words[word])
            elif not -len(_SPECIAL) <= word < 0:
                raise LatexError(f"is outside 0…{len(self) - 1}", f"index {index}", place)
            elif not skip_special:
                raise LatexError(f"is {_SPECIAL[index]}, no word", f"index {index}", place)
        return tokens

    def extended(self, words: Iterable[str]) -> "Vocabulary":
        """A vocabulary with further words at the end; those that are there keep their number."""
        new = dict.fromkeys(word for word in words if word not in self._index)
        return Vocabulary((*self._words, *new))

    def __len__(self) -> int:
        """The number of words with the special ones."""
        return len(self._words) + len(_SPECIAL)

    def __contains__(self, token: object) -> bool:
        return token in self._index

    def __iter__(self) -> Iterator[str]:
        return iter(self._words)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Vocabulary) and self._words == other._words

    def __hash__(self) -> int:
        return hash(self._words)

    def __repr__(self) -> str:
        return f"Vocabulary({len(self)} words with <pad>, <sos>, <eos>)"


def _first_fault(words: Sequence[str]) -> tuple[int, str] | None:
    """The 1-based number of the first word that cannot be one, and why."""
    seen: set[str] = set()
    for number, word in enumerate(words, start=1):
        if not word:
            return number, "is empty"
        if any(character.isspace() for character in word):
            return number, "holds white space"
        if word in _SPECIAL:
            return number, "is reserved"
        if word in seen:
            return number, "is there twice"
        seen.add(word)
    return None
