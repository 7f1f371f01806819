"""Worker processes with a budget of time and memory per job.

A worker that exceeds its budget is killed and replaced, whatever native code it is in. The server,
`posformer recognize` and large jobs share this pool.

A worker is a new Python process, not a fork: ONNX Runtime's threads do not survive a fork, and
unlike `multiprocessing` it never runs the main module of the program again.
"""

from __future__ import annotations

import json
import math
import os
import pickle
import signal
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Callable, Hashable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from time import monotonic
from typing import Any, BinaryIO, Generic, TypeVar

from posformer.errors import BudgetError

__all__ = ["Budget", "Handler", "WorkerPool", "run_worker"]

_Message = tuple[str, Any]
Job = TypeVar("Job")
Result = TypeVar("Result")

Handler = Callable[[Iterator[Job]], Iterator[Result | Exception]]
"""Runs in a worker: takes jobs one by one and yields a result, or an error, for each in order.

It may take several jobs before it yields the first result, to process them together."""

_START_SECONDS = 120.0  # to import modules and load a model
_STUCK_SECONDS = 5.0  # after which a worker that is still at the same job is not ready
_BATCH_SECONDS = 0.5  # after which a batch takes no further jobs
_GRACE_SECONDS = 5  # after which a worker whose parent is gone ends by itself
_THREAD_MEGABYTES = 10  # address space of a thread that OpenCV or ONNX Runtime starts later
_ALLOCATION_FAILURES = ("bad_alloc", "bad allocation", "Insufficient memory", "Failed to allocate")
_DECAY = 0.9  # of the moving average of the time per job

# The path of the parent, so that the worker imports the same modules.
_PROGRAM = "import json, sys; sys.path[:] = json.loads(sys.argv[1]); \
from posformer.worker_pool import main; main()"


@dataclass(frozen=True)
class Budget:
    """What a job may use."""

    seconds: float = 10.0
    megabytes: int = 1024  # of address space beyond what a worker has after its start; Linux only


@dataclass(eq=False)
class _Job(Generic[Job, Result]):
    content: Job
    client: str
    group: Hashable
    retried: bool = False
    future: Future[Result] = field(default_factory=Future)

    def finish(self, result: Result | Exception) -> None:
        if isinstance(result, Exception):
            self.future.set_exception(result)
        else:
            self.future.set_result(result)


