"""Valid inputs of every kind, which the fuzzer mutates."""

import gzip
import io
import json
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image

from hostile import nested_pdf
from posformer.ink import render, strokes_in_pixels
from posformer.runtime.model_export import export_model
from tiny import VOCABULARY, tiny_config, tiny_model
from tiny_exports import decisive_model
from writing import inkml

EXAMPLES = Path(__file__).parents[2] / "examples"
STROKES = [[[0, 20], [40, 20]], [[20, 0], [20, 40]], [[80, 0], [105, 0], [90, 40]]]

Corpus = Mapping[str, Mapping[str, bytes]]
"""By target the content of each file by name."""


def make_corpus(folder: Path) -> Corpus:
    """Make valid inputs; the model is exported to `folder / "model"`."""
    export_model(decisive_model(), folder / "model")
    return {
        "image": _images(),
        "ink": _inks(),
        "json": _results(),
        "checkpoint": _checkpoints(),
        "model": {file.name: file.read_bytes() for file in sorted((folder / "model").iterdir())},
        "http": _requests(),
    }


def _images() -> dict[str, bytes]:
    drawing = render(strokes_in_pixels([np.array(stroke, float) for stroke in STROKES]))
    grey = Image.fromarray(255 - drawing)
    files = {
        f"{kind}-{mode}": _encoded(grey.convert(mode), kind)
        for kind in ("PNG", "JPEG", "BMP", "GIF", "TIFF", "WEBP", "PPM")
        for mode in ("L", "RGB")
    }
    files["PNG-palette"] = _encoded(grey.convert("P"), "PNG")
    files["PNG-alpha"] = _encoded(grey.convert("LA"), "PNG")
    files["TIFF-pages"] = _encoded(grey, "TIFF", save_all=True, append_images=[grey] * 3)
    files["PDF"] = nested_pdf(2)
    files |= {path.name: path.read_bytes() for path in sorted(EXAMPLES.glob("[eqt]*.png"))}
    return files


def _encoded(image: Image.Image, kind: str, **options: Any) -> bytes:
    buffer = io.BytesIO()
    image.save(buffer, kind, **options)
    return buffer.getvalue()


def _inks() -> dict[str, bytes]:
    xournal = (
        b'<?xml version="1.0"?><xournal><page width="600" height="800"><layer>'
        b'<stroke tool="pen" width="1.4">0 20 40 20</stroke>'
        b'<stroke tool="pen" width="1.4">20 0 20 40 21 41 22 43</stroke></layer></page></xournal>'
    )
    svg = (
        b'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 100 100"><g transform="scale(2)">'
        b'<path d="M 0 20 L 40 20 C 1 2 3 4 5 6 A 5 5 0 0 1 9 9 Z" stroke="black" fill="none"/>'
        b'<polyline points="20,0 20,40 25,50"/><line x1="0" y1="0" x2="10" y2="9"/></g></svg>'
    )
    drawn = {"type": "freedraw", "x": 3, "y": 4, "points": [[0, 20], [40, 20], [41, 30]]}
    excalidraw = {"type": "excalidraw", "version": 2, "elements": [drawn, {**drawn, "x": 90}]}
    files = {path.name: path.read_bytes() for path in sorted(EXAMPLES.glob("*.inkml"))}
    points = {"0": "0 20, 40 20", "1": "20 0, 20 40, 22 41"}
    groups = [("+", ["0", "1"], "p")]
    files["inkml"] = inkml(points, groups=groups, truth="$+$", math='<mo xml:id="p">+</mo>')
    files |= {"xopp": xournal, "xopp.gz": gzip.compress(xournal), "svg": svg}
    return {**files, "excalidraw": json.dumps(excalidraw).encode()}


def _results() -> dict[str, bytes]:
    prediction = {"name": "a", "truth": "x ^ { 2 }", "prediction": "x", "confidence": 0.5}
    result = {"path": "a.png", "latex": "x", "confidence": 0.5, "alternatives": []}
    symbol = {"token": "x", "writer": "1", "strokes": [[[0, 0], [9, 9]], [[9, 0], [0, 9]]]}
    records = {"predictions": prediction, "results": result, "symbols": symbol}
    return {name: json.dumps(record).encode() + b"\n" for name, record in records.items()}


def _checkpoints() -> dict[str, bytes]:
    own = {"config": {"model": tiny_config().to_dict()}, "tokens": list(VOCABULARY.tokens)}
    weights = {f"model.{name}": value for name, value in tiny_model().state_dict().items()}
    public = {**weights, "model.decoder.proj.weight": torch.zeros(len(VOCABULARY), 8)}
    settings = {"d_model": 32, "growth_rate": 4, "num_layers": 1, "nhead": 4, "dc": 6}
    parts = {
        "own": {"state_dict": weights, "hyper_parameters": {}, "posformer": own},
        "public": {"state_dict": public, "hyper_parameters": settings},
    }
    return {
        f"{name}-{kind}": _saved(content, is_archive)
        for name, content in parts.items()
        for kind, is_archive in (("archive", True), ("pickle", False))
    }


def _saved(content: object, is_archive: bool) -> bytes:
    buffer = io.BytesIO()
    torch.save(content, buffer, _use_new_zipfile_serialization=is_archive)
    return buffer.getvalue()


def _requests() -> dict[str, bytes]:
    strokes = json.dumps({"strokes": STROKES}).encode()
    latex = json.dumps({"latex": r"\frac{x^2}{\sqrt{y}}", "format": "typst"}).encode()
    image = _images()["PNG-L"]
    form = b'--edge\r\nContent-Disposition: form-data; name="file"; filename="a.png"\r\n'
    form += b"Content-Type: image/png\r\n\r\n" + image + b"\r\n--edge--\r\n"
    return {
        "strokes": request("POST", "/api/strokes?top_k=2&format=mathml", strokes),
        "explained": request("POST", "/api/strokes?explain=true", strokes),
        "latex": request("POST", "/api/latex", latex),
        "image": request("POST", "/api/recognize", form, "multipart/form-data; boundary=edge"),
        "ready": request("GET", "/api/ready"),
        "page": request("GET", "/"),
        "model": request("GET", "/api/model"),
    }


def request(method: str, path: str, body: bytes = b"", kind: str = "application/json") -> bytes:
    """Return the bytes of an HTTP request."""
    head = f"{method} {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
    if body:
        head += f"Content-Type: {kind}\r\nContent-Length: {len(body)}\r\n"
    return head.encode() + b"\r\n" + body


def with_member(archive: bytes, name: str, change: Callable[[bytes], bytes]) -> bytes:
    """Return a zip archive with one member changed and its checksum corrected."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(archive)) as source, zipfile.ZipFile(buffer, "w") as target:
        for member in source.namelist():
            content = source.read(member)
            target.writestr(member, change(content) if member == name else content)
    return buffer.getvalue()
