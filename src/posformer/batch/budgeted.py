"""Recognition with a budget: unusual files are read in a worker process that can be killed.

Work on PNG, JPEG and BMP images of ordinary size and on small InkML is bounded by itself. Decoders
of other formats are not: a PDF of a kilobyte can take minutes.
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from PIL import Image

from posformer.errors import BudgetError, ImageError, PosformerError
from posformer.ink.ink_formats import is_ink

if TYPE_CHECKING:
    from concurrent.futures import Future

    from posformer.recognizer import Recognition, Recognizer
    from posformer.search import DecodingOptions
    from posformer.worker_pool import Handler, WorkerPool

__all__ = ["attempt_with_budget", "is_usual"]

_USUAL_FORMATS = ("PNG", "JPEG", "BMP")
_USUAL_BYTES = 30_000_000
_USUAL_PIXELS = 30_000_000
_USUAL_SIDE = 12_000
_USUAL_INK_BYTES = 500_000

_Source = str | BinaryIO | PosformerError
_NamedContent = tuple[str, bytes | None]  # without content, the name is a path


def attempt_with_budget(
    recognizer: Recognizer,
    sources: Iterator[_Source],
    options: DecodingOptions | None = None,
    seconds: float = 30.0,
    megabytes: int = 2048,
) -> Iterator[Recognition | PosformerError]:
    """Like `Recognizer.attempt_many`, but with a budget for each unusual source.

    The worker process is started for the first of them.

    Args:
        recognizer: What `Recognizer.load` returned.
        sources: Paths, binary files, and errors, which are passed through.
        options: How to decode; the defaults if None.
        seconds: Time limit per unusual source.
        megabytes: Memory limit per unusual source.
    """
    with ExitStack() as stack:
        pool: WorkerPool[_NamedContent, Recognition] | None = None

        def routed() -> Iterator[_Source]:
            nonlocal pool
            for source in sources:
                unusual = None if isinstance(source, PosformerError) else _unusual(source)
                if unusual is None or isinstance(unusual, PosformerError | io.BytesIO):
                    yield unusual or source
                    continue
                if pool is None:
                    from posformer.worker_pool import Budget, WorkerPool

                    start = partial(_start, recognizer, options)
                    budget = Budget(seconds, megabytes)
                    pool = stack.enter_context(WorkerPool(start, budget=budget))
                yield _Pending(unusual[0], pool.submit(unusual))

        for result in recognizer.attempt_many(routed(), options):
            yield result.wait() if isinstance(result, _Pending) else result


class _Pending(PosformerError):
    """Takes the place of a source that a worker recognizes, and keeps the results in order."""

    def __init__(self, name: str, future: Future[Recognition]) -> None:
        self._name, self._future = name, future

    def wait(self) -> Recognition | PosformerError:
        try:
            return self._future.result()
        except BudgetError as error:
            return BudgetError(f"{self._name}: {error}", error.kind)
        except PosformerError as error:
            return error


def _unusual(source: str | BinaryIO) -> _NamedContent | io.BytesIO | PosformerError | None:
    """Return what to send to a worker, or what to read here instead; None for the source itself."""
    if isinstance(source, str):
        return None if is_usual(source) else (source, None)
    name = str(getattr(source, "name", "image"))
    try:
        content = source.read()
    except OSError as error:
        return ImageError(f"{name}: cannot be read ({error.strerror or error})")
    return _named(name, content) if is_usual(content) else (name, content)


def is_usual(source: str | bytes) -> bool:
    """Whether a path or the content of a file needs no budget.

    What cannot be opened is usual: reporting it takes no time.
    """
    try:
        if isinstance(source, str):
            path = Path(source)
            if not path.is_file():
                return True
            size = path.stat().st_size
            with path.open("rb") as file:
                return _is_usual_file(file, size)
        return _is_usual_file(io.BytesIO(source), len(source))
    except OSError:
        return True


def _is_usual_file(file: BinaryIO, size: int) -> bool:
    head = file.read(64)
    file.seek(0)
    if not head or is_ink(head):
        return size <= _USUAL_INK_BYTES
    if size > _USUAL_BYTES:
        return False
    try:
        with Image.open(file, formats=_USUAL_FORMATS) as image:
            width, height = image.size
    except Exception:  # the header of another format, or a damaged one
        return False
    return max(width, height) <= _USUAL_SIDE and width * height <= _USUAL_PIXELS


def _start(
    recognizer: Recognizer, options: DecodingOptions | None
) -> Handler[_NamedContent, Recognition]:
    """Return the handler of a worker; unpickling the recognizer has loaded the model."""
    from posformer.batch.files import print_short_warnings

    print_short_warnings()

    def recognize(jobs: Iterator[_NamedContent]) -> Iterator[Recognition | Exception]:
        opened = (name if content is None else _named(name, content) for name, content in jobs)
        return recognizer.attempt_many(opened, options)

    return recognize


def _named(name: str, content: bytes) -> io.BytesIO:
    file = io.BytesIO(content)
    file.name = name
    return file
