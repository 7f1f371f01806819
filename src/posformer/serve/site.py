"""The files of the web page: what the server serves and what `posformer build-web` writes."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path

from posformer import __version__
from posformer.errors import ModelError, PosformerError
from posformer.models.model_folder import LANGUAGE, open_folder

PAGE = Path(__file__).parent / "page"
RUNTIME = Path(__file__).parent / "runtime"
"""ONNX Runtime Web, which `make web` puts there; part of wheels, not of the repository."""

_RECOGNIZER = (Path(__file__).parent / "recognizer", Path(__file__).parents[3] / "web" / "src")
_RUNTIME_FILES = (
    "ort.wasm.min.mjs",
    "ort-wasm-simd-threaded.mjs",
    "ort-wasm-simd-threaded.wasm.gz",
)
_MODEL_FILES = (  # all models need them; a language model is optional
    "config.json",
    "vocabulary.txt",
    "encoder.onnx",
    "decoder.onnx",
    "model.safetensors",
)
_FONT = "fonts/STIXTwoMath-Regular.ttf"
_SERVER_ONLY = ("docs.html", "docs.js")
_STATIC_ONLY = ("sw.js",)

Content = bytes | Path
Site = Mapping[str, Content]
"""The content of each file by its path on the page."""


def server_site(model: Path | None) -> Site:
    """Return the files that a server serves beside its API.

    Args:
        model: The model folder for recognition in the browser; None if there is none.
    """
    is_local = model is not None and not _missing_for_browser(model)
    files = {
        **_page_files(without=_STATIC_ONLY),
        "app.json": _app(True, _local_files(model) if is_local and model else {}),
    }
    return files | (_local_files(model) if is_local and model else {})


def build_site(folder: Path, model: Path) -> None:
    """Write a page that recognizes in the browser into a folder, for any static host.

    Args:
        folder: The folder; it must be empty, or have been written by this function.
        model: The model folder.

    Raises:
        PosformerError: If the folder has other files, the JavaScript runtime is not built, or the
            model has no ONNX files.
    """
    if reason := _missing_for_browser(model):
        raise ModelError(reason)
    if folder.exists() and not _may_write(folder):
        raise PosformerError(f"{folder}: is not empty and not a page that this command wrote")
    local = _local_files(model)
    page = _page_files(without=_SERVER_ONLY)
    shell: dict[str, Content] = {**page, "app.json": _app(False, local)}
    files = {**shell, **local}
    worker = files.pop("sw.js")
    first = [name for name in (*shell, *local) if name in files and not name.startswith("model/")]
    files["sw.js"] = _filled(_bytes(worker), _digest(files), first)
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(_bytes(content))


def _missing_for_browser(model: Path) -> str:
    """Return why the page cannot recognize in the browser; nothing if it can."""
    if not all((RUNTIME / name).is_file() for name in _RUNTIME_FILES):
        return (
            "the JavaScript runtime is not built: run `make web` in a clone of the repository "
            "(needs Node.js 20 and npm)"
        )
    try:
        names = _model_files(model)
    except PosformerError as error:
        return str(error)
    missing = [name for name in names if not (model / name).is_file()]
    return f"{model}: a page needs an exported model with {missing[0]}" if missing else ""


def _model_files(model: Path) -> tuple[str, ...]:
    """Return the files of a model that the page loads."""
    return (*_MODEL_FILES, LANGUAGE) if open_folder(model).has(LANGUAGE) else _MODEL_FILES


def _page_files(without: tuple[str, ...]) -> dict[str, Content]:
    recognizer = next(folder for folder in _RECOGNIZER if folder.is_dir())
    modules = sorted(path for path in recognizer.glob("*.js") if path.name != "node.js")
    own = sorted(path for path in PAGE.iterdir() if path.is_file() and path.suffix != ".py")
    return {
        **{path.name: path for path in own if path.name not in without},
        **{f"recognizer/{path.name}": path for path in modules},
        "math.ttf": _font(),
    }


def _local_files(model: Path) -> dict[str, Content]:
    """Return the files of the runtime and the model."""
    return {
        **{f"runtime/{name}": RUNTIME / name for name in _RUNTIME_FILES},
        **{f"model/{name}": model / name for name in _model_files(model)},
    }


def _app(server: bool, local: Mapping[str, Content]) -> bytes:
    """Return what the page needs to know about where it is served."""
    size = sum(len(_bytes(content)) for content in local.values())
    app = {"version": __version__, "server": server, "local": bool(local), "bytes": size}
    return json.dumps(app).encode()


def _font() -> Path:
    """Return STIX Two Math, which the package ziamath contains; it is not imported."""
    spec = find_spec("ziamath")
    for folder in (spec and spec.submodule_search_locations) or ():
        if (font := Path(folder) / _FONT).is_file():
            return font
    raise PosformerError("the font of the page is missing: install posformer[serve]")


def _filled(worker: bytes, version: str, files: list[str]) -> bytes:
    listed = ", ".join(json.dumps("." if name == "index.html" else name) for name in files)
    return worker.replace(b"{version}", version.encode()).replace(b'"{files}"', listed.encode())


def _digest(files: Site) -> str:
    total = hashlib.sha256()
    for name, content in sorted(files.items(), key=lambda item: item[0]):
        total.update(f"{name}\n".encode() + hashlib.sha256(_bytes(content)).digest())
    return total.hexdigest()[:16]


def _bytes(content: Content) -> bytes:
    return content if isinstance(content, bytes) else content.read_bytes()


def _may_write(folder: Path) -> bool:
    """Whether a folder is empty or has a page."""
    if not folder.is_dir():
        return False
    return (folder / "app.json").is_file() or not any(folder.iterdir())
