"""Works on all tensors of a nest alike: tuples, named tuples, lists, mappings, None."""

from collections.abc import Callable, Iterator, Mapping

from torch import Tensor

from posformer.models.base import Nest

__all__ = ["map_tensors", "tensors"]


def map_tensors(change: Callable[[Tensor], Tensor], nest: Nest) -> Nest:
    """The same nest with every tensor changed."""
    if nest is None:
        return None
    if isinstance(nest, Tensor):
        return change(nest)
    if isinstance(nest, Mapping):
        return {key: map_tensors(change, value) for key, value in nest.items()}
    if isinstance(nest, (tuple, list)):
        parts = [map_tensors(change, part) for part in nest]
        return type(nest)(*parts) if hasattr(nest, "_fields") else type(nest)(parts)
    raise TypeError(f"a nest holds tensors, not {type(nest).__name__}")


def tensors(nest: Nest) -> Iterator[Tensor]:
    """All tensors of a nest, in order."""
    if isinstance(nest, Tensor):
        yield nest
    elif nest is not None:
        for part in nest.values() if isinstance(nest, Mapping) else nest:
            yield from tensors(part)
