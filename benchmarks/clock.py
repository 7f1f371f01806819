"""What time the benchmarks go by."""

import time
from collections.abc import Callable
from typing import Any

__all__ = ["clock", "describe_clock", "seconds"]


def clock(threads: int) -> Callable[[], float]:
    """With one thread the time of the CPU, which other programs do not disturb; else the wall's."""
    return time.process_time if threads == 1 else time.perf_counter


def describe_clock(threads: int) -> str:
    return "1 thread, CPU time" if threads == 1 else f"{threads} threads"


def seconds(work: Callable[[], Any], threads: int) -> float:
    """How long work takes."""
    now = clock(threads)
    start = now()
    work()
    return now() - start
