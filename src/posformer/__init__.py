"""posformer recognizes handwritten and printed mathematics and writes LaTeX."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from posformer.errors import PosformerError
    from posformer.recognizer import Recognition, Recognizer
    from posformer.search.decoding_options import DecodingOptions

__version__ = "0.1.0"

__all__ = ["DecodingOptions", "PosformerError", "Recognition", "Recognizer", "__version__"]

_MODULES = {
    "DecodingOptions": "posformer.search.decoding_options",
    "PosformerError": "posformer.errors",
    "Recognition": "posformer.recognizer",
    "Recognizer": "posformer.recognizer",
}


def __getattr__(name: str) -> Any:
    # Imported on first use, so that commands that need no recognition start fast.
    if name in _MODULES:
        return getattr(import_module(_MODULES[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
