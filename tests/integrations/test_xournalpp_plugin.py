"""The Xournal++ plugin: in Lua, and in Xournal++ itself."""

import gzip
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from posformer.ink import read_ink

PLUGIN = Path(__file__).parents[2] / "integrations" / "xournalpp" / "posformer"
SYSTEM_PLUGINS = Path("/usr/share/xournalpp/plugins")
PLUS = ["50 100 100 100", "75 75 75 125"]


LUA = next(filter(shutil.which, ("lua5.3", "lua5.4", "lua")), None)

# The functions that Xournal++ 1.2 gives its plugins.
APPLICATION = """
app = {}
function app.registerUi(entry) registered = entry end
function app.openDialog(text) print(text) end
function app.getStrokes(what)
  if what ~= "selection" or not selection then error("There is no selection!") end
  return selection
end
"""


@pytest.fixture
def run_plugin(monkeypatch, tmp_path):
    """Runs Lua after the plugin; a shell script stands for posformer and keeps what it gets."""
    if os.name == "nt" or LUA is None:
        pytest.skip("needs Lua and a shell (apt-get install lua5.3)")
    program = tmp_path / "program"
    keep = f'echo "$@" > {tmp_path}/arguments\ncp "$4" {tmp_path}/page.xopp\n'
    program.write_text(f"#!/bin/sh\n{keep}")
    program.chmod(0o755)
    monkeypatch.setenv("POSFORMER", str(program))
    monkeypatch.setenv("POSFORMER_FORMAT", "typst")

    def run(statements: str) -> str:
        script = tmp_path / "test.lua"
        script.write_text(f"{APPLICATION}\ndofile('{PLUGIN / 'main.lua'}')\n{statements}")
        return subprocess.run([LUA, script], capture_output=True, text=True, check=True).stdout

    return run


def test_strokes_of_the_selection_are_sent(run_plugin, tmp_path):
    dialogs = run_plugin(
        "selection = {{x = {1, 2.5}, y = {3, 4}, tool = 'pen'},"
        " {x = {9, 9}, y = {9, 9}, tool = 'highlighter'}} copyAsLatex()"
    )
    assert dialogs == ""
    arguments = (tmp_path / "arguments").read_text()
    assert arguments.startswith("clip --format typst ")
    assert not Path(arguments.split()[-1]).exists(), "the temporary file must be removed"
    (page,) = read_ink(tmp_path / "page.xopp").pages
    assert [stroke.tolist() for stroke in page] == [[[1, 3], [2.5, 4]]]


def test_problems_are_shown(run_plugin, monkeypatch):
    assert run_plugin("copyAsLatex()") == "Select some handwriting first.\n"
    monkeypatch.setenv("POSFORMER", "echo no model; false")
    assert "no model" in run_plugin("selection = {{x = {1}, y = {3}}} copyAsLatex()")


def test_the_menu_entry_calls_the_plugin(run_plugin):
    output = run_plugin("initUi() print(registered.menu, type(_G[registered.callback]))")
    assert output == "Copy selection as LaTeX\tfunction\n"


# Xournal++ 1.1 of Debian 12 reads plugins in its own folder only, and has no function for strokes.
TOOLS = ("Xvfb", "xclip", "xdotool", "xournalpp")
MISSING = [tool for tool in TOOLS if not shutil.which(tool)]


@pytest.fixture
def installed_plugin():
    if MISSING:
        pytest.skip(f"needs {', '.join(MISSING)}")
    if not os.access(SYSTEM_PLUGINS, os.W_OK):
        pytest.skip(f"needs write access to {SYSTEM_PLUGINS}")
    folder = SYSTEM_PLUGINS / "posformer"
    if folder.exists():
        pytest.skip(f"{folder} exists")
    shutil.copytree(PLUGIN, folder)
    settings = folder / "plugin.ini"
    settings.write_text(settings.read_text().replace("enabled=false", "enabled=true"))
    yield
    shutil.rmtree(folder)


@pytest.mark.slow
def test_in_xournalpp(installed_plugin, display, monkeypatch, tmp_path):
    monkeypatch.setenv("DISPLAY", display)
    monkeypatch.delenv("WAYLAND_DISPLAY", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.setenv("POSFORMER", f"{sys.executable} -m posformer.cli")
    strokes = "".join(
        f'<stroke tool="pen" color="#000000ff" width="1.4">{s}</stroke>' for s in PLUS
    )
    page = f'<page width="200" height="200"><layer>{strokes}</layer></page>'
    file = tmp_path / "plus.xopp"
    file.write_bytes(gzip.compress(f'<xournal fileversion="4">{page}</xournal>'.encode()))
    nothing = subprocess.DEVNULL
    process = subprocess.Popen(["xournalpp", str(file)], stdout=nothing, stderr=nothing)
    try:
        wait_for(
            lambda: (
                "plus.xopp" in xdotool("search", "--onlyvisible", "--name", "plus", "getwindowname")
            )
        )
        time.sleep(3)  # the window draws itself
        xdotool("search", "--onlyvisible", "--name", "plus", "windowfocus")
        drag_around_ink()
        xdotool("key", "ctrl+alt+l")
        wait_for(pasted)  # an image has no text: this is the answer
    finally:
        process.kill()
        process.wait()


def drag_around_ink():
    """Select the ink with the tool `select rectangle` of the toolbar."""
    xdotool("mousemove", "547", "88", "click", "1")
    time.sleep(1)
    xdotool("mousemove", "415", "260", "mousedown", "1")
    for x, y in ((450, 300), (520, 380)):
        time.sleep(0.5)
        xdotool("mousemove", str(x), str(y))
    xdotool("mouseup", "1")
    time.sleep(1)


def xdotool(*arguments: str) -> str:
    return subprocess.run(["xdotool", *arguments], capture_output=True, text=True).stdout


def pasted() -> str:
    command = ["xclip", "-selection", "clipboard", "-o"]
    return subprocess.run(command, capture_output=True, text=True, errors="replace").stdout


def wait_for(condition, seconds: float = 90):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.5)