class WorkerPool(Generic[Job, Result]):
    """Runs jobs in worker processes.

    An idle worker takes the oldest job of the client whose turn it is, together with queued jobs
    of the same group, up to the batch size. No job waits for a batch to fill. Clients take turns,
    and a batch takes no further jobs after half a second: a job that exhausts its budget delays
    those of other clients once, by at most this budget.

    A job whose worker crashes is tried once more in a new process. Then, or if it exceeds its
    budget, its future raises a `BudgetError`; other jobs of the batch go on in a new process.

    Args:
        start: Called in each worker; returns its handler. Must be picklable.
        workers: Number of processes.
        batch: Maximum number of jobs that a handler is given at once.
        budget: Limits per job.
        retry_timeouts: Whether a job that exceeds its time is tried once more, too.
        cores: Each worker is pinned to one of these cores, in turn (Linux only); None: to none.

    Raises:
        Exception: What `start` raises in the worker, which must be picklable.
    """

    def __init__(
        self,
        start: Callable[[], Handler[Job, Result]],
        workers: int = 1,
        batch: int = 1,
        budget: Budget | None = None,
        retry_timeouts: bool = False,
        cores: Sequence[int] | None = None,
    ) -> None:
        self._batch, self._retry_timeouts = batch, retry_timeouts
        self._queues: dict[str, deque[_Job[Job, Result]]] = {}  # by client, the next one first
        self._changed = threading.Condition()
        self._closed = self._terminated = False
        self._seconds = 0.1  # moving average of the time per job
        self.start_failure: Exception | None = None  # of the last worker that could not be started
        self._workers = [
            _Worker(
                partial(_start_on, cores[number % len(cores)], start) if cores else start,
                budget or Budget(),
            )
            for number in range(workers)
        ]
        self._workers[0].start()
        self._threads = [
            threading.Thread(target=self._work, args=(worker,), name="worker", daemon=True)
            for worker in self._workers
        ]
        for thread in self._threads:
            thread.start()

    @property
    def waiting(self) -> int:
        """Number of queued jobs."""
        return sum(len(queue) for queue in list(self._queues.values()))

    @property
    def retry_after(self) -> int:
        """Estimated time until the queue is empty, in whole seconds."""
        return max(1, math.ceil(self.waiting * self._seconds))

    @property
    def is_ready(self) -> bool:
        """Whether a worker is running and not stuck in a job."""
        return not self._closed and any(worker.is_ready for worker in self._workers)

    @property
    def process_ids(self) -> list[int]:
        """Ids of the running processes."""
        return [worker.process_id for worker in self._workers if worker.process_id]

    def submit(self, job: Job, client: str = "", group: Hashable = None) -> Future[Result]:
        """Queue a job.

        Args:
            job: Picklable, as its result must be.
            client: Whose job it is; clients take turns.
            group: Jobs of equal groups may share a batch; None for a job on its own.

        Raises:
            RuntimeError: If the pool is closed.
        """
        queued: _Job[Job, Result] = _Job(job, client, group)
        with self._changed:
            if self._closed:
                raise RuntimeError("the pool is closed")
            self._queues.setdefault(client, deque()).append(queued)
            self._changed.notify()
        return queued.future

    def close(self) -> None:
        """Finish all queued jobs and stop the workers."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        for thread in self._threads:
            thread.join()

    def terminate(self) -> None:
        """Kill the workers; jobs that are not done are cancelled or fail."""
        with self._changed:
            self._closed = self._terminated = True
            for job in (job for queue in self._queues.values() for job in queue):
                if not job.future.cancel():  # it was given back
                    job.finish(RuntimeError("the pool was terminated"))
            self._queues.clear()
            self._changed.notify_all()
        for worker in self._workers:
            worker.kill()
        for thread in self._threads:
            thread.join()

    def __enter__(self) -> WorkerPool[Job, Result]:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        """Close the pool, or terminate it after an error or an interrupt."""
        if kind is None:
            self.close()
        else:
            self.terminate()

    def _work(self, worker: _Worker) -> None:
        """Start the worker before there is a job, so that none waits for it."""
        while True:
            with suppress(Exception):  # a failure is reported to the next job
                worker.start()
            jobs = self._take()
            if not jobs:
                break
            started = monotonic()
            self._run(worker, jobs)
            spent = (monotonic() - started) / len(jobs) / len(self._threads)
            self._seconds = _DECAY * self._seconds + (1 - _DECAY) * spent
        worker.stop()

    def _take(self) -> list[_Job[Job, Result]]:
        """Wait for the next batch; an empty one means that the pool is closed and idle."""
        taken: list[_Job[Job, Result]] = []
        with self._changed:
            self._changed.wait_for(lambda: self._queues or self._closed)
            while len(taken) < self._batch:
                fitting = (
                    client
                    for client, queue in self._queues.items()
                    if not taken or (queue[0].group == taken[0].group is not None)
                )
                client = next(fitting, None)
                if client is None:
                    break
                queue = self._queues.pop(client)
                taken.append(queue.popleft())
                if queue:
                    self._queues[client] = queue  # at the end: the other clients come first
        return taken

    def _give_back(
        self, begun: Sequence[_Job[Job, Result]], rest: Sequence[_Job[Job, Result]]
    ) -> None:
        """Queue the rest of a batch again; its clients keep their turn, others have had theirs.

        Else the clients that share a batch with a hard job would come after the next hard one.
        """
        with self._changed:
            for job in reversed(rest):
                self._queues.setdefault(job.client, deque()).appendleft(job)
            served = dict.fromkeys(job.client for job in begun)
            kept = [job.client for job in rest if job.client not in served]
            order = dict.fromkeys([*kept, *(one for one in self._queues if one not in served)])
            order |= served
            self._queues = {one: self._queues[one] for one in order if one in self._queues}
            self._changed.notify(len(rest))

    def _run(self, worker: _Worker, jobs: list[_Job[Job, Result]]) -> None:
        """Run a batch; parts of it again after a failure of the worker."""
        batches = deque([jobs])
        while batches:
            # A client may have given up while its job was queued.
            batch = [job for job in batches.popleft() if _is_wanted(job.future)]
            if not batch:
                continue
            try:
                if self._terminated:
                    raise RuntimeError("the pool was terminated")
                worker.start()
            except Exception as error:
                self.start_failure = error
                for job in batch:
                    job.finish(error)
                continue
            failure = worker.run(batch)
            self._give_back(batch[: worker.begun], batch[worker.begun :])
            left = [job for job in batch[: worker.begun] if not job.future.done()]
            if failure is None or not left:
                continue
            if worker.is_joint and len(left) > 1:  # each on its own shows whose failure it is
                for job in left:
                    job.group = None
                self._give_back(left, left)  # others come first: each may take all of its time
                continue
            culprit = left.pop()
            batches.extend([left] if left else [])
            if self._may_retry(culprit, failure, worker):
                culprit.retried = True
                batches.append([culprit])
            else:
                culprit.finish(failure)

    def _may_retry(self, job: _Job[Job, Result], failure: Exception, worker: _Worker) -> bool:
        if job.retried or not isinstance(failure, BudgetError):
            return False
        if failure.kind == "memory":
            return worker.served > 0  # others may have left less than the budget
        return failure.kind == "crash" or self._retry_timeouts


def _start_on(core: int, start: Callable[[], Handler[Job, Result]]) -> Handler[Job, Result]:
    """Pin this process to a core and start the handler; its threads inherit the core."""
    if hasattr(os, "sched_setaffinity"):
        with suppress(OSError):  # the core may have been taken from this program meanwhile
            os.sched_setaffinity(0, {core})
    return start()


def _is_wanted(future: Future[Any]) -> bool:
    return future.running() or (not future.done() and future.set_running_or_notify_cancel())


class _Worker:
    """A process that runs one batch after another, as its thread in the parent sees it."""

    def __init__(self, start: Callable[[], Any], budget: Budget) -> None:
        self._start, self._budget = start, budget
        self._process: subprocess.Popen[bytes] | None = None
        self._timer = threading.Timer(0, self._expire)
        self._since: float | None = None  # when the current job began
        self._timed_out = False
        self.begun = 0  # jobs of the last batch that were begun
        self.is_joint = False  # whether it was processing them together when it failed
        self.served = 0  # jobs that the process has finished

    @property
    def process_id(self) -> int | None:
        process = self._process
        return process.pid if process and process.poll() is None else None

    @property
    def is_ready(self) -> bool:
        since = self._since
        patience = min(_STUCK_SECONDS, self._budget.seconds / 2)
        return bool(self.process_id) and (since is None or monotonic() - since < patience)

    def start(self) -> None:
        """Start the process if it is not running."""
        if self.process_id:
            return
        self.stop()
        self.served = 0
        self._process = subprocess.Popen(
            [sys.executable, "-c", _PROGRAM, json.dumps(sys.path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={"MALLOC_ARENA_MAX": "2", **os.environ},  # each takes address space
            start_new_session=True,  # Ctrl-C must not end it before its parent decides
        )
        self._limit_time(_START_SECONDS)
        kind, error = self._exchange((self._start, self._budget))
        self._end_limit()
        if kind != "ready":
            self.stop()
            raise error or BudgetError("a worker process cannot be started", "crash")

    def stop(self) -> None:
        """End the process."""
        process, self._process = self._process, None
        if process is not None:
            assert process.stdin and process.stdout
            process.kill()
            process.wait()
            process.stdout.close()
            with suppress(OSError):  # it need not have read everything
                process.stdin.close()

    def run(self, jobs: Sequence[_Job[Any, Any]]) -> Exception | None:
        """Run a batch and set the futures; return the failure if some that began are not done."""
        self.begun, self.is_joint = 1, False
        self._limit_time(self._budget.seconds)
        kind, value = self._exchange([job.content for job in jobs])
        while kind in ("begin", "joint", "result"):
            self._note(kind, value, jobs)
            kind, value = self._receive()
        self._end_limit()
        if kind == "died":
            value = self._reason()
        if isinstance(value, BudgetError):
            self.stop()
        return value  # None, or what the handler raised

    def _note(self, kind: str, value: Any, jobs: Sequence[_Job[Any, Any]]) -> None:
        """Follow the progress of a batch; each of its jobs has its own time."""
        if kind == "result":
            number, result = value
            self.served += 1
            jobs[number].finish(result)
        elif kind == "begin" and value > 0:
            self.begun = value + 1
            self._limit_time(self._budget.seconds)
        elif kind == "joint" and self.begun > 1:
            self.is_joint = True
            self._limit_time(self._budget.seconds)

    def _limit_time(self, seconds: float) -> None:
        """Kill the process after some time, unless the limit is set anew or ended before."""
        self._end_limit()
        self._since, self._timed_out = monotonic(), False
        self._timer = threading.Timer(seconds, self._expire)
        self._timer.daemon = True
        self._timer.start()

    def _end_limit(self) -> None:
        self._timer.cancel()
        self._since = None

    def _expire(self) -> None:
        self._timed_out = True
        self.kill()

    def kill(self) -> None:
        """Kill the process at once, from any thread."""
        if process := self._process:
            process.kill()

    def _exchange(self, message: Any) -> _Message:
        assert self._process and self._process.stdin
        try:
            pickle.dump(message, self._process.stdin)
            self._process.stdin.flush()
        except OSError:
            return "died", None
        return self._receive()

    def _receive(self) -> _Message:
        assert self._process and self._process.stdout
        try:
            kind, value = pickle.load(self._process.stdout)
        except (EOFError, OSError, pickle.UnpicklingError):
            return "died", None
        return kind, value

    def _reason(self) -> BudgetError:
        if self._timed_out:
            return BudgetError(f"takes longer than {self._budget.seconds:g} seconds", "time")
        return BudgetError("crashes the process that reads it", "crash")


def main() -> None:
    """Run a worker that is connected to its parent by stdin and stdout."""
    incoming, outgoing = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # native code may print
    run_worker(incoming, outgoing)


def run_worker(incoming: BinaryIO, outgoing: BinaryIO) -> None:
    """Run batches until there are no more.

    Args:
        incoming: The pickled start function and budget, then the pickled batches.
        outgoing: Gets pickled pairs of a kind of message and a value.
    """

    def send(kind: str, value: Any = None) -> None:
        outgoing.write(pickle.dumps((kind, value)))
        outgoing.flush()

    start, budget = pickle.load(incoming)
    try:
        handler = start()
    except Exception as error:
        send("failed", _picklable(error))
        return
    _limit_memory(budget.megabytes)
    send("ready")
    while True:
        try:
            batch = pickle.load(incoming)
        except EOFError:
            return
        try:
            for number, result in enumerate(handler(_feed(batch, send, budget.seconds))):
                send("result", (number, result))
        except Exception as error:
            send("raised", _memory_error(error, budget) or _picklable(error))
        else:
            send("done")
        _set_alarm(0)


def _feed(batch: Sequence[Job], send: Callable[..., None], seconds: float) -> Iterator[Job]:
    """Yield jobs and report each, until enough time has passed."""
    started = monotonic()
    for number, job in enumerate(batch):
        if number and monotonic() - started > _BATCH_SECONDS:
            break
        send("begin", number)
        _set_alarm(seconds)
        yield job
    send("joint")
    _set_alarm(seconds)


def _set_alarm(seconds: float) -> None:
    """End this process some time after its parent should have, which may be gone."""
    if hasattr(signal, "alarm"):
        signal.alarm(math.ceil(seconds) + _GRACE_SECONDS if seconds else 0)


def _limit_memory(megabytes: int) -> None:
    """Limit the address space to some more than what is in use."""
    try:
        import resource

        pages = int(Path("/proc/self/statm").read_text().split()[0])
    except (ImportError, OSError):
        return
    more = megabytes + _THREAD_MEGABYTES * (os.cpu_count() or 1)
    limit = pages * resource.getpagesize() + more * 2**20
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))


def _memory_error(error: Exception, budget: Budget) -> BudgetError | None:
    """Return the error to report for a failed allocation in Python, OpenCV or ONNX Runtime."""
    text = str(error)
    if isinstance(error, MemoryError) or any(sign in text for sign in _ALLOCATION_FAILURES):
        return BudgetError(f"needs more than {budget.megabytes} MB of memory", "memory")
    return None


def _picklable(error: Exception) -> Exception:
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:
        return RuntimeError(f"{type(error).__name__}: {error}")
    return error
