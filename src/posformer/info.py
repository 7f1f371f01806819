"""The text that `posformer info` prints: versions and model details."""

import json
import os
import platform
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from posformer import __version__
from posformer.models.model_folder import CARD, ModelFolder, open_folder
from posformer.runtime.engine import model_path

_LIBRARIES = ("numpy", "onnxruntime", "opencv-python-headless", "pillow", "torch")


def describe_program() -> str:
    """Return the versions of the program, Python and the main libraries, one per line."""
    rows = [("posformer", __version__), ("python", platform.python_version())]
    rows += [(name, _version(name)) for name in _LIBRARIES]
    rows.append(("machine", f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores"))
    return _table(rows)


def describe_model(path: str | os.PathLike[str] | None = None) -> str:
    """Return the path, settings, metadata and card of a model.

    Args:
        path: A model folder or its URL; the bundled model if None.
    """
    folder = open_folder(model_path(path))
    parts = [_table([("model", str(folder.path)), *_settings(folder), *_metadata(folder.info)])]
    if folder.has(CARD):
        parts.append(folder.file(CARD).read_text(encoding="utf-8").strip())
    return "\n\n".join(parts)


def _settings(folder: ModelFolder) -> list[tuple[str, str]]:
    config = folder.config
    size = sum((folder.path / name).stat().st_size for name in folder.checksums)
    layers = "+".join(map(str, config.encoder.layers))
    return [
        ("architecture", config.name),
        ("encoder", f"growth {config.encoder.growth}, {layers} layers"),
        ("decoder", config.decoder.describe()),
        ("directions", config.decoder.directions),
        ("vocabulary", str(len(folder.vocabulary.tokens))),
        ("files", f"{', '.join(folder.checksums)} ({size / 1e6:.1f} MB)"),
    ]


def _metadata(info: dict[str, Any]) -> list[tuple[str, str]]:
    return [
        (name, value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))
        for name, value in info.items()
    ]


def _version(library: str) -> str:
    try:
        return version(library)
    except PackageNotFoundError:
        return "not installed"


def _table(rows: list[tuple[str, str]]) -> str:
    width = max(len(name) for name, _ in rows)
    return "\n".join(f"{name:<{width}}  {value}" for name, value in rows)
