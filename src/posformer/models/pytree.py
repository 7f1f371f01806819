"""Apply functions to every tensor of a pytree.

A pytree is a tensor, None, or a tuple, named tuple, list or mapping of pytrees.
"""

from collections.abc import Callable, Mapping
from typing import Any

from torch import Tensor

Pytree = Any


def map_tensors(function: Callable[[Tensor], Tensor], tree: Pytree) -> Pytree:
    """Return the same structure with `function` applied to every tensor.

    Raises:
        TypeError: If a leaf is neither a tensor nor None.
    """
    if tree is None:
        return None
    if isinstance(tree, Tensor):
        return function(tree)
    if isinstance(tree, Mapping):
        return {key: map_tensors(function, value) for key, value in tree.items()}
    if isinstance(tree, (tuple, list)):
        parts = [map_tensors(function, part) for part in tree]
        return type(tree)(*parts) if hasattr(tree, "_fields") else type(tree)(parts)
    raise TypeError(f"a pytree holds tensors, not {type(tree).__name__}")


def named_tensors(tree: Pytree, prefix: str = "") -> dict[str, Tensor]:
    """Return every tensor by its dotted path, in order: `cache.0.keys`."""
    if tree is None:
        return {}
    if isinstance(tree, Tensor):
        return {prefix.removesuffix("."): tree}
    keys = tree if isinstance(tree, Mapping) else getattr(tree, "_fields", range(len(tree)))
    parts = tree.values() if isinstance(tree, Mapping) else tree
    found: dict[str, Tensor] = {}
    for key, part in zip(keys, parts, strict=True):
        found |= named_tensors(part, f"{prefix}{key}.")
    return found


def tensors(tree: Pytree) -> list[Tensor]:
    """Return every tensor, in order."""
    return list(named_tensors(tree).values())
