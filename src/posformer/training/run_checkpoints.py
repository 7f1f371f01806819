"""The checkpoints of a run: no crash loses one, and a run resumes from the newest whole one."""

import io
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from lightning.fabric.plugins.io.torch_io import TorchCheckpointIO

from posformer.atomic import atomic_path
from posformer.errors import ConfigError, ModelError, PosformerError
from posformer.models.checkpoint import read_checkpoint
from posformer.training.callbacks import say

LAST, PREVIOUS, BEST = "last.ckpt", "last.previous.ckpt", "best.ckpt"

_REQUIRED = ("epoch", "global_step", "loops", "lr_schedulers", "optimizer_states")


class DurableCheckpointIO(TorchCheckpointIO):
    """Writes a checkpoint to disk before it gets its name, and keeps the previous `last.ckpt`."""

    def save_checkpoint(
        self,
        checkpoint: dict[str, Any],
        path: str | os.PathLike[str],
        storage_options: Any | None = None,
    ) -> None:
        """Write a checkpoint; whatever happens meanwhile, `path` is always a whole file."""
        path = Path(path)
        path.parent.mkdir(parents=True, exist_ok=True)
        content = io.BytesIO()
        torch.save(checkpoint, content)
        try:
            with atomic_path(path, sync=True) as part:
                part.write_bytes(content.getbuffer())
                if path.name == LAST and path.exists():
                    _keep_as(path, path.with_name(PREVIOUS))
        except OSError as error:
            raise PosformerError(f"{path}: cannot be written ({error.strerror})") from error


def _keep_as(path: Path, previous: Path) -> None:
    """Give a file a second name; it keeps its own until another file takes it."""
    link = previous.with_name(f".{previous.name}.part")
    link.unlink(missing_ok=True)
    try:
        link.hardlink_to(path)
        link.replace(previous)
    except OSError:  # not every file system has hard links
        with atomic_path(previous) as part:
            part.write_bytes(path.read_bytes())
    finally:
        link.unlink(missing_ok=True)  # renaming to another link of the same file does nothing


def has_checkpoint(folder: Path) -> bool:
    """Return whether a run has been started in a folder."""
    return (folder / LAST).exists() or (folder / PREVIOUS).exists()


def checkpoint_to_resume(folder: Path) -> tuple[Path, dict[str, Any]]:
    """Return the newest whole checkpoint of a run and its content.

    Raises:
        ConfigError: If there is no checkpoint.
        ModelError: If none is whole; names the newest.
    """
    found = [folder / name for name in (LAST, PREVIOUS, BEST) if (folder / name).exists()]
    if not has_checkpoint(folder):
        raise ConfigError(f"{folder / LAST}: nothing to resume")
    problems: list[ModelError] = []
    for path in found:
        try:
            content = _read(path)
        except ModelError as error:
            problems.append(error)
        else:
            reasons = [*map(str, problems)] or [f"{folder / LAST}: missing"]
            if path.name != LAST:
                say(f"{'; '.join(reasons)}; resuming from {path}")
            return path, content
    raise problems[0]


def _read(path: Path) -> dict[str, Any]:
    content = read_checkpoint(path)
    for name in _REQUIRED:
        if name not in content:
            raise ModelError(f"{path}: cannot be resumed; it has no {name!r}")
    return content


@contextmanager
def explained_mismatch(checkpoint: Path | None) -> Iterator[None]:
    """Raise a ConfigError in place of PyTorch's error about weights of other names or shapes."""
    try:
        yield
    except RuntimeError as error:
        if checkpoint is None or "loading state_dict" not in str(error):
            raise
        reason = str(error).strip().splitlines()[-1].strip()
        raise ConfigError(f"{checkpoint}: does not fit the config ({reason})") from error
