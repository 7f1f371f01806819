"""Handlers for tests of the worker pool, importable in its processes."""

import os
import signal
import sys
import time
from pathlib import Path


def start_plain():
    """A handler that does what each job says."""
    return _run


def start_joint(folder):
    """A handler that takes all jobs before it answers, and records the sizes of its batches."""

    def run(jobs):
        taken = [_prepared(job) for job in jobs]
        with (Path(folder) / "batches").open("a") as file:
            print(len(taken), file=file)
        yield from taken

    return run


def start_once(marker):
    """A handler that starts only in the first worker."""
    if Path(marker).exists():
        start_failing()
    Path(marker).touch()
    return _run


def start_late():
    """A handler that takes all jobs before it does anything."""
    return lambda jobs: map(_prepared, list(jobs))


def start_failing():
    raise ValueError("cannot start")


def _run(jobs):
    for job in jobs:
        yield _prepared(job)


def _prepared(job):
    kind, *arguments = job
    return _KINDS[kind](*arguments)


def _hang():
    signal.pthread_sigmask(signal.SIG_BLOCK, set(signal.Signals))  # SIGKILL alone ends it
    while True:
        time.sleep(60)


def _crash_once(marker):
    path = Path(marker)
    if not path.exists():
        path.touch()
        os.kill(os.getpid(), signal.SIGSEGV)
    return "survived"


def _wait_for(path):
    while not Path(path).exists():
        time.sleep(0.01)
    return "waited"


def _fault(text):
    raise RuntimeError(text)


def _print(text):
    print(text)
    sys.stdout.flush()
    return text


_KINDS = {
    "echo": lambda value: value,
    "pid": os.getpid,
    "hang": _hang,
    "allocate": lambda megabytes: len(bytearray(megabytes * 2**20)),
    "crash": lambda: os.kill(os.getpid(), signal.SIGSEGV),
    "crash once": _crash_once,
    "wait": _wait_for,
    "fault": _fault,
    "error": lambda text: ValueError(text),
    "print": _print,
    "sleep": lambda seconds: time.sleep(seconds) or seconds,
}


def start_calls():
    """A handler whose jobs are functions with their arguments."""
    return lambda jobs: (function(*arguments) for function, arguments in jobs)
