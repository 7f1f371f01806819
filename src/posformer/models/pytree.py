"""Apply functions to every tensor of a pytree.

A pytree is a tensor, None, or a tuple, named tuple, list or mapping of pytrees.
"""

from collections.abc import Callable, Iterator, Mapping
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


def named_tensors(tree: Pytree, prefix: str) -> Iterator[tuple[str, Tensor]]:
    """Yield every tensor with its dotted path, in order: `cache.0.keys`."""
    if isinstance(tree, Tensor):
        yield prefix, tree
    elif tree is not None:
        if isinstance(tree, Mapping):
            items = list(tree.items())
        else:
            items = list(zip(getattr(tree, "_fields", range(len(tree))), tree, strict=True))
        for key, part in items:
            yield from named_tensors(part, f"{prefix}.{key}")


def tensors(tree: Pytree) -> Iterator[Tensor]:
    """Yield every tensor, in order."""
    return (tensor for _, tensor in named_tensors(tree, ""))
