"""Worker threads that recognize queued requests in batches."""

import math
import threading
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from time import perf_counter

from posformer.errors import PosformerError
from posformer.recognizer import Recognition, Recognizer, Source
from posformer.search import DecodingOptions
from posformer.serve.explanation import explain
from posformer.serve.schemas import Explanation

_DECAY = 0.9  # of the moving average of the time per job


@dataclass(frozen=True)
class Outcome:
    """A recognition, with attention maps if requested."""

    recognition: Recognition
    explanation: list[Explanation] | None = None


@dataclass(eq=False)
class _Job:
    source: Source
    options: DecodingOptions
    explained: bool
    future: "Future[Outcome]" = field(default_factory=Future)


class WorkerPool:
    """Recognizes in background threads.

    An idle worker takes the first queued job together with the queued jobs that have the same
    options, up to the batch size. No job waits for a batch to fill.

    Args:
        recognizer: The recognizer.
        workers: Number of threads.
        batch: Maximum number of jobs that a worker takes at once.
        options: How to decode.
    """

    def __init__(
        self, recognizer: Recognizer, workers: int, batch: int, options: DecodingOptions
    ) -> None:
        self._recognizer = recognizer
        self._batch = batch
        self._options = options
        self._queue: list[_Job] = []
        self._changed = threading.Condition()
        self._closed = False
        self._seconds = 0.1  # moving average of the time per job
        self._threads = [
            threading.Thread(target=self._work, name=f"recognizer-{number}", daemon=True)
            for number in range(workers)
        ]
        for thread in self._threads:
            thread.start()

    @property
    def waiting(self) -> int:
        """Number of queued jobs."""
        return len(self._queue)

    @property
    def retry_after(self) -> int:
        """Estimated time until the queue is empty, in whole seconds."""
        return max(1, math.ceil(self.waiting * self._seconds))

    def submit(self, source: Source, top_k: int = 1, explained: bool = False) -> "Future[Outcome]":
        """Queue a source.

        Args:
            source: See `Recognizer.recognize`.
            top_k: Number of results.
            explained: Whether to add attention maps.

        Returns:
            A future, which raises a `PosformerError` if the source cannot be recognized.

        Raises:
            ConfigError: If `top_k` is invalid with the options of the pool.
            RuntimeError: If the pool is closed.
        """
        job = _Job(source, replace(self._options, top_k=top_k), explained)
        with self._changed:
            if self._closed:
                raise RuntimeError("the pool is closed")
            self._queue.append(job)
            self._changed.notify()
        return job.future

    def close(self) -> None:
        """Finish all queued jobs and stop the workers."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        for thread in self._threads:
            thread.join()

    def _work(self) -> None:
        while jobs := self._take():
            started = perf_counter()
            # A client may have given up while its job was queued.
            self._run([job for job in jobs if job.future.set_running_or_notify_cancel()])
            spent = (perf_counter() - started) / len(jobs) / len(self._threads)
            self._seconds = _DECAY * self._seconds + (1 - _DECAY) * spent

    def _take(self) -> list[_Job]:
        """Wait for the next batch; an empty one means that the pool is closed and idle."""
        with self._changed:
            self._changed.wait_for(lambda: self._queue or self._closed)
            similar = [job for job in self._queue if job.options == self._queue[0].options]
            taken = similar[: self._batch]
            for job in taken:
                self._queue.remove(job)
            return taken

    def _run(self, jobs: Sequence[_Job]) -> None:
        if not jobs:
            return
        try:
            results = self._recognizer.attempt_many([one.source for one in jobs], jobs[0].options)
            for job, result in zip(jobs, list(results), strict=True):
                self._finish(job, result)
        except Exception as error:
            if len(jobs) == 1:
                jobs[0].future.set_exception(error)
                return
            # An unexpected failure must not affect the other jobs of the batch.
            for job in jobs:
                if not job.future.done():
                    self._run([job])

    def _finish(self, job: _Job, result: Recognition | PosformerError) -> None:
        if isinstance(result, PosformerError):
            job.future.set_exception(result)
            return
        found = explain(self._recognizer, job.source, result) if job.explained else None
        job.future.set_result(Outcome(result, found))
