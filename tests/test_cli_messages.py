"""What users see when something outside the program goes wrong: one line, no traceback."""

import csv
import io
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from posformer import Recognizer
from posformer.cli import main
from posformer.errors import ImageError, ModelError, PosformerError
from posformer.image.loading import load_image
from posformer.models.model_folder import (
    DECODER,
    ENCODER,
    VOCABULARY,
    WEIGHTS,
    open_folder,
    write_folder,
)

ROOT = Path(__file__).parents[1]
POSIX = pytest.mark.skipif(os.name == "nt", reason="needs Unix")


def posformer(*arguments: object, **options: object) -> subprocess.CompletedProcess:
    command = [sys.executable, "-m", "posformer.cli", *map(str, arguments)]
    options.setdefault("stdout", subprocess.PIPE)
    return subprocess.run(command, stderr=subprocess.PIPE, **options)


def one_line(done: subprocess.CompletedProcess, code: int = 2) -> str:
    """Check that a command failed with one line, and return it."""
    text = done.stderr.decode()
    assert done.returncode == code, text
    assert text.startswith("posformer: ") and text.count("\n") == 1, text
    return text


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pixels = np.full((60, 60), 255, np.uint8)
    pixels[10:50, 28:32] = pixels[28:32, 10:50] = 0
    path = tmp_path_factory.mktemp("image") / "plus.png"
    Image.fromarray(pixels).save(path)
    return path


# Output


@POSIX
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_full_disk(tiny_folder, image, tmp_path):
    recognize = ("recognize", image, "--model", tiny_folder, "--greedy")
    with Path("/dev/full").open("wb") as full:
        assert "No space left" in one_line(posformer("forest", "x^2", stdout=full))
        assert "No space left" in one_line(posformer(*recognize, stdout=full))
    (tmp_path / "out").write_text("before")
    limit = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (20, 20))"
    program = f"{limit}; from posformer.cli import main; main()"
    command = [sys.executable, "-c", program, *map(str, recognize), "--output", tmp_path / "out"]
    done = subprocess.run([*command, "--format", "csv"], capture_output=True)
    assert f"{tmp_path / 'out.part'}: File too large" in one_line(done)
    assert (tmp_path / "out").read_text() == "before"


@POSIX
def test_closed_stdout(tiny_folder, image):
    close = {"preexec_fn": lambda: os.close(1)}
    done = posformer("recognize", image, "--model", tiny_folder, **close)
    assert "stdout is closed" in one_line(done)
    done = posformer("forest", "x^2", **close)
    assert (done.returncode, done.stderr) == (0, b"")


@pytest.mark.parametrize("below", [False, True])
def test_export_onto_a_file_or_below_one(below, tiny_folder, image, monkeypatch, capsys):
    output = str(image / "below" if below else image)
    monkeypatch.setattr(sys, "argv", ["posformer", "export", str(tiny_folder), output])
    with pytest.raises(SystemExit) as end:
        main()
    errors = capsys.readouterr().err
    assert end.value.code == 2
    assert errors.startswith(f"posformer: {image}") and errors.count("\n") == 1


@pytest.mark.parametrize("encoding", ["ascii", "cp1252"])
def test_json_is_utf8_in_every_locale(encoding, tiny_folder, image, tmp_path):
    environment = {**os.environ, "PYTHONIOENCODING": encoding}
    shutil.copy(image, tmp_path / "größe α.png")
    done = posformer(
        *("recognize", tmp_path / "größe α.png", "--model", tiny_folder, "--format", "json"),
        env=environment,
    )
    assert json.loads(done.stdout.decode("utf-8"))["path"].endswith("größe α.png"), done.stderr
    done = posformer("forest", "x^2", "--format", "json", env=environment)
    assert json.loads(done.stdout.decode("utf-8"))[0]["token"] == "x"
    done = posformer("forest", r"\alpha^2", env=environment)  # draws with characters of Unicode
    assert (done.returncode, done.stderr) == (0, b"")


# Names of files


