"""Packaging, lazy imports, and documentation that agrees with the code."""

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
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.version import Version

import posformer

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "posformer"
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
LIGHT_PACKAGES = ["latex", "ink", "data", "search", "evaluation", "explain", "cli"]


def text_of(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


# Imports


@pytest.mark.parametrize("package", ["", *LIGHT_PACKAGES])
def test_light_packages_do_not_import_pytorch(package):
    module = f"posformer.{package}".rstrip(".")
    heavy = "{'torch', 'lightning', 'torchmetrics'}"
    program = f"import sys, {module}; print(*sorted({heavy} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (done.returncode, done.stdout.strip()) == (0, ""), done.stderr


@pytest.mark.parametrize("package", LIGHT_PACKAGES[:-1])
def test_public_names_exist(package):
    module = importlib.import_module(f"posformer.{package}")
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


def test_wheel_contains_package_types_and_license(wheel):
    assert wheel.name == f"posformer-{posformer.__version__}-py3-none-any.whl"
    names = set(zipfile.ZipFile(wheel).namelist())
    sources = {file.relative_to(PACKAGE.parent).as_posix() for file in PACKAGE.rglob("*.py")}
    assert sources <= names
    assert "posformer/py.typed" in names
    assert any(name.endswith("licenses/LICENSE") for name in names)
    assert not any(name.startswith("tests") for name in names)


@pytest.mark.slow
def test_wheel_works_in_clean_environment(wheel, tmp_path):
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


# Supply chain


def _declared(*extras: str) -> list[Requirement]:
    """Return the dependencies of the core install and of some extras."""
    project = tomllib.loads(text_of("pyproject.toml"))["project"]
    optional = project["optional-dependencies"]
    texts = [*project["dependencies"], *(text for extra in extras for text in optional[extra])]
    return [one for one in map(Requirement, texts) if one.name != "posformer"]


def _pinned(name: str) -> dict[str, str]:
    return dict(re.findall(r"^([\w.-]+)==([\w.]+)", text_of(f"requirements/{name}.txt"), re.M))


def test_dependencies_have_lower_and_upper_bounds():
    for one in _declared("report", "train", "serve", "formats"):
        assert sorted(bound.operator for bound in one.specifier) == ["<", ">="], one


def test_lowest_versions_are_the_lower_bounds():
    pinned = _pinned("lowest")
    assert pinned.keys() == {one.name for one in _declared()}
    for one in _declared():
        (lower,) = (bound.version for bound in one.specifier if bound.operator == ">=")
        assert Version(lower) == Version(pinned[one.name]), one


def test_the_container_is_locked():
    pinned, locked = _pinned("container"), text_of("requirements/container.txt")
    for one in _declared("serve", "formats"):
        assert one.specifier.contains(pinned[one.name]), one
    for name in ("build", "container"):
        text = text_of(f"requirements/{name}.txt")
        assert text.count("--hash=sha256:") >= len(_pinned(name)) > 0
        assert "://" not in text, "no address of a package index"
    assert "torch==" not in locked
    images = re.findall(r"^FROM (\S+)", text_of("Dockerfile"), re.M)
    assert images and all(re.search(r"@sha256:[0-9a-f]{64}$", image) for image in images)


# Documentation


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_make_targets_in_docs_exist(page):
    targets = set(re.findall(r"^([a-z-]+):", text_of("Makefile"), re.M))
    text = page.read_text(encoding="utf-8")
    asked = set(re.findall(r"(?:^|`)make(?: [A-Z]+=\S+)* ([a-z-]+)", text, re.M))
    assert asked <= targets


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_in_docs_exist(page):
    for link in re.findall(r"\]\(([^)#\s]+)", page.read_text(encoding="utf-8")):
        assert link.startswith("http") or (page.parent / link).exists(), link


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_commands_in_docs_exist(page):
    from posformer.cli import app

    known = {command.name for command in app.registered_commands}
    known |= {str(one.callback.__name__).replace("_", "-") for one in app.registered_commands}
    blocks = re.findall(r"```(?:sh|powershell|console)\n(.*?)```", page.read_text("utf-8"), re.S)
    shown = {
        word for block in blocks for word in re.findall(r"\bposformer ([a-z][a-z-]+)(?=\s)", block)
    }
    assert shown <= known


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_imports_in_docs_exist(page):
    for block in re.findall(r"```python\n(.*?)```", page.read_text(encoding="utf-8"), re.S):
        for node in ast.walk(ast.parse(block)):
            if isinstance(node, ast.ImportFrom) and str(node.module).startswith("posformer"):
                module = importlib.import_module(str(node.module))
                for alias in node.names:
                    assert hasattr(module, alias.name), f"{node.module} has no {alias.name}"


@pytest.mark.parametrize("folder", ["src/posformer", "tests"])
def test_module_names_are_unique(folder):
    names = Counter(file.name for file in (ROOT / folder).rglob("*.py"))
    shared = ("__init__.py", "conftest.py")
    assert [name for name, count in names.items() if count > 1 and name not in shared] == []


def test_metrics_import_neither_runtime_nor_opencv():
    program = "import sys, posformer.evaluation.metrics; print(*sorted(sys.modules))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert not {"cv2", "onnxruntime", "torch", "posformer.runtime"} & set(done.stdout.split())
