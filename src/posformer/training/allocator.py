"""Keeps large blocks of memory with the process between steps.

glibc gives large tensors back to the system when they are freed and faults them in again at the
next step, which took half of the time of a training step on a CPU. Two settings stop that.
"""

import ctypes
import sys

__all__ = ["keep_memory"]

_M_TRIM_THRESHOLD, _M_MMAP_MAX = -1, -4


def keep_memory() -> None:
    """Tells glibc's allocator to keep what it has; does nothing on other systems."""
    if not sys.platform.startswith("linux"):
        return
    try:
        mallopt = ctypes.CDLL("libc.so.6").mallopt
    except (OSError, AttributeError):
        return
    mallopt(_M_MMAP_MAX, 0)
    mallopt(_M_TRIM_THRESHOLD, 2**31 - 1)
