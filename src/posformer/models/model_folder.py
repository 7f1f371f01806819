"""Model folders: self-contained and versioned, with a checksum for every file. Needs no PyTorch.

`config.json` holds the format version, the config of the model, information about it (`info`) and
the SHA-256 of the other files; `vocabulary.txt` the tokens; `model.safetensors` the weights;
`encoder.onnx` and `decoder.onnx` the graphs for ONNX Runtime. In format 2, the graphs refer to the
weights in `model.safetensors`; in format 1, they hold a copy of them.
"""

import hashlib
import json
import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from posformer.atomic import atomic_folder
from posformer.errors import ConfigError, LatexError, ModelError
from posformer.latex import Vocabulary
from posformer.models.model_config import ModelConfig

ENCODER, DECODER = "encoder.onnx", "decoder.onnx"
VOCABULARY = "vocabulary.txt"
WEIGHTS = "model.safetensors"
CARD = "README.md"  # the model card
FORMAT = 2  # raised when an older program could misread a newer folder
_CONFIG = "config.json"


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
            raise ModelError(f"{path}: damaged (its checksum is not the one in {_CONFIG})")
        return path

    def has(self, name: str) -> bool:
        """Return whether the folder has a file."""
        return name in self.checksums


def open_folder(path: str | os.PathLike[str]) -> ModelFolder:
    """Read the config and the vocabulary of a model folder."""
    folder = Path(path)
    try:
        content = json.loads((folder / _CONFIG).read_text(encoding="utf-8"))
    except OSError as error:
        reason = "no such model folder" if not folder.is_dir() else error.strerror or str(error)
        raise ModelError(f"{folder / _CONFIG}: {reason}") from error
    except ValueError as error:
        raise ModelError(f"{folder / _CONFIG}: not JSON: {error}") from error
    version = content.get("format") if isinstance(content, dict) else None
    if not isinstance(version, int):
        raise ModelError(f"{folder / _CONFIG}: not the config of a posformer model")
    if version > FORMAT:
        raise ModelError(
            f"{folder}: model format {version} is newer than this program knows ({FORMAT}); "
            "update posformer"
        )
    try:
        checksums, info = dict(content["files"]), dict(content.get("info") or {})
        config = ModelConfig.from_dict(content["model"])
        incomplete = ModelFolder(folder, config, Vocabulary(()), info, checksums)
        vocabulary = Vocabulary.load(incomplete.file(VOCABULARY))
    except (KeyError, TypeError, ValueError) as error:
        raise ModelError(f"{folder / _CONFIG}: incomplete: {error}") from error
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
    """
    if path.exists() and any(path.iterdir()) and not (path / _CONFIG).exists():
        raise ModelError(f"{path}: not empty and not a model folder; choose another path")
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
        text = json.dumps(content, indent=2, ensure_ascii=False) + "\n"
        (fresh / _CONFIG).write_text(text, encoding="utf-8")
    return open_folder(path)


def _sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()
