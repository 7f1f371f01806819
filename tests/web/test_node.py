"""The JavaScript package gives the same results in Node as Python does."""

import json
import subprocess
import sys

import pytest
from javascript import NODE, OLDEST_NODE, WEB, run_node_tests, script_path

import posformer

needs_node = pytest.mark.skipif(not NODE, reason=f"needs node {OLDEST_NODE} or newer")


def test_tables_are_those_of_python():
    script = script_path("write_web_tables.py")
    done = subprocess.run(
        [sys.executable, str(script), "--check"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def test_package_has_the_version_of_python_and_no_registry():
    package = json.loads((WEB / "package.json").read_text("utf-8"))
    lock_file = (WEB / "package-lock.json").read_text("utf-8")
    assert package["version"] == json.loads(lock_file)["version"] == posformer.__version__
    assert "resolved" not in lock_file
    assert "://" not in lock_file


@needs_node
@pytest.mark.usefixtures("packages")
def test_results_equal_those_of_python(vectors):
    run_node_tests(vectors)


@needs_node
@pytest.mark.usefixtures("packages")
def test_results_with_a_language_model_equal_those_of_python(write_vectors, language_model):
    some = write_vectors(
        "--model", language_model, "--strokes", 13, "--photographs", 2, "--no-examples"
    )
    assert json.loads((some / "vectors.json").read_text("utf-8"))["language"]
    run_node_tests(some, language_model)


@needs_node
@pytest.mark.slow
@pytest.mark.usefixtures("packages")
def test_results_of_many_vectors_equal_those_of_python(write_vectors):
    run_node_tests(write_vectors("--strokes", 80, "--photographs", 120))
