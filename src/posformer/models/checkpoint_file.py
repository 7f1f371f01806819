"""Reads checkpoint files. They hold tensors and plain values; no code in them ever runs."""

import pickle
import warnings
import zipfile
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any

import torch
from torch.serialization import get_unsafe_globals_in_checkpoint, safe_globals

from posformer.errors import ModelError


class _StandIn:
    """Replaces objects of classes that are not loaded; accepts anything, does nothing."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        pass

    __setstate__ = __init__


def read_checkpoint_file(path: Path, ignored: Collection[str] = ()) -> Any:
    """Read the tensors and plain values of a file that `torch.save` wrote.

    Args:
        path: the file.
        ignored: packages whose classes the file may name. They are not imported; an inert object
            takes the place of their instances.

    Raises:
        ModelError: If the file is missing, damaged or a TorchScript archive, or names anything
            else than tensors, plain values and classes of the ignored packages.
    """
    if not path.is_file():
        raise ModelError(f"{path}: no such file")
    try:
        stand_ins: list[Any] = []
        if zipfile.is_zipfile(path):  # else of PyTorch before 1.6
            _check_archive(path)
            names = get_unsafe_globals_in_checkpoint(path)
            stand_ins = [_stand_in(name, path, ignored) for name in names]
        with safe_globals(stand_ins), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about old and unusual pickles
            # Refuses TorchScript too, should PyTorch see an archive where `zipfile` does not.
            return torch.load(path, map_location="cpu", weights_only=True)
    except ModelError:
        raise
    except pickle.UnpicklingError as error:  # its text suggests to load the file unsafely
        raise ModelError(
            f"{path}: not a checkpoint, or it contains more than tensors and plain values"
        ) from error
    except Exception as error:  # a damaged file may cause any exception
        lines = str(error).strip().splitlines()
        reason = lines[0][:120] if lines else type(error).__name__
        raise ModelError(f"{path}: not a checkpoint, or damaged ({reason})") from error


def _check_archive(path: Path) -> None:
    """Raise an error for TorchScript, which is a program, and for content that has changed."""
    with zipfile.ZipFile(path) as archive:
        names = [name.partition("/")[2] for name in archive.namelist()]
        if any(name == "constants.pkl" or name.startswith("code/") for name in names):
            raise ModelError(f"{path}: a TorchScript archive, which contains code; not loaded")
        # PyTorch does not verify the checksums of tensors.
        if (damaged := archive.testzip()) is not None:
            raise ModelError(f"{path}: damaged (the checksum of {damaged} is wrong)")


def _stand_in(name: str, path: Path, ignored: Collection[str]) -> tuple[Callable[..., Any], str]:
    if name.partition(".")[0] not in ignored:
        raise ModelError(f"{path}: names {name}; only tensors and plain values are loaded")
    # Lightning's dict with attributes holds the hyperparameters.
    return (dict if name.endswith(".AttributeDict") else _StandIn), name
