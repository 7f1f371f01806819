"""Setting names of version 0.1: its models, checkpoints and configs still load."""

from collections.abc import Mapping
from typing import Any

# Dotted keys of a training config. Settings of a model folder are those below `model`.
_RENAMED = {
    "model.picture": "model.image",
    "data.pictures": "data.images",
    "data.exchange": "data.substitution",
    "data.graft": "data.subtree_swap",
    "data.warp": "data.distortion",
    "batch.max_pictures": "batch.max_images",
    "progress_pictures": "progress_images",
}
_RENAMED_VALUES = {
    ("data.source", "pictures"): "images",
    ("model.decoder.refinement.masked_by", "fed"): "input",
}


def current_key(key: str) -> str:
    """Return the current name of a dotted key."""
    for old, new in _RENAMED.items():
        if key == old or key.startswith(f"{old}."):
            return new + key.removeprefix(old)
    return key


def current_settings(values: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Return nested settings of a training config under their current names."""
    result: dict[str, Any] = {}
    for name, value in values.items():
        key = current_key(prefix + name)
        if isinstance(value, Mapping):
            value = current_settings(value, f"{key}.")
        elif isinstance(value, str):
            value = _RENAMED_VALUES.get((key, value), value)
        result[key.removeprefix(prefix)] = value
    return result


def current_checkpoint(own: Mapping[str, Any]) -> dict[str, Any]:
    """Return the `posformer` entry of a checkpoint under its current names."""
    result = dict(own)
    for old, new in (("recipe", "config"), ("words", "tokens")):
        if old in result:
            result[new] = result.pop(old)
    result["config"] = current_settings(result["config"])
    return result
