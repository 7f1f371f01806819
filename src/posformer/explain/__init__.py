"""Attention maps of a model for an image; PyTorch is not needed.

`explain` needs the extra `report`. It is imported on first use: the server uses `force_decode`
alone.
"""

from typing import TYPE_CHECKING, Any

from posformer.explain.forced_decoding import ForcedDecoding, coverage, force_decode

if TYPE_CHECKING:
    from posformer.explain.explain_image import Explained, explain

__all__ = ["Explained", "ForcedDecoding", "coverage", "explain", "force_decode"]


def __getattr__(name: str) -> Any:
    if name in ("Explained", "explain"):
        from posformer.explain import explain_image

        return getattr(explain_image, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
