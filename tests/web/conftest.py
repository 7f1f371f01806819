"""Vectors for the JavaScript package, and a skip where its packages are absent."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from javascript import MODEL, WEB, script_path

from posformer.models.model_folder import LANGUAGE, open_folder, write_folder
from posformer.synthesis.texts import OWN_FORMULAS, load_texts
from posformer.training.ngram_training import count_ngrams

WriteVectors = Callable[..., Path]


@pytest.fixture(scope="session")
def packages() -> Path:
    """The folder of ONNX Runtime Web."""
    folder = WEB / "node_modules" / "onnxruntime-web" / "dist"
    if not folder.is_dir():
        pytest.skip("needs web/node_modules (run `npm ci` in web/)")
    return folder


@pytest.fixture(scope="session")
def write_vectors(tmp_path_factory: pytest.TempPathFactory) -> WriteVectors:
    """A function that writes vectors with given arguments and returns their folder."""

    def write(*arguments: object) -> Path:
        folder = tmp_path_factory.mktemp("vectors")
        script = script_path("write_web_vectors.py")
        subprocess.run([sys.executable, str(script), str(folder), *map(str, arguments)], check=True)
        return folder

    return write


@pytest.fixture(scope="session")
def language_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The bundled model with a small language model."""
    path = tmp_path_factory.mktemp("language")
    bundled = open_folder(MODEL)
    model = count_ngrams(load_texts([OWN_FORMULAS], bundled.vocabulary.tokens), (1, 1, 1))
    model.save(path / LANGUAGE)
    files = {name: MODEL / name for name in bundled.checksums} | {LANGUAGE: path / LANGUAGE}
    info = {**bundled.info, "language": {"weight": 0.3, "data": ""}}
    folder = path / "model"
    return write_folder(folder, bundled.config, bundled.vocabulary, files, info).path


@pytest.fixture(scope="session")
def vectors(write_vectors: WriteVectors) -> Path:
    """A few vectors."""
    return write_vectors("--strokes", 10, "--photographs", 3, "--no-examples")
