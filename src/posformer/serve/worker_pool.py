"""Threads that recognize, fed by a queue; what waits together is read together."""

import math
import threading
from collections import deque
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from time import perf_counter

from posformer.errors import PosformerError
from posformer.recognizer import Recognition, Recognizer, Source
from posformer.serve.explanation import explain
from posformer.serve.schemas import Explanation

__all__ = ["Outcome", "WorkerPool"]

_REMEMBERED = 0.9  # of the mean time of a job, when another one is done


@dataclass(frozen=True)
class Outcome:
    """A recognition, and where the model looked if that was asked for."""

    recognition: Recognition
    explanation: tuple[Explanation, ...] | None = None


@dataclass(eq=False)
class _Job:
    source: Source
    top_k: int
    explained: bool
    future: "Future[Outcome]" = field(default_factory=Future)


class WorkerPool:
    """Recognizes in the background.

    A worker that is free takes the first job that waits and, of those behind it, the ones that ask
    for as many readings: nothing ever waits for a batch to fill.

    Args:
        recognizer: what reads.
        workers: threads.
        batch: jobs that one takes at once.
        beam: hypotheses followed.
        views: sizes that each formula is read at.
    """

    def __init__(
        self, recognizer: Recognizer, workers: int, batch: int, beam: int, views: int
    ) -> None:
        self._recognizer = recognizer
        self._batch = batch
        self._beam, self._views = beam, views
        self._waiting: deque[_Job] = deque()
        self._changed = threading.Condition()
        self._closed = False
        self._seconds = 0.1  # that a job takes, in the mean of the last ones
        self._threads = [
            threading.Thread(target=self._work, name=f"recognizer-{number}", daemon=True)
            for number in range(workers)
        ]
        for thread in self._threads:
            thread.start()

    @property
    def waiting(self) -> int:
        """Jobs that no worker has taken yet."""
        return len(self._waiting)

    @property
    def patience(self) -> int:
        """Whole seconds until what waits now should be done."""
        return max(1, math.ceil(self.waiting * self._seconds))

    def submit(self, source: Source, top_k: int = 1, explained: bool = False) -> "Future[Outcome]":
        """Have a source recognized; the future raises `PosformerError` for one that cannot be.

        Raises:
            RuntimeError: If the pool is closed.
        """
        job = _Job(source, top_k, explained)
        with self._changed:
            if self._closed:
                raise RuntimeError("the pool is closed")
            self._waiting.append(job)
            self._changed.notify()
        return job.future

    def close(self) -> None:
        """Finish all that was submitted, and end."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        for thread in self._threads:
            thread.join()

    def _work(self) -> None:
        while jobs := self._take():
            started = perf_counter()
            self._finish(jobs)
            spent = (perf_counter() - started) / len(jobs) / len(self._threads)
            self._seconds = _REMEMBERED * self._seconds + (1 - _REMEMBERED) * spent

    def _take(self) -> list[_Job]:
        """The next jobs to do together; none when the pool is closed and all is done."""
        with self._changed:
            self._changed.wait_for(lambda: self._waiting or self._closed)
            taken: list[_Job] = []
            passed: list[_Job] = []
            while self._waiting and len(taken) < self._batch:
                job = self._waiting.popleft()
                together = not taken or job.top_k == taken[0].top_k
                (taken if together else passed).append(job)
            self._waiting.extendleft(reversed(passed))
            return taken

    def _finish(self, jobs: Sequence[_Job]) -> None:
        # Whoever asked may have given up while the job waited.
        wanted = [job for job in jobs if job.future.set_running_or_notify_cancel()]
        try:
            for job, result in zip(wanted, self._recognized(wanted), strict=True):
                self._settle(job, result)
        except Exception as error:
            # One source that nobody foresaw must not take its neighbours along.
            for job in wanted:
                if job.future.done():
                    continue
                if len(wanted) == 1:
                    job.future.set_exception(error)
                else:
                    self._finish_alone(job)

    def _finish_alone(self, job: _Job) -> None:
        try:
            self._settle(job, self._recognized([job])[0])
        except Exception as error:
            job.future.set_exception(error)

    def _recognized(self, jobs: Sequence[_Job]) -> list[Recognition | PosformerError]:
        if not jobs:
            return []
        sources = [job.source for job in jobs]
        found = self._recognizer.attempt_many(sources, jobs[0].top_k, self._beam, views=self._views)
        return list(found)

    def _settle(self, job: _Job, result: Recognition | PosformerError) -> None:
        if isinstance(result, PosformerError):
            job.future.set_exception(result)
            return
        found = explain(self._recognizer, job.source, result) if job.explained else None
        job.future.set_result(Outcome(result, found))
