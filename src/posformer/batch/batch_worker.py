"""What the worker processes of a large job do: inputs in, rows of the results out."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Future
from dataclasses import dataclass
from functools import partial
from io import BytesIO
from time import perf_counter
from typing import TYPE_CHECKING

import cv2

from posformer.batch.batch_job import BatchJob
from posformer.batch.input_content import open_input, prepare_readers
from posformer.batch.inputs import Input
from posformer.batch.part_files import Row
from posformer.errors import BudgetError, ImageError, InkError, NoInkError, PosformerError
from posformer.recognizer import Recognition, Recognizer
from posformer.worker_pool import WorkerPool

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["open_pool", "result_of"]


def open_pool(
    job: BatchJob, version: str, workers: int = 1, cores: Sequence[int] | None = None
) -> WorkerPool[Input, Row]:
    """Start worker processes of one thread each.

    An input that crashes its worker or exceeds its budget is tried once more in a new process.

    Args:
        job: What they work on.
        version: Of the model, for the rows.
        workers: Number of processes.
        cores: The cores to pin them to.
    """
    return WorkerPool(
        partial(RowWorker.start, job, version),
        workers,
        job.images,
        job.budget,
        retry_timeouts=True,
        cores=cores,
    )


def result_of(future: Future[Row], one: Input, pool: WorkerPool[Input, Row], version: str) -> Row:
    """Wait for the row of an input; one that fails in any way has a row with the error.

    Raises:
        Exception: If no worker can be started, which is no fault of the input.
    """
    try:
        return future.result()
    except Exception as error:
        if error is pool.start_failure:
            raise
        return _error_row(one, error, version)


@dataclass(frozen=True)
class RowWorker:
    """Runs the jobs of one worker; see `posformer.worker_pool.Handler`."""

    recognizer: Recognizer
    job: BatchJob
    version: str

    @classmethod
    def start(cls, job: BatchJob, version: str) -> RowWorker:
        """Load the model."""
        from posformer.batch.files import print_short_warnings

        print_short_warnings()
        cv2.setNumThreads(1)
        prepare_readers()
        return cls(Recognizer.load(job.model, threads=1, allow_code=job.allow_code), job, version)

    def __call__(self, inputs: Iterator[Input]) -> Iterator[Row]:
        """Recognize some inputs together; their time is divided equally among them."""
        taken: list[Input] = []
        started = perf_counter()

        def opened() -> Iterator[str | BytesIO | ImageError]:
            for one in inputs:
                taken.append(one)
                yield open_input(one)

        results = list(self.recognizer.attempt_many(opened(), self.job.options))
        milliseconds = round((perf_counter() - started) * 1000 / max(1, len(taken)), 1)
        for one, result in zip(taken, results, strict=True):
            yield {**_row(one, result, self.version), "milliseconds": milliseconds}


def _row(one: Input, result: Recognition | PosformerError, version: str) -> Row:
    if isinstance(result, PosformerError):
        return _error_row(one, result, version)
    best, *others = (
        {"latex": reading.latex, "confidence": round(reading.confidence, 6)}
        for reading in result.readings
    )
    return {
        "path": one.key,
        "latex": best["latex"] if result.readable else None,
        "confidence": best["confidence"] if result.readable else None,
        "alternatives": others if result.readable else [best, *others],
        "error": result.error,
        "error_kind": None if result.readable else "not readable",
        "model": version,
        "milliseconds": None,
    }


def _error_row(one: Input, error: Exception, version: str) -> Row:
    text = str(error) if isinstance(error, PosformerError) else f"fails ({error})"
    for name in (one.location, one.key):  # the row names it
        text = text.removeprefix(f"{name}: ")
    return {
        "path": one.key,
        "latex": None,
        "confidence": None,
        "alternatives": [],
        "error": " ".join(text.split()),
        "error_kind": _kind(error),
        "model": version,
        "milliseconds": None,
    }


def _kind(error: Exception) -> str:
    """Return the kind of an error, for the summary."""
    if isinstance(error, BudgetError):
        return error.kind
    kinds = {NoInkError: "no ink", ImageError: "image", InkError: "ink"}
    return next((name for kind, name in kinds.items() if isinstance(error, kind)), "other")
