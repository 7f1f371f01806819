"""Mistakes in mathematical text, each named by token and place."""

from posformer.errors import PosformerError


class LatexError(PosformerError):
    """LaTeX that cannot be understood.

    Attributes:
        reason: What is wrong with it, as the end of a sentence that begins with the token.
        token: The token at fault, or None when there is none (an empty text, say).
        number: Its 1-based number among the tokens, or None.
        column: Its 1-based column in the text it was typed in, or None when there was no text.
    """

    def __init__(
        self,
        reason: str,
        token: str | None = None,
        number: int | None = None,
        column: int | None = None,
    ) -> None:
        self.reason = reason
        self.token = token
        self.number = number
        self.column = column
        super().__init__(self._line())

    def _line(self) -> str:
        places = []
        if self.number is not None:
            places.append(f"token {self.number}")
        if self.column is not None:
            places.append(f"column {self.column}")
        place = f" ({', '.join(places)})" if places else ""
        return self.reason if self.token is None else f"{self.token}{place} {self.reason}"


class UnknownTokenError(LatexError):
    """A token that a vocabulary does not hold."""
