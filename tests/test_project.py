"""The project as a whole: its rooms, its packaging, and what its papers say."""

import ast
import importlib
import json
import os
import re
import subprocess
import sys
import venv
import zipfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

import posformer

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "posformer"
PAPERS = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
LIGHT_ROOMS = ["latex", "ink", "data", "search", "evaluation", "explain", "cli"]


def text_of(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


# Rooms


def room_of(module: str) -> str:
    """The room of `posformer.latex.tokens` is `latex`; that of `posformer` itself has no name."""
    return [*module.split("."), ""][1]


def allowed_imports() -> dict[str, set[str]]:
    """Read the table of rooms in docs/architecture.md."""
    allowed: dict[str, set[str]] = {}
    rows = re.findall(r"^\| (`.*?) \|.*\| (.*) \|$", text_of("docs/architecture.md"), re.M)
    for rooms, imports in rows:
        named = set(re.findall(r"`(\w+)`", imports))
        if imports.startswith("all of the above"):
            named |= set(allowed)
        for room in re.findall(r"`(\w+)(?:/|\.py)`", rooms):
            allowed[room] = named if not imports.startswith("all;") else {"*"}
    return allowed


def imports_of(file: Path) -> Iterator[str]:
    """All modules of the package that a file imports, wherever in it."""
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name.startswith("posformer."))
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{file}: relative imports hide which room they reach"
            if node.module == "posformer":
                yield from (f"posformer.{alias.name}" for alias in node.names)
            elif (node.module or "").startswith("posformer."):
                yield str(node.module)


def test_the_table_of_rooms_is_understood():
    allowed = allowed_imports()
    assert allowed["latex"] == {"errors", "whole"}
    assert allowed["search"] == set()
    assert {"latex", "ink", "data", "model"} <= allowed["training"]
    assert allowed["cli"] == {"*"}


@pytest.mark.parametrize(
    "file", sorted(PACKAGE.rglob("*.py")), ids=lambda file: file.relative_to(PACKAGE).as_posix()
)
def test_rooms_import_only_what_the_architecture_allows(file):
    allowed = allowed_imports()
    room = file.relative_to(PACKAGE).parts[0].removesuffix(".py")
    if room == "__init__":
        return
    assert room in allowed, f"docs/architecture.md does not list {room}"
    if allowed[room] == {"*"}:
        return
    reached = {room_of(module) for module in imports_of(file)}
    assert reached <= allowed[room] | {room, "errors", "__version__"}


@pytest.mark.parametrize("room", ["", *LIGHT_ROOMS])
def test_light_rooms_do_not_load_pytorch(room):
    module = f"posformer.{room}".rstrip(".")
    heavy = "{'torch', 'lightning', 'torchmetrics'}"
    program = f"import sys, {module}; print(*sorted({heavy} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (done.returncode, done.stdout.strip()) == (0, ""), done.stderr


@pytest.mark.parametrize("room", LIGHT_ROOMS[:-1])
def test_a_room_lists_what_it_promises(room):
    module = importlib.import_module(f"posformer.{room}")
    assert module.__all__
    for name in module.__all__:
        assert getattr(module, name) is not None


# Packaging


@pytest.fixture(scope="session")
def wheel(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    (built,) = folder.glob("*.whl")
    return built


def test_the_wheel_holds_the_package_its_types_and_its_licence(wheel):
    assert wheel.name == f"posformer-{posformer.__version__}-py3-none-any.whl"
    names = set(zipfile.ZipFile(wheel).namelist())
    sources = {file.relative_to(PACKAGE.parent).as_posix() for file in PACKAGE.rglob("*.py")}
    assert sources <= names
    assert "posformer/py.typed" in names
    assert any(name.endswith("licenses/LICENSE") for name in names)
    assert not any(name.startswith("tests") for name in names)


@pytest.mark.slow
def test_the_wheel_works_in_a_clean_environment(wheel, tmp_path):
    venv.create(tmp_path / "venv", with_pip=True)
    folder = tmp_path / "venv" / ("Scripts" if os.name == "nt" else "bin")
    subprocess.run([folder / "python", "-m", "pip", "install", "-q", wheel], check=True)
    command = [folder / "posformer", "forest", "x^2", "--format", "json"]
    done = subprocess.run(command, cwd=tmp_path, check=True, capture_output=True, text=True)
    rows = json.loads(done.stdout)
    assert rows[0] == {"token": "x", "identifier": "M", "level": 0, "position": "M"}
    assert {row["identifier"] for row in rows[1:]} == {"ML"}


def test_versions_agree():
    settings = text_of("pyproject.toml")
    (torch,) = re.findall(r'"torch==([\d.]+)"', settings)
    assert f"install torch=={torch}" in text_of("README.md")
    assert f"PyTorch {torch}" in text_of("CONTRIBUTING.md")
    (oldest,) = re.findall(r'requires-python = ">=([\d.]+)"', settings)
    assert f"Python {oldest} or newer" in text_of("README.md")
    assert f"Python {oldest} or newer" in text_of("Makefile")
    changes = text_of("CHANGELOG.md")
    assert "[Unreleased]" in changes or f"[{posformer.__version__}]" in changes


# What is written down


@pytest.mark.parametrize("paper", PAPERS, ids=lambda paper: paper.name)
def test_what_the_papers_tell_to_make_can_be_made(paper):
    targets = set(re.findall(r"^([a-z-]+):", text_of("Makefile"), re.M))
    text = paper.read_text(encoding="utf-8")
    asked = set(re.findall(r"(?:^|`)make(?: [A-Z]+=\S+)* ([a-z-]+)", text, re.M))
    assert asked <= targets


@pytest.mark.parametrize("paper", PAPERS, ids=lambda paper: paper.name)
def test_links_between_the_papers_lead_somewhere(paper):
    for link in re.findall(r"\]\(([^)#\s]+)", paper.read_text(encoding="utf-8")):
        assert link.startswith("http") or (paper.parent / link).exists(), link


@pytest.mark.parametrize("paper", PAPERS, ids=lambda paper: paper.name)
def test_commands_that_the_papers_show_exist(paper):
    from posformer.cli import app

    known = {command.name for command in app.registered_commands}
    known |= {str(one.callback.__name__).replace("_", "-") for one in app.registered_commands}
    blocks = re.findall(r"```(?:sh|powershell|console)\n(.*?)```", paper.read_text("utf-8"), re.S)
    shown = {
        word for block in blocks for word in re.findall(r"\bposformer ([a-z][a-z-]+)(?=\s)", block)
    }
    assert shown <= known


@pytest.mark.parametrize("paper", PAPERS, ids=lambda paper: paper.name)
def test_python_that_the_papers_show_imports_what_exists(paper):
    for block in re.findall(r"```python\n(.*?)```", paper.read_text(encoding="utf-8"), re.S):
        for node in ast.walk(ast.parse(block)):
            if isinstance(node, ast.ImportFrom) and str(node.module).startswith("posformer"):
                module = importlib.import_module(str(node.module))
                for alias in node.names:
                    assert hasattr(module, alias.name), f"{node.module} has no {alias.name}"


def test_the_build_server_runs_what_everybody_runs():
    script = ROOT / ".ci" / "run"
    assert os.access(script, os.X_OK)
    assert "set -euo pipefail" in text_of(".ci/run")
    assert "make test" in text_of(".ci/run")


def test_no_two_test_files_have_the_same_name():
    names = Counter(file.name for file in (ROOT / "tests").rglob("test_*.py"))
    assert [name for name, count in names.items() if count > 1] == []