@POSIX
def test_control_characters_in_names_are_escaped(tiny_folder, image, tmp_path):
    good, bad = tmp_path / "a\tb\nc\x1b[31m.png", tmp_path / "x\ny.png"
    shutil.copy(image, good)
    bad.write_bytes(b"no image")
    recognize = ("recognize", tmp_path, "--model", tiny_folder)
    done = posformer(*recognize)
    assert rf"{tmp_path}/x\ny.png: not an image" in one_line(done, 1)
    (row,) = done.stdout.decode().splitlines()
    assert row.split("\t")[0] == rf"{tmp_path}/a\tb\nc\x1b[31m.png"
    rows = map(json.loads, posformer(*recognize, "--format", "json").stdout.splitlines())
    assert [row["path"] for row in rows] == [str(good), str(bad)]
    table = posformer(*recognize, "--format", "csv").stdout.decode()
    assert [row[0] for row in csv.reader(io.StringIO(table))] == ["path", str(good), str(bad)]


@POSIX
def test_names_that_are_not_text_are_valid_json(tiny_folder, image, tmp_path):
    name = os.fsencode(tmp_path) + b"/\xff.png"
    try:
        Path(os.fsdecode(name)).write_bytes(image.read_bytes())
    except OSError:
        pytest.skip("this file system requires valid text")
    done = posformer("recognize", tmp_path, "--model", tiny_folder, "--format", "json")
    path = json.loads(done.stdout.decode("utf-8"))["path"]
    assert os.fsencode(path) == name


@POSIX
def test_pipes_and_devices_in_a_folder_are_skipped(tiny_folder, image, tmp_path):
    shutil.copy(image, tmp_path / "b.png")
    os.mkfifo(tmp_path / "a.png")
    (tmp_path / "c.png").symlink_to("/dev/zero")
    done = posformer("recognize", tmp_path, "--model", tiny_folder, timeout=60)
    assert done.returncode == 0
    lines = done.stderr.decode().splitlines()
    assert [line.split(": ")[1:] for line in lines] == [
        [str(tmp_path / name), "skipped; it is a pipe, socket or device"]
        for name in ("a.png", "c.png")
    ]
    assert len(done.stdout.splitlines()) == 1


@POSIX
def test_a_pipe_that_is_named_is_read(tiny_folder, image):
    command = [sys.executable, "-m", "posformer.cli", "recognize", "--model", str(tiny_folder)]
    expected = subprocess.run([*command, image], capture_output=True).stdout
    script = 'cat "$0" | "$@" /dev/stdin'
    done = subprocess.run(["bash", "-c", script, image, *command], capture_output=True)
    assert (done.stdout, done.stderr) == (expected, b"")


# One unreadable input is one error

PDF_WITHOUT_PAGES = (
    b"%PDF-1.4\n1 0 obj<</Type/Catalog/Pages 2 0 R>>endobj\n"
    b"2 0 obj<</Type/Pages/Kids[]/Count 0>>endobj\ntrailer<</Root 1 0 R>>\n%%EOF"
)
INK = '<ink xmlns="http://www.w3.org/2003/InkML"><trace>{}</trace></ink>'


class BrokenFile(io.RawIOBase):
    """A file on a disk that fails."""

    name = "broken disk"

    def read(self, size: int = -1) -> bytes:
        raise OSError(5, "Input/output error")


@pytest.fixture(scope="module")
def recognizer(tiny_folder: Path) -> Recognizer:
    return Recognizer.load(tiny_folder, threads=1)


@pytest.mark.parametrize(
    "source",
    [
        BrokenFile(),
        PDF_WITHOUT_PAGES,
        PDF_WITHOUT_PAGES.replace(b"Count 0", b"Count 3"),
        INK.format("0 0, 1e308 1e308, -1e308 5").encode(),
        INK.format("0 0, 1e400 3").encode(),
        INK.format("0 0, 3e38 3, 1 1").encode(),
        "x" * 5000 + ".png",
        "null\0byte.png",
        "x" * 5000 + ".inkml",
        "null\0byte.inkml",
    ],
    ids=lambda source: repr(source)[:40].replace("\0", "0"),
)
def test_an_unreadable_input_does_not_end_the_run(source, recognizer, image):
    bad, good = recognizer.attempt_many([source, str(image)], greedy=True)
    assert isinstance(bad, PosformerError)
    assert not isinstance(good, PosformerError)


