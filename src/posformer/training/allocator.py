"""Make glibc retain freed memory for the next training step.

By default glibc returns large freed tensors to the system and faults new pages in at the next step,
which took half of the time of a training step on a CPU.
"""

import ctypes
import sys

_M_TRIM_THRESHOLD, _M_MMAP_MAX = -1, -4


def retain_freed_memory() -> None:
    """Make the allocator retain freed memory; does nothing on systems without glibc."""
    if not sys.platform.startswith("linux"):
        return
    try:
        mallopt = ctypes.CDLL("libc.so.6").mallopt
    except (OSError, AttributeError):
        return
    mallopt(_M_MMAP_MAX, 0)
    mallopt(_M_TRIM_THRESHOLD, 2**31 - 1)
