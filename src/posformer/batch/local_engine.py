"""The local engine of large jobs: one process per core."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from typing import TYPE_CHECKING

from posformer.batch.batch_job import BatchJob, Part, PartDone, model_version
from posformer.batch.batch_worker import open_pool, result_of

if TYPE_CHECKING:
    from posformer.batch.part_files import Row

__all__ = ["available_cores", "run_local"]

_Pending = tuple[Part, list["Future[Row]"]]


def available_cores() -> list[int]:
    """Return the cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return sorted(os.sched_getaffinity(0))
    return list(range(os.cpu_count() or 1))


def run_local(
    job: BatchJob,
    workers: int | None = None,
    should_stop: Callable[[], bool] = lambda: False,
    advance: Callable[[int], None] = lambda count: None,
) -> Iterator[PartDone]:
    """Run a job in processes of one thread each, which are pinned to cores.

    Two parts or a little more are in memory at a time, whatever the size of the job.

    Args:
        job: The job; parts that are complete already are skipped.
        workers: Number of processes; one per core if None.
        should_stop: Asked now and then; if true, parts at hand are finished and no other begun.
        advance: Called with numbers of inputs that are done.
    """
    cores = available_cores()
    workers = workers or len(cores)
    ahead = 1 + -(-workers * job.images // job.part_size)  # parts beyond the one that is awaited
    version = model_version(job.model)
    pending: deque[_Pending] = deque()
    with open_pool(job, version, workers, cores) as pool:

        def finish(part: Part, futures: list[Future[Row]]) -> PartDone:
            pairs = zip(futures, part.inputs, strict=True)
            return job.write(part, [result_of(future, one, pool, version) for future, one in pairs])

        for part in job.parts():
            if should_stop():
                break
            if (done := job.find_done(part)) is not None:
                advance(done.count)
                yield done
                continue
            futures = [pool.submit(one, group="") for one in part.inputs]
            for future in futures:
                future.add_done_callback(lambda _: advance(1))
            pending.append((part, futures))
            while len(pending) > ahead and not should_stop():
                yield finish(*pending.popleft())
        while pending:
            part, futures = pending.popleft()
            if should_stop() and not any(one.running() or one.done() for one in futures):
                for future in futures:
                    future.cancel()
            else:
                yield finish(part, futures)
