"""The Ray engine: its actor in this process, and whole jobs on a cluster of two nodes."""

import os
import pickle
import signal
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from batch_runs import command, many, rows, wait_until

from posformer.batch.batch_job import BatchJob, PartDone, model_version
from posformer.search import DecodingOptions
from posformer.worker_pool import Budget

pytest.importorskip("ray")
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="uses pipes and /proc")

from posformer.batch import ray_engine  # noqa: E402

PLENTY = 900  # seconds; a node takes a minute to start on a busy machine


def test_an_actor_does_each_part_once(tmp_path):
    listed = many(tmp_path / "in", 5)
    pipe = tmp_path / "in" / "0002.png"
    pipe.unlink()
    os.mkfifo(pipe)  # nobody writes to it
    out = tmp_path / "out"
    out.mkdir()
    options = DecodingOptions(greedy=True)
    job = BatchJob((str(listed),), str(out), None, options, part_size=3, budget=Budget(2.0, 2048))
    stop = threading.Event()
    (first, second) = [block["part"][0].as_py() for block in ray_engine._part_blocks(job, stop)]
    actor = ray_engine._PartActor(job, model_version(None), stop)

    def done(part: bytes) -> Any:
        return pickle.loads(actor({"part": [part]})["done"][0])

    assert done(first) == PartDone(0, 3, Counter(time=1))
    assert done(first) == PartDone(0, 3, Counter(time=1), is_new=False)
    written = (out / "part-00000000.jsonl").stat().st_mtime_ns
    assert done(second).is_new and not done(second).is_new
    assert (out / "part-00000000.jsonl").stat().st_mtime_ns == written
    assert [row["path"] for row in rows(out)] == listed.read_text().splitlines()
    stop.set()
    (out / "part-00000001.jsonl").unlink()
    assert done(second) is None and not list(ray_engine._part_blocks(job, stop))
    actor._pool.terminate()


def test_another_model_on_a_machine_is_an_error(tmp_path):
    job = BatchJob((str(many(tmp_path / "in", 1)),), str(tmp_path / "out"))
    actor = ray_engine._PartActor(job, "default@000000000000", threading.Event())
    part = next(ray_engine._part_blocks(job, threading.Event()))["part"][0].as_py()
    (answer,) = actor({"part": [part]})["done"]
    assert "another model" in str(pickle.loads(answer))


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    """Two Ray nodes of one CPU each on this machine; a dead node may be added again."""
    from ray.cluster_utils import Cluster

    head = {"num_cpus": 1, "include_dashboard": False}
    nodes = patiently(lambda: Cluster(initialize_head=True, head_node_args=head))
    nodes.second = patiently(lambda: nodes.add_node(num_cpus=1))
    nodes.wait_for_nodes()
    yield nodes
    nodes.shutdown()


def patiently(start: Callable[[], Any]) -> Any:
    """Start a node; Ray allows it 30 seconds, which a busy machine may exceed."""
    for _ in range(8):
        try:
            return start()
        except Exception as error:  # a plain one
            if "timed out during startup" not in str(error):
                raise
    return pytest.skip("this machine is too busy to start a Ray node within 30 seconds")


def run_on(cluster: Any, *arguments: object) -> subprocess.Popen:
    """Start a job on the cluster."""
    ray_options = ("--engine", "ray", "--address", cluster.address)
    return subprocess.Popen(
        [*command(*arguments), *ray_options, "--min-workers", "2", "--max-workers", "2"],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )


def end_of(process: subprocess.Popen, code: int = 0) -> str:
    output, _ = process.communicate(timeout=PLENTY)
    assert process.returncode == code, output
    assert "Traceback" not in output
    return output


def workers_below(process: int) -> list[int]:
    """Return the recognizing processes that a process has started, directly or not."""
    parents = {}
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            fields = (entry / "stat").read_text().rpartition(")")[2].split()
            text = (entry / "cmdline").read_text()
        except OSError:
            continue
        parents[int(entry.name)] = int(fields[1]), text
    found = []
    for one, (parent, text) in parents.items():
        while parent in parents and parent != process:
            parent = parents[parent][0]
        if parent == process and "posformer.worker_pool" in text:
            found.append(one)
    return found


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_a_node_dies_in_mid_job(cluster, tmp_path):
    listed, out = many(tmp_path / "in", 80), tmp_path / "out"
    job = run_on(cluster, listed, "-o", out, "--part-size", 2)
    (raylet,) = cluster.second.all_processes["raylet"]
    node = raylet.process.pid
    try:
        wait_until(lambda: bool(workers_below(node)) and len(list(out.glob("part-*"))) >= 4, PLENTY)
        assert job.poll() is None
        cluster.remove_node(cluster.second, allow_graceful=False)
        assert len(list(out.glob("part-*"))) < 40 and job.poll() is None
        output = end_of(job)
    finally:
        job.kill()
        cluster.second = patiently(lambda: cluster.add_node(num_cpus=1))
    assert [row["path"] for row in rows(out)] == listed.read_text().splitlines()
    assert not any(row["error"] for row in rows(out))
    assert "inputs: 80, part files: 40, no errors" in output


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_the_driver_is_killed_interrupted_and_restarted(cluster, tmp_path):
    listed, out = many(tmp_path / "in", 80), tmp_path / "out"
    arguments = (listed, "-o", out, "--part-size", 2)

    def count() -> int:
        return len(list(out.glob("part-*")))

    job = run_on(cluster, *arguments)
    wait_until(lambda: count() >= 4, PLENTY)
    job.kill()
    job.communicate(timeout=PLENTY)
    killed_at = count()
    job = run_on(cluster, *arguments)
    wait_until(lambda: count() >= killed_at + 4 or job.poll() is not None, PLENTY)
    job.send_signal(signal.SIGINT)
    assert "run the same command to continue" in end_of(job, 130)
    assert killed_at + 4 <= count() < 40
    before = {file: file.stat().st_mtime_ns for file in out.glob("part-*")}
    output = end_of(run_on(cluster, *arguments))
    assert all(file.stat().st_mtime_ns == moment for file, moment in before.items())
    assert [row["path"] for row in rows(out)] == listed.read_text().splitlines()
    assert f"{2 * len(before)} before" in output
