"""The worker pool: budgets, crashes, batches, fairness and shutdown, with real processes."""

import io
import os
import pickle
import signal
import time
from functools import partial

import pytest

import worker_jobs
from posformer.errors import BudgetError
from posformer.worker_pool import Budget, WorkerPool, run_worker

pytestmark = pytest.mark.skipif(os.name == "nt", reason="sends signals")

PLENTY = 300  # seconds; a busy machine is no failure


def pool(start=worker_jobs.start_plain, seconds=60.0, megabytes=512, **options):
    return WorkerPool(start, budget=Budget(seconds, megabytes), **options)


@pytest.fixture(scope="module")
def plain():
    with pool() as shared:
        yield shared


def test_results_and_errors(plain):
    assert plain.submit(("echo", {"x": 1})).result(PLENTY) == {"x": 1}
    with pytest.raises(ValueError, match="as a result"):
        plain.submit(("error", "as a result")).result(PLENTY)
    with pytest.raises(RuntimeError, match="raised"):
        plain.submit(("fault", "raised")).result(PLENTY)


def test_output_of_native_code_does_not_disturb(plain):
    assert plain.submit(("print", "noise")).result(PLENTY) == "noise"


def test_worker_over_its_time_is_killed_and_replaced():
    with pool(seconds=1.0) as short:
        before = short.process_ids
        stuck, next_ = short.submit(("hang",)), short.submit(("echo", 1))
        with pytest.raises(BudgetError, match="1 second") as error:
            stuck.result(PLENTY)
        assert error.value.kind == "time"
        assert next_.result(PLENTY) == 1
        assert short.process_ids != before


def test_memory_is_limited():
    with pool(megabytes=200) as small:
        with pytest.raises(BudgetError, match="200 MB") as error:
            small.submit(("allocate", 1000)).result(PLENTY)
        assert error.value.kind == "memory"
        assert small.submit(("allocate", 20)).result(PLENTY) == 20 * 2**20


def test_crash_is_retried_once(plain, tmp_path):
    assert plain.submit(("crash once", str(tmp_path / "marker"))).result(PLENTY) == "survived"
    with pytest.raises(BudgetError) as error:
        plain.submit(("crash",)).result(PLENTY)
    assert error.value.kind == "crash"
    assert plain.submit(("echo", 2)).result(PLENTY) == 2


def test_killed_worker_loses_no_job(plain, tmp_path):
    waiting = plain.submit(("wait", str(tmp_path / "go")))
    while not waiting.running():
        time.sleep(0.01)
    os.kill(plain.process_ids[0], signal.SIGKILL)
    (tmp_path / "go").touch()
    assert waiting.result(PLENTY) == "waited"


def test_failed_start_is_raised():
    with pytest.raises(ValueError, match="cannot start"):
        pool(worker_jobs.start_failing)


def test_jobs_of_a_group_share_a_batch(tmp_path):
    with pool(partial(worker_jobs.start_joint, tmp_path), batch=4) as joint:
        first = joint.submit(("wait", str(tmp_path / "go")), group="a")
        while not first.running():
            time.sleep(0.01)
        others = [joint.submit(("echo", n), group=g) for n, g in enumerate("aababbaa")]
        single = [joint.submit(("echo", n)) for n in range(2)]
        assert joint.waiting == 10
        (tmp_path / "go").touch()
        assert [one.result(PLENTY) for one in others] == list(range(8))
        assert [one.result(PLENTY) for one in single] == [0, 1]
    assert (tmp_path / "batches").read_text().split() == ["1", "2", "1", "1", "2", "2", "1", "1"]


@pytest.mark.parametrize("bad", [("hang",), ("crash",), ("fault", "bad"), ("allocate", 2000)])
def test_a_failure_does_not_affect_the_rest_of_a_batch(tmp_path, bad):
    with pool(partial(worker_jobs.start_joint, tmp_path), seconds=2.0, batch=8) as joint:
        first = joint.submit(("wait", str(tmp_path / "go")), group="a")
        while not first.running():
            time.sleep(0.01)
        good = [joint.submit(("echo", n), group="a") for n in range(2)]
        failing = joint.submit(bad, group="a")
        later = joint.submit(("echo", 3), group="a")
        (tmp_path / "go").touch()
        assert [one.result(PLENTY) for one in (*good, later)] == [0, 1, 3]
        with pytest.raises((BudgetError, RuntimeError)):
            failing.result(PLENTY)


