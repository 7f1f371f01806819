"""Errors that a user can cause or fix; all others are bugs.

Every message is one line that says what is wrong and where. The command line prints it and exits
with code 2, or with 1 if other inputs were recognized.
"""

from typing import Literal

__all__ = [
    "BudgetError",
    "ClipboardError",
    "ConfigError",
    "DataError",
    "ImageError",
    "InkError",
    "LatexError",
    "ModelError",
    "NoInkError",
    "PosformerError",
    "UnknownTokenError",
]


class PosformerError(Exception):
    """Base class of all errors of this package."""


class ConfigError(PosformerError):
    """An option or a setting that is unknown, missing, or has an invalid value."""


class ClipboardError(PosformerError):
    """The clipboard cannot be used, or has no image."""


class DataError(PosformerError):
    """A dataset, or a file of predictions, that cannot be read."""


class ImageError(PosformerError):
    """An image that cannot be read."""


class NoInkError(ImageError):
    """An image without ink, or without a formula."""


class InkError(PosformerError):
    """Strokes or InkML that cannot be read or rendered."""


class BudgetError(PosformerError):
    """An input that takes more time or memory than allowed, or crashes a decoder.

    Attributes:
        kind: `time`, `memory`, `size` for an input that is too large to begin with, or `crash`.
    """

    def __init__(
        self, message: str, kind: Literal["time", "memory", "size", "crash"] = "size"
    ) -> None:
        self.kind = kind
        super().__init__(message, kind)

    def __str__(self) -> str:
        return str(self.args[0])


class ModelError(PosformerError):
    """A model or checkpoint that is missing, damaged, or too new for this version."""


class LatexError(PosformerError):
    """LaTeX that cannot be parsed.

    Attributes:
        reason: What is wrong, as the end of a sentence that starts with the token.
        token: The offending token, or None (for an empty text, for example).
        number: Its 1-based number among the tokens, or None.
        column: Its 1-based column in the source text, or None if there is no source text.
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
        parts = []
        if self.number is not None:
            parts.append(f"token {self.number}")
        if self.column is not None:
            parts.append(f"column {self.column}")
        location = f" ({', '.join(parts)})" if parts else ""
        return self.reason if self.token is None else f"{self.token}{location} {self.reason}"


class UnknownTokenError(LatexError):
    """A token that is not in the vocabulary."""
