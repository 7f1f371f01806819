"""The Ray engine of large jobs: Ray Data with a pool of actors, one model each.

Only the places of images travel between machines: an actor reads the images of a part, recognizes
them in a process that can be killed, and writes the part file itself. A part that was lost with its
machine is done again elsewhere; it replaces the same file.
"""

from __future__ import annotations

import logging
import os
import pickle
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Protocol

from posformer.batch.batch_job import BatchJob, Part, PartDone, model_version
from posformer.batch.batch_worker import open_pool, result_of
from posformer.errors import ConfigError, PosformerError

os.environ["RAY_USAGE_STATS_ENABLED"] = "0"  # before the import; this program reports nothing

import pyarrow as pa
import ray
from ray.data import ActorPoolStrategy, DataContext, Datasource, ReadTask
from ray.data.block import BlockMetadata
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

__all__ = ["run_ray"]

_POLL_SECONDS = 0.2


def run_ray(
    job: BatchJob,
    address: str | None = None,
    min_workers: int = 1,
    max_workers: int | None = None,
    *,
    should_stop: Callable[[], bool] = lambda: False,
    advance: Callable[[int], None] = lambda count: None,
) -> Iterator[PartDone]:
    """Run a job on a Ray cluster, whose machines must see the sources and the destination.

    Args:
        job: The job; parts that are complete already are skipped.
        address: Of the cluster; None for `RAY_ADDRESS`, or a new one on this machine.
        min_workers: Least number of actors.
        max_workers: Largest number of actors; one per CPU of the cluster if None.
        should_stop: As for `run_local`.
        advance: As for `run_local`.

    Raises:
        PosformerError: If the cluster cannot be reached, or what the actors report.
    """
    next(job.parts(), None)  # a missing source is an error before anything is started
    with _connected(address):
        most = max_workers or max(min_workers, int(ray.cluster_resources().get("CPU", 1)))
        if most < min_workers:
            raise ConfigError(f"--max-workers {most} is less than --min-workers {min_workers}")
        with _stop_flag(should_stop) as flag:
            for done in _answers(_dataset(job, flag, min_workers, most)):
                if isinstance(done, Exception):
                    raise done
                if done is not None:
                    advance(done.count)
                    yield done


def _answers(parts: Any) -> Iterator[PartDone | Exception | None]:
    """Yield what the actors answer; an error of Ray itself becomes one line."""
    batches = parts.iter_batches(batch_size=None, prefetch_batches=0)
    try:
        for batch in batches:
            yield from map(pickle.loads, batch["done"])
    except ray.exceptions.RayError as error:
        reason = next(iter(str(error).strip().splitlines()[-1:]), type(error).__name__)
        raise PosformerError(f"Ray: {reason}") from error


def _dataset(job: BatchJob, flag: _Event, least: int, most: int) -> Any:
    context = DataContext.get_current()
    context.enable_progress_bars = False
    context.print_on_execution_start = False
    context.target_max_block_size = 1  # one part per block, so that actors get them one by one
    parts = ray.data.read_datasource(
        _PartSource(job, flag), override_num_blocks=1, num_cpus=0, concurrency=1
    )
    return parts.map_batches(
        _PartActor,
        fn_constructor_args=(job, model_version(job.model), flag),
        batch_size=1,
        compute=ActorPoolStrategy(min_size=least, max_size=most),
        num_cpus=1,
    )


class _PartSource(Datasource):
    """Lists the parts of a job one by one, on one machine of the cluster."""

    def __init__(self, job: BatchJob, flag: _Event) -> None:
        super().__init__()
        self._job, self._flag = job, flag

    def estimate_inmemory_data_size(self) -> int | None:
        """Return that the size is unknown."""
        return None

    def get_read_tasks(
        self,
        parallelism: int,
        per_task_row_limit: int | None = None,
        data_context: DataContext | None = None,
    ) -> list[ReadTask]:
        """Return the only task; all arguments are hints."""
        job, flag = self._job, self._flag
        metadata = BlockMetadata(num_rows=None, size_bytes=None, input_files=None, exec_stats=None)
        return [ReadTask(lambda: _part_blocks(job, flag), metadata)]


def _part_blocks(job: BatchJob, flag: _Event) -> Iterator[pa.Table]:
    try:
        for part in job.parts():
            if flag.is_set():
                return
            yield pa.table({"part": [pickle.dumps(part)]})
    except PosformerError as error:
        yield pa.table({"part": [pickle.dumps(error)]})


class _PartActor:
    """Recognizes the images of one part after the other."""

    def __init__(self, job: BatchJob, version: str, flag: _Event) -> None:
        self._job, self._version, self._flag = job, version, flag
        self._failure: Exception | None = None
        try:
            if (own := model_version(job.model)) != version:
                raise PosformerError(f"a machine of the cluster has another model: {own}")
            self._pool = open_pool(job, version)
        except PosformerError as error:  # raised here, the actor would be started again and again
            self._failure = error

    def __call__(self, batch: dict[str, Any]) -> dict[str, list[bytes]]:
        """Return what became of each part: a `PartDone`, an error, or None after a stop."""
        return {"done": [pickle.dumps(self._run(pickle.loads(one))) for one in batch["part"]]}

    def _run(self, part: Part | Exception) -> PartDone | Exception | None:
        if isinstance(part, Exception) or self._failure:
            return part if isinstance(part, Exception) else self._failure
        try:
            if self._flag.is_set():
                return None
            if (done := self._job.find_done(part)) is not None:
                return done
            futures = [self._pool.submit(one, group="") for one in part.inputs]
            pairs = zip(futures, part.inputs, strict=True)
            rows = [result_of(future, one, self._pool, self._version) for future, one in pairs]
            return self._job.write(part, rows)
        except (PosformerError, OSError) as error:
            return error


class _Event(Protocol):
    def is_set(self) -> bool: ...


@dataclass(frozen=True)
class _ClusterEvent:
    """An event in an actor: tells all machines that the user has asked to stop."""

    actor: Any  # runs a `threading.Event`

    def is_set(self) -> bool:
        return bool(ray.get(self.actor.is_set.remote()))


@contextmanager
def _stop_flag(should_stop: Callable[[], bool]) -> Iterator[_Event]:
    """Yield an actor on the driver's machine, which lives as long as the job."""
    here = NodeAffinitySchedulingStrategy(ray.get_runtime_context().get_node_id(), soft=False)
    remote: Any = ray.remote(threading.Event)  # its stubs know only functions
    actor = remote.options(num_cpus=0, scheduling_strategy=here).remote()
    ended = threading.Event()

    def watch() -> None:
        while not ended.wait(_POLL_SECONDS):
            if should_stop():
                ray.get(actor.set.remote())
                return

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        yield _ClusterEvent(actor)
    finally:
        ended.set()
        watcher.join()


@contextmanager
def _connected(address: str | None) -> Iterator[None]:
    """Connect to a cluster, or start one; Ray takes over a signal, which is given back."""
    logging.getLogger("ray").setLevel(logging.WARNING)
    logging.getLogger("ray.data").setLevel(logging.WARNING)
    own: dict[str, Any] = {} if address else {"include_dashboard": False}
    handler = signal.getsignal(signal.SIGTERM)
    try:
        ray.init(address, logging_level=logging.WARNING, log_to_driver=False, **own)
    except Exception as error:  # Ray raises plain ones
        reason = next(iter(str(error).splitlines()), "")
        raise PosformerError(f"Ray at {address or 'this machine'}: {reason}") from error
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, handler)
    try:
        yield
    finally:
        ray.shutdown()