def test_clients_take_turns(plain, tmp_path):
    order = []
    first = plain.submit(("wait", str(tmp_path / "go")), client="hard")
    jobs = [plain.submit(("echo", f"hard {n}"), client="hard") for n in range(5)]
    jobs.append(plain.submit(("echo", "easy"), client="other"))
    for job in jobs:
        job.add_done_callback(lambda done: order.append(done.result()))
    (tmp_path / "go").touch()
    for job in (first, *jobs):
        job.result(PLENTY)
    assert order.index("easy") <= 1


@pytest.mark.parametrize("start", [worker_jobs.start_plain, worker_jobs.start_late])
@pytest.mark.parametrize("batch", [1, 4])
def test_hard_jobs_of_a_client_delay_other_clients_once_per_turn(start, batch):
    with pool(start, seconds=0.7, batch=batch) as short:
        hard = [short.submit(("hang",), client="hard", group="a") for _ in range(5)]
        while not hard[0].running():
            time.sleep(0.01)
        easy = [short.submit(("echo", n), client=f"easy {n}", group="a") for n in range(3)]
        assert [job.result(PLENTY) for job in easy] == [0, 1, 2]
        # The one that was running, and the one whose turn came before that of the first client.
        assert sum(job.done() for job in hard) <= 2
        later = short.submit(("echo", 3), client="easy 0", group="a")
        assert later.result(PLENTY) == 3
        assert sum(job.done() for job in hard) <= 4
        for job in hard:
            with pytest.raises(BudgetError):
                job.result(PLENTY)


def test_cancelled_jobs_are_skipped(plain, tmp_path):
    first = plain.submit(("wait", str(tmp_path / "go")))
    cancelled, last = plain.submit(("crash",)), plain.submit(("echo", 1))
    assert cancelled.cancel()
    (tmp_path / "go").touch()
    assert (first.result(PLENTY), last.result(PLENTY)) == ("waited", 1)


def test_stuck_worker_is_not_ready(tmp_path):
    with pool(seconds=2.0) as short:
        assert short.is_ready
        stuck = short.submit(("hang",))
        while short.is_ready:
            time.sleep(0.02)
        assert not stuck.done()
        with pytest.raises(BudgetError):
            stuck.result(PLENTY)
        while not short.is_ready:
            time.sleep(0.02)


def test_close_finishes_queued_jobs_and_terminate_does_not(tmp_path):
    closing = pool()
    jobs = [closing.submit(("sleep", 0.05)) for _ in range(3)]
    closing.close()
    assert all(job.done() and job.result() == 0.05 for job in jobs)
    with pytest.raises(RuntimeError, match="closed"):
        closing.submit(("echo", 1))
    terminated = pool(seconds=PLENTY)
    jobs = [terminated.submit(("hang",)), terminated.submit(("echo", 1))]
    while not jobs[0].running():
        time.sleep(0.01)
    (process,) = terminated.process_ids
    terminated.terminate()
    assert jobs[0].exception(PLENTY) is not None
    assert jobs[1].cancelled()
    with pytest.raises(ProcessLookupError):
        os.kill(process, 0)


def test_worker_protocol():
    """The worker's own code in this process: messages of one batch, then of a failing one."""
    outgoing = io.BytesIO()
    batches = [[("echo", 1), ("error", "x")], [("fault", "y")]]
    budget = Budget(megabytes=2**20)
    messages = [(worker_jobs.start_plain, budget), *batches]
    run_worker(io.BytesIO(b"".join(map(pickle.dumps, messages))), outgoing)
    outgoing.seek(0)
    found = []
    while outgoing.tell() < len(outgoing.getvalue()):
        found.append(pickle.load(outgoing))
    kinds = [kind for kind, _ in found]
    first = ["ready", "begin", "result", "begin", "result", "joint", "done"]
    assert kinds == [*first, "begin", "raised"]
    assert found[2] == ("result", (0, 1))


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="needs Linux")
def test_workers_are_pinned_to_cores():
    cores = sorted(os.sched_getaffinity(0))
    with pool(workers=2, cores=cores) as pinned:
        waiting = [pinned.submit(("sleep", 0.5)) for _ in range(2)]
        assert [one.result(PLENTY) for one in waiting] == [0.5, 0.5]
        used = [os.sched_getaffinity(process) for process in pinned.process_ids]
    assert used == [{cores[0]}, {cores[1 % len(cores)]}]


def test_a_worker_that_cannot_be_restarted_is_no_fault_of_a_job(tmp_path):
    start = partial(worker_jobs.start_once, str(tmp_path / "started"))
    with pool(start=start) as once:
        with pytest.raises(ValueError, match="cannot start") as error:
            once.submit(("crash",)).result(PLENTY)
        assert error.value is once.start_failure
