"""The JavaScript package gives the same results in Node as Python does."""

import pytest
from javascript import NODE, run_node_tests

pytestmark = pytest.mark.skipif(not NODE, reason="needs node")


@pytest.mark.usefixtures("packages")
def test_results_equal_those_of_python(vectors):
    run_node_tests(vectors)


@pytest.mark.slow
@pytest.mark.usefixtures("packages")
def test_results_of_many_vectors_equal_those_of_python(write_vectors):
    run_node_tests(write_vectors("--strokes", 80, "--photographs", 120))