@POSIX
def test_an_unreadable_input_is_one_row(tiny_folder, image, tmp_path):
    names = ["x" * 300 + ".png", "no/file.png"]
    paths = [*names, "/proc/self/mem", tmp_path, str(image)]
    done = posformer("recognize", *paths, "--model", tiny_folder, "--format", "json")
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    assert [row["path"] for row in rows] == [str(path) for path in paths]
    assert ["error" in row for row in rows] == [True] * 4 + [False]
    assert done.returncode == 1
    assert len(done.stderr.splitlines()) == 4


def test_a_read_error_is_an_image_error(tmp_path, monkeypatch):
    monkeypatch.setattr(Path, "open", lambda *_: BrokenFile())
    with pytest.raises(ImageError, match=r"a\.png: cannot be .*Input/output error"):
        load_image(tmp_path / "a.png")


# Models


@pytest.fixture
def silent_folder(tiny_folder: Path, tmp_path: Path) -> Path:
    """A model that finds nothing in any image."""
    from safetensors.torch import load_file, save_file

    model = open_folder(tiny_folder)
    weights = load_file(model.file(WEIGHTS))
    weights["decoder.head.bias"][[model.vocabulary.sos, model.vocabulary.eos]] += 1000
    save_file(weights, tmp_path / WEIGHTS)
    files = {name: model.file(name) for name in (ENCODER, DECODER)}  # refer to the weights
    files[WEIGHTS] = tmp_path / WEIGHTS
    write_folder(tmp_path / "silent", model.config, model.vocabulary, files, {})
    return tmp_path / "silent"


def test_an_empty_reading_is_an_error(silent_folder, image):
    done = posformer("recognize", image, "--model", silent_folder, "--greedy", "--no-constrained")
    assert f"{image}: no formula found" in one_line(done, 1)
    assert done.stdout == b""
    recognizer = Recognizer.load(silent_folder, threads=1)
    (row,) = recognizer.attempt_many([str(image)], constrained=False)
    assert isinstance(row, PosformerError)


def test_a_vocabulary_that_does_not_fit_the_weights(tiny_folder, image, tmp_path):
    model = open_folder(tiny_folder)
    files = {name: model.file(name) for name in model.checksums if name != VOCABULARY}
    longer = model.vocabulary.extended(["z"])
    write_folder(tmp_path / "model", model.config, longer, files, {})
    done = posformer("recognize", image, "--model", tmp_path / "model")
    assert "the weights have 18 tokens, the vocabulary 19" in one_line(done)


def test_graphs_that_do_not_fit_each_other(exported, image, tmp_path):
    model, other = open_folder(exported("tiny")), open_folder(exported("bttr"))
    files = {name: model.file(name) for name in model.checksums if name != VOCABULARY}
    files[ENCODER] = other.file(ENCODER)
    write_folder(tmp_path / "model", model.config, model.vocabulary, files, {})
    done = posformer("recognize", image, "--model", tmp_path / "model")
    assert "ONNX Runtime cannot" in one_line(done)


def test_weights_that_are_not_numbers(tiny_folder, image):
    recognizer = Recognizer.load(tiny_folder, engine="pytorch", threads=1)
    recognizer.runtime.model.decoder.head.weight.data.fill_(float("nan"))
    with pytest.raises(ModelError, match="damaged"):
        recognizer.recognize(str(image), constrained=False)


def test_a_scale_of_zero(tiny_folder, image, tmp_path):
    shutil.copytree(tiny_folder, tmp_path / "model")
    file = tmp_path / "model" / "config.json"
    config = json.loads(file.read_text())
    config["model"]["image"]["scale"] = 0
    file.write_text(json.dumps(config))
    done = posformer("recognize", image, "--model", tmp_path / "model")
    assert "model.image.scale: 0" in one_line(done)
