"""The tokens of a model and their ids."""

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

from posformer.atomic import atomic_write
from posformer.errors import LatexError, UnknownTokenError

_SPECIAL = ("<pad>", "<sos>", "<eos>")


class Vocabulary:
    """An immutable list of tokens behind the three special ones: `<pad>` 0, `<sos>` 1, `<eos>` 2.

    Args:
        tokens: The tokens in order, without the special ones.

    Raises:
        LatexError: A token is empty, repeated, reserved, or contains white space.
    """

    pad = 0
    sos = 1
    eos = 2

    def __init__(self, tokens: Iterable[str]) -> None:
        self._tokens = tuple(tokens)
        _check(self._tokens, lambda number, token: f"token {number} of a vocabulary, {token!r},")
        self._index = {token: index for index, token in enumerate(self._tokens, len(_SPECIAL))}

    @classmethod
    def from_captions(cls, captions: Iterable[Sequence[str]]) -> "Vocabulary":
        """Return the vocabulary of all tokens of captions, sorted by code point."""
        return cls(sorted({token for caption in captions for token in caption}))

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> "Vocabulary":
        """Read a file with one token per line, without the special ones.

        Raises:
            LatexError: The file is missing, not UTF-8, or a line is not a token; names file and
                line.
        """
        try:
            text = Path(path).read_text(encoding="utf-8-sig")
        except (OSError, UnicodeDecodeError) as error:
            raise LatexError(f"{path}: cannot be read as a vocabulary: {error}") from error
        # Not splitlines(), which also breaks at characters that an editor shows as part of a line.
        lines = text.removesuffix("\n").split("\n") if text else []
        tokens = [line.removesuffix("\r") for line in lines]
        _check(tokens, lambda number, token: f"{path}, line {number}: the token {token!r}")
        return cls(tokens)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write one token per line; an existing file is replaced in one step or not at all."""
        atomic_write(path, "".join(f"{token}\n" for token in self._tokens))

    @property
    def tokens(self) -> tuple[str, ...]:
        """The tokens in order, without the special ones."""
        return self._tokens

    def index(self, token: str) -> int:
        """Return the id of a token.

        Raises:
            UnknownTokenError: The vocabulary does not contain it.
        """
        try:
            return self._index[token]
        except KeyError:
            raise UnknownTokenError("is not in the vocabulary", token) from None

    def encode(self, tokens: Sequence[str]) -> list[int]:
        """Return the ids of tokens.

        Raises:
            UnknownTokenError: Names the first unknown token and its number.
        """
        try:
            return [self._index[token] for token in tokens]
        except KeyError as error:
            token = error.args[0]
            number = list(tokens).index(token) + 1
            raise UnknownTokenError("is not in the vocabulary", token, number) from None

    def decode(self, indices: Iterable[int], *, skip_special: bool = False) -> list[str]:
        """Return the tokens of ids.

        Args:
            indices: Ids from 0 to `len(self) - 1`, of any integer type.
            skip_special: Leave the special tokens out; otherwise they are an error.

        Raises:
            LatexError: An id is special or out of range; names it and its number.
        """
        tokens = []
        for number, index in enumerate(indices, start=1):
            place = int(index) - len(_SPECIAL)
            if 0 <= place < len(self._tokens):
                tokens.append(self._tokens[place])
            elif not -len(_SPECIAL) <= place < 0:
                raise LatexError(f"is outside 0…{len(self) - 1}", f"index {index}", number)
            elif not skip_special:
                raise LatexError(f"is the special {_SPECIAL[index]}", f"index {index}", number)
        return tokens

    def extended(self, tokens: Iterable[str]) -> "Vocabulary":
        """Return a vocabulary with further tokens at the end; known tokens keep their ids."""
        new = dict.fromkeys(token for token in tokens if token not in self._index)
        return Vocabulary((*self._tokens, *new))

    def __len__(self) -> int:
        """The number of tokens including the special ones."""
        return len(self._tokens) + len(_SPECIAL)

    def __contains__(self, token: object) -> bool:
        return token in self._index

    def __iter__(self) -> Iterator[str]:
        return iter(self._tokens)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Vocabulary) and self._tokens == other._tokens

    def __hash__(self) -> int:
        return hash(self._tokens)

    def __repr__(self) -> str:
        return f"Vocabulary({len(self)} tokens with <pad>, <sos>, <eos>)"


def _check(tokens: Sequence[str], place: Callable[[int, str], str]) -> None:
    """Raise an error that names the place of the first string that cannot be a token."""
    seen: set[str] = set(_SPECIAL)
    for number, token in enumerate(tokens, start=1):
        if not token:
            raise LatexError("is empty", place(number, token))
        if any(map(str.isspace, token)):
            raise LatexError("contains white space", place(number, token))
        if token in seen:
            reason = "is reserved" if token in _SPECIAL else "is there twice"
            raise LatexError(reason, place(number, token))
        seen.add(token)
