"""`posformer recognize` in real processes, on real files."""

import csv
import gzip
import io
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
from PIL import Image

from hostile import nested_pdf
from posformer import DecodingOptions, Recognizer
from posformer.batch.budgeted import is_usual
from posformer.batch.files import find_files, recognize_files
from posformer.batch.result_file import open_output
from posformer.errors import PosformerError
from posformer.ink import render, strokes_in_pixels
from posformer.recognizer import Recognition

PLUS = [[[0, 20], [40, 20]], [[20, 0], [20, 40]]]
SEVEN = [[[80, 0], [105, 0], [90, 40]], [[85, 22], [102, 20]]]


def save_image(path: Path, strokes: list) -> Path:
    points = [np.array(stroke, float) for stroke in strokes]
    Image.fromarray(255 - render(strokes_in_pixels(points))).save(path)
    return path


@pytest.fixture(scope="module")
def images(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with two images, an InkML file in a subfolder, and other files."""
    folder = tmp_path_factory.mktemp("images")
    save_image(folder / "b.png", PLUS)
    save_image(folder / "a.jpg", PLUS + SEVEN)
    (folder / "notes.txt").write_text("no image")
    (folder / ".hidden.png").write_bytes(b"x")
    (folder / "below").mkdir()
    (folder / "below" / "c.inkml").write_text(
        '<ink xmlns="http://www.w3.org/2003/InkML"><trace id="0">0 0, 0 40, 20 10</trace></ink>'
    )
    return folder


class Command:
    """Runs `posformer recognize` with a small model."""

    def __init__(self, model: Path) -> None:
        self.start = [sys.executable, "-m", "posformer.cli", "recognize", "--model", str(model)]

    def __call__(self, *arguments: object, **options: object) -> subprocess.CompletedProcess:
        command = [*self.start, *map(str, arguments)]
        return subprocess.run(command, capture_output=True, text="input" not in options, **options)


@pytest.fixture(scope="module")
def recognize(tiny_folder: Path) -> Command:
    return Command(tiny_folder)


def test_single_file_prints_latex_only(recognize, images):
    done = recognize(images / "b.png")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.count("\n") == 1
    assert "\t" not in done.stdout and done.stdout.strip()


def test_several_files_print_path_and_latex(recognize, images):
    done = recognize(images / "b.png", images / "a.jpg")
    rows = [line.split("\t") for line in done.stdout.splitlines()]
    assert [path for path, _ in rows] == [str(images / "b.png"), str(images / "a.jpg")]
    alone = recognize(images / "b.png").stdout.strip()
    assert rows[0][1] == alone


def test_folder_is_searched_recursively(recognize, images):
    done = recognize(images, "--greedy")
    assert done.returncode == 0
    paths = [line.split("\t")[0] for line in done.stdout.splitlines()]
    assert paths == [str(images / name) for name in ("a.jpg", "b.png", "below/c.inkml")]


def test_stdin(recognize, images):
    expected = recognize(images / "b.png").stdout
    content = (images / "b.png").read_bytes()
    assert recognize("-", input=content).stdout.decode() == expected
    ink = (images / "below" / "c.inkml").read_bytes()
    assert recognize("-", input=ink).returncode == 0


def test_json_format_is_one_object_per_line(recognize, images):
    done = recognize(images / "b.png", images / "no.png", "--format", "json", "--top-k", "3")
    assert done.returncode == 1
    good, bad = map(json.loads, done.stdout.splitlines())
    assert set(good) == {"path", "latex", "confidence", "alternatives"}
    assert good["path"] == str(images / "b.png")
    assert 0 <= good["confidence"] <= 1
    assert len(good["alternatives"]) == 2
    assert all(set(other) == {"latex", "confidence"} for other in good["alternatives"])
    assert set(bad) == {"path", "error"}
    assert "no such file" in bad["error"]


def test_unreadable_input_is_a_failure(tiny_folder, images, tmp_path):
    model = tmp_path / "model"
    shutil.copytree(tiny_folder, model)
    config = json.loads((model / "config.json").read_text())
    config["info"]["thresholds"] = {"readable": 1.0}
    (model / "config.json").write_text(json.dumps(config))
    recognize, path = Command(model), images / "b.png"
    done = recognize(path)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == f"posformer: {path}: not readable\n"
    done = recognize(path, "--format", "json")
    assert done.returncode == 1
    found = json.loads(done.stdout)
    assert set(found) == {"path", "error", "alternatives"}
    assert found["error"] == "not readable"
    assert [set(one) for one in found["alternatives"]] == [{"latex", "confidence"}]
    rows = list(csv.DictReader(io.StringIO(recognize(path, "--format", "csv").stdout)))
    assert [(row["latex"], row["error"]) for row in rows] == [("", "not readable")]


NOTES = """<xournal><page><layer><stroke tool="pen">0 20 40 20</stroke>
<stroke tool="pen">20 0 20 40</stroke><stroke tool="pen">500 0 500 40</stroke></layer></page>
</xournal>"""


def test_documents_print_one_result_per_formula(recognize, tmp_path):
    notes = tmp_path / "notes.xopp"
    notes.write_bytes(gzip.compress(NOTES.encode()))
    found = [json.loads(line) for line in recognize(notes, "--format", "json").stdout.splitlines()]
    assert [(one["page"], one["box"]) for one in found] == [
        (1, [0, 0, 40, 40]), (1, [500, 0, 500, 40]),
    ]  # fmt: skip
    assert recognize(notes).stdout.splitlines() == [one["latex"] for one in found]
    notes.write_bytes(b"<xournal>")
    done = recognize(notes)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith(f"posformer: {notes}: not XML") and done.stderr.count("\n") == 1


def test_output_formats(recognize, images):
    latex = recognize(images / "b.png").stdout
    assert recognize(images / "b.png", "--format", "latex").stdout == latex
    markdown = recognize(images / "b.png", "--format", "markdown").stdout
    assert markdown == f"${latex.strip()}$\n"


class Oracle:
    """A recognizer that reads whatever it is told."""

    def attempt_many(self, sources, options):
        for tokens in (["x", "+", "1"], ["x", r"\pm", "1"], ["x", "^", "{", "2", "}"]):
            next(iter(sources))
            yield Recognition(" ".join(tokens), 1.0, tuple(tokens))


def test_results_that_a_format_cannot_express_fail(capsys):
    assert recognize_files(Oracle(), ["a", "b", "c"], format="sympy") == 1
    printed = capsys.readouterr()
    assert printed.out == "a\tx + 1\nc\tx**2\n"
    assert printed.err == "posformer: b: \\pm (token 2) has no meaning there in SymPy\n"


def test_csv_format(recognize, images):
    done = recognize(images, images / "notes.txt", "--format", "csv", "--top-k", "2")
    rows = list(csv.DictReader(io.StringIO(done.stdout)))
    assert list(rows[0]) == ["path", "latex", "confidence", "error", "latex_2", "confidence_2"]
    assert len(rows) == 4
    assert rows[0]["latex"] and not rows[0]["error"]
    assert rows[-1]["error"] and not rows[-1]["latex"]


def test_top_k_prints_one_result_per_line(recognize, images):
    done = recognize(images / "b.png", "--top-k", "3")
    assert len(set(done.stdout.splitlines())) == 3


def test_failures_are_reported_and_the_rest_is_recognized(recognize, images, tmp_path):
    (tmp_path / "empty").mkdir()
    Image.new("L", (50, 50), 255).save(tmp_path / "blank.png")
    bad = [
        images / "notes.txt",
        tmp_path / "empty",
        tmp_path / "blank.png",
        tmp_path / "gone.png",
    ]
    done = recognize(*bad, images / "b.png")
    assert done.returncode == 1
    lines = done.stderr.splitlines()
    assert len(lines) == len(bad)
    reasons = ("not an image", "no images", "there is no ink", "no such file")
    for line, path, reason in zip(lines, bad, reasons, strict=True):
        assert line.startswith(f"posformer: {path}: ")
        assert reason in line
    assert done.stdout.startswith(str(images / "b.png") + "\t")


def test_old_option_names_are_hidden_aliases(recognize, images):
    expected = recognize(images / "b.png", "--scales", "1", "--format", "json")
    assert recognize(images / "b.png", "--views", "1", "--format", "json").stdout == expected.stdout
    assert recognize(images / "b.png", "--views=1", "--format=json").stdout == expected.stdout
    help_text = recognize("--help").stdout
    assert "--scales" in help_text and "--views" not in help_text


def test_wrong_usage(recognize, images, tmp_path):
    wrong = [
        (),
        ("--beam", "0", images / "b.png"),
        ("--format", "xml", images / "b.png"),
        ("--scales", "4", images / "b.png"),
        ("--greedy", "--top-k", "2", images / "b.png"),
        ("--model", tmp_path / "nowhere", images / "b.png"),
        ("--output", tmp_path / "nowhere" / "x.txt", images / "b.png"),
    ]
    for arguments in wrong:
        done = recognize(*arguments)
        assert done.returncode == 2, arguments
        assert "Traceback" not in done.stderr
        assert done.stdout == ""
    assert "nowhere" in done.stderr


def test_output_is_written_atomically(recognize, images, tmp_path):
    target = tmp_path / "out.jsonl"
    target.write_text("before")
    done = recognize(images, "--format", "json", "--output", target)
    assert (done.returncode, done.stdout) == (0, "")
    assert len(target.read_text().splitlines()) == 3
    assert [path.name for path in tmp_path.iterdir()] == ["out.jsonl"]
    assert target.stat().st_mode & 0o777 == 0o666 & ~_umask()


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def test_failure_keeps_existing_output(tmp_path):
    target = tmp_path / "out.txt"
    target.write_text("before")
    with pytest.raises(RuntimeError), open_output(target) as stream:
        stream.write("half")
        raise RuntimeError
    assert target.read_text() == "before"
    assert (tmp_path / "out.txt.part").read_text() == "half"
    with pytest.raises(PosformerError, match="No such file"), open_output(tmp_path / "no" / "x"):
        pass


class Interrupted(NamedTuple):
    target: Path
    paths: list[str]
    code: int
    errors: str
    rows: list[str]


_IGNORED = [getattr(signal, name) for name in ("SIGINT", "SIGHUP") if hasattr(signal, name)]


def _interrupt(
    recognize, image: Path, folder: Path, how: signal.Signals, *options: str
) -> Interrupted:
    """Start a long run and send it a signal as soon as there are results."""
    target, paths = folder / "out", [str(image)] * 1000
    process = subprocess.Popen(
        [*recognize.start, "--beam", "10", "--output", str(target), *options, *paths],
        stderr=subprocess.PIPE,
        text=True,
        # A test run in the background ignores interrupts, and its children inherit that.
        preexec_fn=lambda: [signal.signal(one, signal.SIG_DFL) for one in _IGNORED],
    )
    part = folder / "out.part"
    deadline = time.monotonic() + 60
    while not (part.exists() and part.read_bytes().count(b"\n") > 1):
        assert time.monotonic() < deadline and process.poll() is None
        time.sleep(0.02)
    process.send_signal(how)
    _, errors = process.communicate(timeout=60)
    return Interrupted(target, paths, process.returncode, errors, part.read_text().splitlines())


@pytest.mark.skipif(os.name == "nt", reason="sends a signal")
@pytest.mark.parametrize("how", ["SIGINT", "SIGTERM", "SIGHUP", "SIGKILL"])
def test_an_interrupted_run_keeps_both_results(recognize, images, tmp_path, how):
    (tmp_path / "out").write_text("an earlier, complete result\n" * 2000)
    done = _interrupt(recognize, images / "b.png", tmp_path, getattr(signal, how))
    assert done.code == (130 if how == "SIGINT" else -getattr(signal, how))
    assert "Traceback" not in done.errors
    assert 0 < len(done.rows) < 1000
    assert done.target.read_text() == "an earlier, complete result\n" * 2000
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out", "out.part"]
    if how == "SIGINT":
        assert f"{done.target}.part: the results so far; continue with --resume" in done.errors


@pytest.mark.parametrize("format", ["text", "json", "csv"])
def test_resume_continues_an_interrupted_run(tiny_folder, images, tmp_path, format):
    """The result is that of an uninterrupted run, and finished images are not read again."""
    recognizer = Recognizer.load(tiny_folder, threads=1)
    folder, target, part = tmp_path / "in", tmp_path / "out", tmp_path / "out.part"
    shutil.copytree(images, folder)
    (folder / "broken\nname.png").write_bytes(b"no image")
    options = DecodingOptions(scales=1, top_k=2)

    def run(resume: bool) -> bytes:
        """Recognize the folder, which has one broken image, and return the result."""
        arguments = ([str(folder)], target, format, options, resume)
        assert recognize_files(recognizer, *arguments) == 1
        assert not part.exists()
        return target.read_bytes()

    complete = run(resume=False)
    lines = complete.splitlines(keepends=True)
    for count in range(len(lines) + 1):
        for cut in (0, 3):  # whole lines, and a last line that was cut off
            kept = b"".join(lines[:count])
            part.write_bytes(kept[: len(kept) - cut] if count else b"")
            assert run(resume=True) == complete
    (folder / "a.jpg").write_bytes(b"damaged since")
    part.write_bytes(complete)
    assert run(resume=True) == complete


def test_a_partial_file_is_not_overwritten(recognize, images, tmp_path):
    part = tmp_path / "out.part"
    part.write_text("results of hours\n")
    done = recognize(images / "b.png", "--output", tmp_path / "out")
    assert done.returncode == 2 and "--resume" in done.stderr
    done = recognize(images / "b.png", "--output", tmp_path / "out", "--resume", "--format", "json")
    assert done.returncode == 2 and "delete it to start over" in done.stderr
    assert part.read_text() == "results of hours\n"
    part.write_text("[" * 100_000 + "\n")
    done = recognize(images / "b.png", "--output", tmp_path / "out", "--resume", "--format", "json")
    assert done.returncode == 2 and "delete it to start over" in done.stderr
    part.write_text("results of hours\n")
    done = recognize(images / "b.png", "--resume")
    assert done.returncode == 2 and "needs --output" in done.stderr


@pytest.mark.skipif(os.name == "nt", reason="needs a terminal of Unix")
def test_progress_bar_on_a_terminal_only(recognize, images):
    import pty

    ours, theirs = pty.openpty()
    done = subprocess.run(
        [*recognize.start, str(images)], stdout=subprocess.PIPE, stderr=theirs, text=True
    )
    os.close(theirs)
    shown = os.read(ours, 100_000).decode()
    os.close(ours)
    assert "3" in shown and "\x1b[" in shown
    assert "unsure" in shown
    assert len(done.stdout.splitlines()) == 3
    assert "\x1b" not in done.stdout


def test_closed_pipe_prints_no_traceback(recognize, images):
    process = subprocess.Popen(
        [*recognize.start, *[str(images / "b.png")] * 100],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    process.stdout.readline()
    process.stdout.close()
    assert "Traceback" not in process.stderr.read()
    process.wait(timeout=60)


def test_file_names_need_not_be_valid_text(recognize, images, tmp_path):
    name = os.fsencode(tmp_path) + b"/\xff.png"
    try:
        Path(os.fsdecode(name)).write_bytes((images / "b.png").read_bytes())
    except OSError:
        pytest.skip("this file system requires valid text")
    done = subprocess.run([*recognize.start, os.fsencode(tmp_path)], capture_output=True)
    assert done.returncode == 0
    assert done.stdout.startswith(name + b"\t")


def test_empty_folder_is_an_error(images, tmp_path):
    assert [name for name, _ in find_files([str(images / "below")])] == [
        str(images / "below" / "c.inkml")
    ]
    ((_, problem),) = find_files([str(tmp_path)])
    assert isinstance(problem, PosformerError)


def test_recognition_does_not_import_heavy_libraries(recognize, images):
    program = (
        "import sys; from posformer.cli import main; sys.argv = ['posformer', *sys.argv[1:]]\n"
        "try: main()\n"
        "except SystemExit: pass\n"
        "print(*{'torch', 'onnx', 'lightning', 'matplotlib', 'latex2mathml'} & set(sys.modules))"
    )
    arguments = [*recognize.start[3:], str(images / "b.png")]
    done = subprocess.run(
        [sys.executable, "-c", program, *arguments], capture_output=True, text=True
    )
    assert done.stdout.splitlines()[1:] == [""], done.stderr


def test_missing_extra_is_named(tiny_folder, tmp_path):
    """Simulates an installation without PyTorch."""
    program = (
        "import sys\n"
        "class Absent:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name.partition('.')[0] in ('torch', 'safetensors', 'onnx'):\n"
        "            raise ModuleNotFoundError(f'No module named {name!r}', name=name)\n"
        "sys.meta_path.insert(0, Absent())\n"
        "from posformer.cli import main; main()"
    )
    bare = tmp_path / "weights only"
    shutil.copytree(tiny_folder, bare)
    config = json.loads((bare / "config.json").read_text())
    del config["files"]["encoder.onnx"]
    (bare / "config.json").write_text(json.dumps(config))
    for arguments, message in (
        (("export", tiny_folder, tmp_path / "out"), "posformer[train]"),
        (("recognize", "x.png", "--model", bare), "has no ONNX files, and PyTorch is not"),
    ):
        command = [sys.executable, "-c", program, *map(str, arguments)]
        done = subprocess.run(command, capture_output=True, text=True)
        assert done.returncode == 2
        assert message in done.stderr and done.stderr.count("\n") == 1


def test_file_over_its_budget_is_one_line_and_the_rest_goes_on(recognize, images, tmp_path):
    pytest.importorskip("pypdfium2")
    hostile = tmp_path / "hostile.pdf"
    hostile.write_bytes(nested_pdf())
    good, again = images / "b.png", images / "a.jpg"
    done = recognize("--timeout", 2, "--format", "json", good, hostile, again)
    assert done.returncode == 1
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    assert [row["path"] for row in rows] == [str(good), str(hostile), str(again)]
    assert rows[1]["error"] == f"{hostile}: takes longer than 2 seconds"
    assert "latex" in rows[0] and "latex" in rows[2]
    assert done.stderr == f"posformer: {hostile}: takes longer than 2 seconds\n"


def test_unusual_files_are_recognized_like_others(recognize, images, tmp_path):
    with Image.open(images / "b.png") as image:
        image.save(tmp_path / "b.tiff", save_all=True, append_images=[image])
    expected = recognize(images / "b.png").stdout
    done = recognize(tmp_path / "b.tiff")
    assert done.stdout == expected
    message = f"posformer: {tmp_path / 'b.tiff'}: has several frames; only the first is read\n"
    assert done.stderr == message
    through_stdin = recognize("-", input=(tmp_path / "b.tiff").read_bytes())
    assert through_stdin.stdout.decode() == expected


def test_which_files_are_usual(images, tmp_path):
    def saved(name: str, size: tuple[int, int], mode: str = "L") -> str:
        Image.new(mode, size).save(tmp_path / name)
        return str(tmp_path / name)

    usual = [str(images / name) for name in ("b.png", "a.jpg", "below/c.inkml")]
    usual += [saved("x.bmp", (20, 20)), str(tmp_path / "missing.pdf"), str(tmp_path)]
    assert all(is_usual(source) for source in usual)
    large_ink = tmp_path / "x.inkml"
    large_ink.write_bytes(b"<ink>" + b" " * 600_000)
    unusual = [saved("x.gif", (20, 20)), saved("x.webp", (20, 20)), saved("x.tiff", (20, 20))]
    unusual += [saved("wide.png", (13_000, 1), "1"), saved("x.png", (6000, 6000), "1")]
    assert not any(is_usual(source) for source in (*unusual, str(large_ink), b"%PDF-1.4"))
    assert is_usual((images / "b.png").read_bytes())
