"""Runs a large job from start to end: lock, engine, progress, interrupts, summary."""

from __future__ import annotations

import signal
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from time import monotonic
from types import FrameType
from typing import Protocol

from posformer.batch.batch_job import BatchJob, PartDone
from posformer.batch.inputs import iter_inputs
from posformer.batch.part_files import locked
from posformer.errors import PosformerError

__all__ = ["BatchSummary", "Engine", "run_batch"]


class Engine(Protocol):
    """Runs a job; see `run_local`."""

    def __call__(
        self,
        job: BatchJob,
        *,
        should_stop: Callable[[], bool],
        advance: Callable[[int], None],
    ) -> Iterator[PartDone]:
        """Yield the parts as their files are complete."""


@dataclass
class BatchSummary:
    """What a run has done."""

    parts: int = 0
    done: int = 0  # inputs with results
    new: int = 0  # of them in this run
    errors: Counter[str] = field(default_factory=Counter)  # of all parts, by kind
    seconds: float = 0.0  # that the new ones have taken
    is_complete: bool = False

    def add(self, part: PartDone) -> None:
        """Count a part."""
        self.parts += 1
        self.done += part.count
        self.new += part.count if part.is_new else 0
        self.errors += part.errors

    def __str__(self) -> str:
        rate = f", {self.new / self.seconds:.1f} images per second" if self.new else ""
        earlier = f", {self.done - self.new} before" if self.done > self.new else ""
        kinds = ", ".join(f"{count} {kind}" for kind, count in self.errors.most_common())
        errors = f"errors: {kinds}" if kinds else "no errors"
        counts = f"inputs: {self.done}, part files: {self.parts}, {errors}"
        return f"{counts}; {self.new} in {self.seconds:.1f} s{rate}{earlier}"


def run_batch(
    job: BatchJob, engine: Engine, say: Callable[[str], None] = lambda line: None
) -> BatchSummary:
    """Run a job, or what an interrupted run of it has left.

    The first Ctrl-C (or SIGTERM) finishes the parts at hand, the second one stops at once.

    Args:
        job: The job.
        engine: What runs it.
        say: Called with lines for the user.

    Raises:
        PosformerError: If another run works on it, the folder holds anything else, or the source
            has changed since an interrupted run.
    """
    summary = BatchSummary()
    with locked(job.destination), _interrupts(say) as should_stop, _progress(job) as advance:
        job.prepare()
        started = monotonic()
        for part in engine(job, should_stop=should_stop, advance=advance):
            started = started if part.is_new or summary.new else monotonic()
            summary.add(part)
        summary.seconds = monotonic() - started
        summary.is_complete = not should_stop()
        if summary.is_complete:
            job.check_complete(summary.parts)
    if summary.is_complete and not summary.done:
        raise PosformerError(f"{', '.join(job.sources)}: there are no inputs")
    return summary


@contextmanager
def _interrupts(say: Callable[[str], None]) -> Iterator[Callable[[], bool]]:
    """Yield a function that tells whether the user has asked to stop."""
    requested = threading.Event()

    def handle(number: int, frame: FrameType | None) -> None:
        if requested.is_set():
            raise KeyboardInterrupt
        requested.set()
        say("finishing the parts at hand; Ctrl-C again stops at once")

    if threading.current_thread() is not threading.main_thread():  # only it gets signals
        yield requested.is_set
        return
    before = {kind: signal.signal(kind, handle) for kind in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield requested.is_set
    finally:
        for kind, handler in before.items():
            signal.signal(kind, handler)


@contextmanager
def _progress(job: BatchJob) -> Iterator[Callable[[int], None]]:
    """Show a progress bar if stderr is a terminal; yield a function that advances it.

    The inputs are counted meanwhile, so that the job begins at once.
    """
    if not sys.stderr.isatty():
        yield lambda count: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeRemainingColumn

    columns = (BarColumn(None), MofNCompleteColumn(), TimeRemainingColumn())
    ended = threading.Event()
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("", total=None)

        def count() -> None:
            total = 0
            for _ in iter_inputs(job.sources, job.key_column):
                total += 1
                if ended.is_set():
                    return
            bar.update(task, total=total)

        threading.Thread(target=_ignore_errors(count), daemon=True).start()
        try:
            yield lambda count: bar.advance(task, count)
        finally:
            ended.set()


def _ignore_errors(work: Callable[[], None]) -> Callable[[], None]:
    """Return a function that leaves it to the job to report an error."""

    def run() -> None:
        try:
            work()
        except Exception:
            return

    return run
