"""`posformer clip` with a real clipboard: Xvfb and xclip."""

import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from PIL import Image, ImageDraw

from posformer.clipboard import read_image, write_text
from posformer.errors import ClipboardError

needs_x11 = pytest.mark.skipif(
    not (shutil.which("Xvfb") and shutil.which("xclip")),
    reason="needs Xvfb and xclip (apt-get install xvfb xclip)",
)


@pytest.fixture
def clipboard(display: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A clipboard for this process and its children."""
    monkeypatch.setenv("DISPLAY", display)
    monkeypatch.delenv("WAYLAND_DISPLAY", raising=False)


def draw(path: Path, *lines: tuple[int, int, int, int]) -> Path:
    image = Image.new("L", (120, 80), 255)
    for line in lines:
        ImageDraw.Draw(image).line(line, fill=0, width=3)
    image.save(path)
    return path


def copy_image(path: Path) -> None:
    command = ["xclip", "-selection", "clipboard", "-t", "image/png", "-i", str(path)]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def pasted(*options: str) -> bytes:
    command = ["xclip", "-selection", "clipboard", "-o", *options]
    return subprocess.run(command, capture_output=True).stdout  # nothing if it is empty


def is_pasted(content: str | bytes, *options: str) -> bool:
    """Whether the clipboard has this content, or gets it soon: xclip works in the background."""
    expected = content.encode() if isinstance(content, str) else content
    deadline = time.monotonic() + 20
    while (found := pasted(*options)) != expected and time.monotonic() < deadline:
        time.sleep(0.1)
    return found == expected


def command(name: str, model: Path, *arguments: object) -> list[str]:
    start = [sys.executable, "-m", "posformer.cli", name, "--model", str(model), "--greedy"]
    return [*start, *map(str, arguments)]


def run(*parts: str) -> subprocess.CompletedProcess:
    return subprocess.run(parts, capture_output=True, text=True, timeout=120)


@needs_x11
def test_text_and_image_go_through_the_clipboard(clipboard, tmp_path):
    write_text("x² ≤ \\frac{1}{2}")
    assert is_pasted("x² ≤ \\frac{1}{2}")
    assert read_image() is None
    path = draw(tmp_path / "a.png", (10, 40, 60, 40))
    copy_image(path)
    assert is_pasted(path.read_bytes(), "-t", "image/png")
    image = read_image()
    assert image.size == (120, 80)


@needs_x11
def test_clip_replaces_the_image_by_its_latex(clipboard, tiny_folder, tmp_path):
    image = draw(tmp_path / "plus.png", (10, 40, 60, 40), (35, 15, 35, 65))
    copy_image(image)
    assert is_pasted(image.read_bytes(), "-t", "image/png")
    done = run(*command("clip", tiny_folder))
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == run(*command("recognize", tiny_folder, image)).stdout
    assert is_pasted(done.stdout.rstrip("\n"))
    done = run(*command("clip", tiny_folder))
    assert done.returncode == 2
    assert done.stderr == "posformer: there is no image on the clipboard\n"
    done = run(*command("clip", tiny_folder, image, "--format", "markdown"))
    assert is_pasted(done.stdout.rstrip("\n")) and pasted().startswith(b"$")


@needs_x11
@pytest.mark.timeout(120)
def test_watch_recognizes_every_new_image(clipboard, tiny_folder, tmp_path):
    old = draw(tmp_path / "old.png", (5, 5, 90, 70))
    blank = draw(tmp_path / "blank.png")
    new = draw(tmp_path / "new.png", (10, 40, 60, 40), (35, 15, 35, 65))
    copy_image(old)
    assert is_pasted(old.read_bytes(), "-t", "image/png")
    process = subprocess.Popen(
        command("clip", tiny_folder, "--watch"),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        # A test run in the background ignores interrupts, and its children inherit that.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    try:
        assert "waiting for images" in process.stderr.readline()
        copy_image(blank)
        assert "there is no ink" in process.stderr.readline()
        copy_image(new)
        latex = process.stdout.readline()
        assert is_pasted(latex.rstrip("\n"))
        assert latex == run(*command("recognize", tiny_folder, new)).stdout
        process.send_signal(signal.SIGINT)
        assert process.wait(30) == 0
        assert "Traceback" not in process.stderr.read()
    finally:
        process.kill()


@pytest.mark.skipif(sys.platform in ("darwin", "win32"), reason="these need no display")
@pytest.mark.parametrize(
    ("variables", "message"),
    [
        ({}, "there is no clipboard: neither WAYLAND_DISPLAY nor DISPLAY is set"),
        ({"DISPLAY": ":9"}, "xclip was not found; install the package xclip"),
        ({"WAYLAND_DISPLAY": "w"}, "wl-copy was not found; install the package wl-clipboard"),
    ],
)
def test_missing_tools_are_named(variables, message, monkeypatch):
    for name in ("DISPLAY", "WAYLAND_DISPLAY"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(ClipboardError) as caught:
        write_text("x")
    assert str(caught.value) == message
    with pytest.raises(ClipboardError):
        read_image()
