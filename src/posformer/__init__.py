"""posformer reads handwritten mathematics and writes LaTeX."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from posformer.recognizer import Recognition, Recognizer

__version__ = "0.1.0"

__all__ = ["Recognition", "Recognizer", "__version__"]


def __getattr__(name: str) -> Any:
    # What recognition needs is imported when it is first asked for, so that commands which do
    # without it start at once.
    if name in ("Recognition", "Recognizer"):
        from posformer import recognizer

        return getattr(recognizer, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
