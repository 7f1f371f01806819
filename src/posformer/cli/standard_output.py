"""Standard output that may be closed, full, or in an encoding other than UTF-8."""

import io
import os
import sys


def use_utf8() -> None:
    """Write UTF-8 whatever the locale; JSON has no other encoding."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(encoding="utf-8")


def escape_unknown_characters() -> None:
    """Escape characters that the encoding of stdout does not have."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")


def flush() -> None:
    """Write what is buffered; an error must show before the interpreter exits."""
    if sys.stdout is not None:
        sys.stdout.flush()


def discard() -> None:
    """Drop what is buffered, which cannot be written; the interpreter would try again."""
    if sys.stdout is None:
        return
    try:
        descriptor = os.open(os.devnull, os.O_WRONLY)
        os.dup2(descriptor, sys.stdout.fileno())
        os.close(descriptor)
    except (OSError, ValueError):  # it has no descriptor
        pass
