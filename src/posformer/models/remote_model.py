"""Models by name: from the Hugging Face Hub (`hf://`), or at another URL that fsspec reads.

A downloaded model is a model folder in a cache; all checksums are verified.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from posformer.atomic import atomic_folder
from posformer.errors import DataError, ModelError, PosformerError
from posformer.models.model_folder import CONFIG, FILES, open_folder
from posformer.urls import file_system

__all__ = ["HubModel", "fetch_model", "push_model"]

_HUB_NAME = re.compile(r"hf://([\w.-]+/[\w.-]+)(?:@(.+))?")


@dataclass(frozen=True)
class HubModel:
    """A model of the Hugging Face Hub."""

    repository: str  # OWNER/NAME
    revision: str | None = None  # branch, tag or commit; None: the newest commit

    @classmethod
    def parse(cls, name: str) -> HubModel:
        """Return the model of a name such as `hf://OWNER/NAME@REVISION`.

        Raises:
            ModelError: If it is not of this form.
        """
        match = _HUB_NAME.fullmatch(name)
        if match is None:
            raise ModelError(
                f"{name}: is not of the form hf://OWNER/NAME or hf://OWNER/NAME@COMMIT"
            )
        return cls(match[1], match[2])


def fetch_model(url: str) -> Path:
    """Download a model, unless the cache has it, and return its folder.

    Args:
        url: `hf://OWNER/NAME`, `hf://OWNER/NAME@REVISION`, or the URL of a model folder.

    Raises:
        ModelError: If there is no such model, it cannot be downloaded, or a file is damaged.
    """
    folder = _from_hub(url) if url.startswith("hf://") else _from_file_system(url)
    try:
        _verify(folder)
    except ModelError as error:
        raise ModelError(f"{url}: {error}") from error
    return folder


def push_model(folder: Path, model: HubModel) -> str:
    """Upload a model folder to the Hub.

    Returns:
        The name of the model, pinned to the commit.

    Raises:
        ModelError: If the upload fails.
    """
    api = _hub().HfApi()
    try:
        api.create_repo(model.repository, exist_ok=True)
        commit = api.upload_folder(
            repo_id=model.repository,
            folder_path=folder,
            revision=model.revision,
            allow_patterns=sorted(FILES),
            commit_message="Upload a posformer model",
        )
    except (OSError, ValueError) as error:  # the base classes of the library's errors
        raise ModelError(f"hf://{model.repository}: cannot be uploaded ({_line(error)})") from error
    return f"hf://{model.repository}@{commit.oid}"


def _from_hub(url: str) -> Path:
    model = HubModel.parse(url)
    try:
        folder = _hub().snapshot_download(
            model.repository, revision=model.revision, allow_patterns=sorted(FILES)
        )
    except (OSError, ValueError) as error:
        raise ModelError(f"{url}: cannot be downloaded ({_line(error)})") from error
    return Path(folder)


def _hub() -> Any:
    """Return the client library. It reads this variable once, and otherwise reports its use."""
    os.environ["HF_HUB_DISABLE_TELEMETRY"] = "1"
    import huggingface_hub

    return huggingface_hub


def _from_file_system(url: str) -> Path:
    """Return a folder of the cache; its name has the checksum of the config."""
    try:
        system, path = file_system(url.rstrip("/"))
        config = system.cat_file(f"{path}/{CONFIG}")
        digest = hashlib.sha256(config).hexdigest()
        folder = _cache() / f"{path.rsplit('/', 1)[-1]}-{digest[:16]}"
        if folder.exists():
            return folder
        with atomic_folder(folder, replace=False) as fresh:
            (fresh / CONFIG).write_bytes(config)
            for name in FILES & set(json.loads(config)["files"]):
                system.get_file(f"{path}/{name}", str(fresh / name))
            _verify(fresh)
    except FileNotFoundError as error:
        raise ModelError(f"{url}: no such model folder") from error
    except ModelError as error:
        raise ModelError(f"{url}: {error}") from error
    except DataError as error:
        raise ModelError(str(error)) from error
    except (PosformerError, ModuleNotFoundError):
        raise
    except Exception as error:  # file systems have errors of their own
        raise ModelError(f"{url}: cannot be downloaded ({_line(error)})") from error
    return folder


def _verify(path: Path) -> None:
    """Raise an error if a file of a model folder is missing or damaged."""
    folder = open_folder(path)
    for name in folder.checksums:
        folder.file(name)


def _cache() -> Path:
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "posformer" / "models"


def _line(error: Exception) -> str:
    return next(iter(str(error).strip().splitlines()), type(error).__name__)[:200]
