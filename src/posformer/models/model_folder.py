"""Model folders: self-contained and versioned, with a checksum for every file. Needs no PyTorch.

`config.json` holds the format version, the config of the model, information about it (`info`) and
the SHA-256 of the other files; `vocabulary.txt` the tokens; `model.safetensors` the weights;
`encoder.onnx` and `decoder.onnx` the graphs for ONNX Runtime. In format 2, the graphs refer to the
weights in `model.safetensors`; in format 1, they hold a copy of them. `language.safetensors`, which
is optional, is an n-gram language model.
"""

import hashlib
import json
import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from posformer.atomic import atomic_folder, atomic_write
from posformer.errors import ConfigError, LatexError, ModelError
from posformer.latex import Vocabulary
from posformer.models.model_config import ModelConfig
from posformer.text_output import json_text

ENCODER, DECODER = "encoder.onnx", "decoder.onnx"
VOCABULARY = "vocabulary.txt"
WEIGHTS = "model.safetensors"
LANGUAGE = "language.safetensors"
CARD = "README.md"  # the model card
FORMAT = 2  # raised when an older program could misread a newer folder
CONFIG = "config.json"
# All that a folder may contain
FILES = {CONFIG, VOCABULARY, WEIGHTS, ENCODER, DECODER, LANGUAGE, CARD}


@dataclass(frozen=True)
class ModelFolder:
    """A model folder, without its weights."""

    path: Path
    config: ModelConfig
    vocabulary: Vocabulary
    info: dict[str, Any]  # data, scores, calibration and more
    checksums: dict[str, str]  # SHA-256 of every file but config.json

    def file(self, name: str) -> Path:
        """Return the path of a file after verifying its checksum."""
        path = self.path / name
        if name not in self.checksums:
            raise ModelError(f"{self.path}: this model has no {name}")
        try:
            digest = _sha256(path)
        except OSError as error:
            raise ModelError(f"{path}: {error.strerror or error}") from error
        if digest != self.checksums[name]:
            raise ModelError(f"{path}: damaged (its checksum is not the one in {CONFIG})")
        return path

    def has(self, name: str) -> bool:
        """Return whether the folder has a file."""
        return name in self.checksums


def open_folder(path: str | os.PathLike[str]) -> ModelFolder:
    """Read the config and the vocabulary of a model folder."""
    folder = Path(path)
    content = _read_config(folder)
    version = content.get("format") if isinstance(content, dict) else None
    if not isinstance(version, int):
        raise ModelError(f"{folder / CONFIG}: not the config of a posformer model")
    if version > FORMAT:
        raise ModelError(
            f"{folder}: model format {version} is newer than this program knows ({FORMAT}); "
            "update posformer"
        )
    try:
        checksums, info = dict(content["files"]), dict(content.get("info") or {})
        if unknown := sorted(checksums.keys() - FILES):
            raise ConfigError(f"{CONFIG} lists {unknown[0]!r}, which is no file of a model")
        config = ModelConfig.from_dict(content["model"])
        incomplete = ModelFolder(folder, config, Vocabulary(()), info, checksums)
        vocabulary = Vocabulary.load(incomplete.file(VOCABULARY))
    except (KeyError, TypeError, ValueError) as error:
        raise ModelError(f"{folder / CONFIG}: incomplete: {error}") from error
    except (ConfigError, LatexError) as error:
        raise ModelError(f"{folder}: {error}") from error
    return ModelFolder(folder, config, vocabulary, info, checksums)


def write_folder(
    path: Path,
    config: ModelConfig,
    vocabulary: Vocabulary,
    files: Mapping[str, Path],
    info: Mapping[str, Any],
) -> ModelFolder:
    """Write a model folder; an existing one is replaced completely or not at all.

    Args:
        path: the folder.
        config: config of the model.
        vocabulary: vocabulary of the model.
        files: further files by name, copied into the folder.
        info: information about the model; plain values.

    Raises:
        ModelError: If the path exists and cannot be replaced; see `check_replaceable`.
    """
    check_replaceable(path)
    with atomic_folder(path) as fresh:
        vocabulary.save(fresh / VOCABULARY)
        for name, source in files.items():
            shutil.copyfile(source, fresh / name)
        content = {
            "format": FORMAT,
            "model": config.to_dict(),
            "info": dict(info),
            "files": {file.name: _sha256(file) for file in sorted(fresh.iterdir())},
        }
        _write_config(fresh, content)
    return open_folder(path)


def check_replaceable(path: Path) -> None:
    """Raise an error if writing a model folder would delete anything but a model.

    A path that does not exist and an empty folder are fine. Any other folder must have been
    written by `write_folder`, and nothing may have been added to it since.

    Raises:
        ModelError: Names what would be deleted.
    """
    if path.is_symlink() or (path.exists() and not path.is_dir()):
        raise ModelError(f"{path}: exists and is not a folder; choose another path")
    parent = next(folder for folder in path.absolute().parents if folder.exists())
    if not parent.is_dir():
        raise ModelError(f"{path}: {parent} is not a folder; choose another path")
    names = sorted(file.name for file in path.iterdir()) if path.exists() else []
    if not names:
        return
    try:
        folder = open_folder(path)
        if folder.has(CARD):
            folder.file(CARD)  # a card that was edited since is the user's own
    except ModelError as error:
        raise ModelError(
            f"{path}: not empty and not an unchanged model folder; choose another path"
        ) from error
    written = {CONFIG, *folder.checksums}
    added = [name for name in names if name not in written or not (path / name).is_file()]
    if added:
        raise ModelError(
            f"{path}: contains {added[0]!r}, which is not part of a model and would be deleted; "
            "choose another path"
        )


def store_info(folder: ModelFolder, info: Mapping[str, Any]) -> ModelFolder:
    """Replace the information about a model and leave everything else unchanged."""
    _write_config(folder.path, {**_read_config(folder.path), "info": dict(info)})
    return open_folder(folder.path)


def _read_config(folder: Path) -> Any:
    try:
        return json.loads((folder / CONFIG).read_text(encoding="utf-8"))
    except OSError as error:
        reason = "no such model folder" if not folder.is_dir() else error.strerror or str(error)
        raise ModelError(f"{folder / CONFIG}: {reason}") from error
    except (ValueError, RecursionError) as error:
        raise ModelError(f"{folder / CONFIG}: not JSON: {error}") from error


def _write_config(folder: Path, content: Mapping[str, Any]) -> None:
    atomic_write(folder / CONFIG, json_text(content, indent=2) + "\n")


def _sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()
