"""What the fuzzer runs in a worker: it makes a mutated input and gives it to the program."""

import hashlib
import io
import json
import logging
import shutil
import socket
import warnings
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from random import Random
from time import monotonic
from typing import Any
from urllib.parse import urlsplit

import numpy as np
from fuzz_corpus import Corpus, request, with_member
from mutations import mutate_bytes, mutate_json, mutate_text
from PIL import Image

from posformer import DecodingOptions, Recognizer
from posformer.errors import PosformerError

ACCEPTED, REFUSED, UNANSWERED = "accepted", "refused", "unanswered"

Case = tuple[str, int, int]
"""Target, seed of the run, and number of the case."""

_OPTIONS = DecodingOptions(greedy=True)
_MOST_PIXELS = 4_000_000
_ANSWER_SECONDS = 2.0  # after which a connection without an answer is closed
_HEALTH_SECONDS = 30.0
_MESSAGE_LENGTH = 1000


class Defect(Exception):
    """The program did what it must not do."""


def make_input(case: Case, corpus: Corpus) -> tuple[str, bytes]:
    """Return the name of the original file and the mutated content of a case."""
    target, seed, number = case
    random = Random(f"{seed} {target} {number}")
    files = corpus[target]
    if target == "image" and random.random() < 0.15:
        return "drawn.png", _drawn(random)
    name = random.choice(sorted(files))
    content, others = files[name], list(files.values())
    if target == "ink" and name != "xopp.gz":
        mutate = mutate_json if name == "excalidraw" else mutate_text
        return name, mutate(content, others, random)
    if target == "json" or name == "config.json":
        return name, mutate_json(content, others, random)
    if target == "http":
        return name, _mutated_request(content, others, random)
    if name.endswith("-archive") and random.random() < 0.7:
        member = "archive/data.pkl"
        return name, with_member(content, member, lambda part: mutate_bytes(part, others, random))
    return name, mutate_bytes(content, others, random)


def _drawn(random: Random) -> bytes:
    """A PNG file of extreme shape and content, which nothing is wrong with."""
    longer = random.choice((1, 3, 50, 2000, 12_000))
    shorter = max(1, min(random.choice((1, 2, 7, 60, 2000)), _MOST_PIXELS // longer))
    shape = random.choice(((longer, shorter), (shorter, longer)))
    rng = np.random.default_rng(random.randrange(2**32))
    step = random.choice((2, 3, 5, 40))
    rows, columns = np.ogrid[: shape[0], : shape[1]]
    patterns = {
        "noise": lambda: rng.integers(0, 256, shape),
        "specks": lambda: 255 * (rng.random(shape) > 0.002),
        "grid": lambda: 255 * ((rows % step > 0) & (columns % step > 0)),
        "dashes": lambda: 255 * ((rows % step > 0) | (columns % (3 * step) > step)),
        "checks": lambda: 255 * ((rows // step + columns // step) % 2),
        "ramp": lambda: (rows + columns) % 256,
        "line": lambda: 255 * (rows + 0 * columns != shape[0] // 2),
        "circles": lambda: 255 * ((rows - shape[0] // 2) ** 2 // 90 + columns**2 // 90) % 256,
    }
    pixels = patterns[random.choice(sorted(patterns))]()
    buffer = io.BytesIO()
    Image.fromarray(pixels.astype(np.uint8)).save(buffer, "PNG", compress_level=1)
    return buffer.getvalue()


def _mutated_request(content: bytes, others: list[bytes], random: Random) -> bytes:
    """Mutate the head or the body; a changed body gets its length, most of the time."""
    head, _, body = content.partition(b"\r\n\r\n")
    if not body or random.random() < 0.4:
        return mutate_text(content, others, random)
    line = head.split(b"\r\n")[0]
    mutate = mutate_bytes if b"recognize" in line else mutate_json
    changed = mutate(body, others if mutate is mutate_bytes else [body], random)
    method, path, _ = line.decode().split()
    kind = "multipart/form-data; boundary=edge" if "recognize" in path else "application/json"
    if random.random() < 0.9:
        return request(method, path, changed, kind)
    return head + b"\r\n\r\n" + changed


class Targets:
    """Runs cases; made once in every worker process."""

    def __init__(self, corpus: Corpus, folder: Path) -> None:
        import torch

        torch.set_num_threads(1)
        self._corpus = corpus
        self._scratch = folder
        self._recognizer = Recognizer.load(folder / "model", threads=1)
        self._server: Server | None = None

    def __call__(self, cases: Iterator[Case]) -> Iterator[str | Exception]:
        """Yield the outcome of each case, or a `Defect`."""
        for case in cases:
            name, content = make_input(case, self._corpus)
            try:
                yield getattr(self, f"_run_{case[0]}")(name, content)
            except PosformerError as error:
                yield _check_message(str(error)) or REFUSED
            except MemoryError:
                raise  # the pool reports it with the limit
            except Exception as error:
                yield error if isinstance(error, Defect) else _as_defect(error)

    def _run_image(self, name: str, content: bytes) -> str:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            # Not `recognize`, which turns every error into one of its own.
            formulas = self._recognizer.prepare(content)
            return self._recognize(formulas[:3])

    def _recognize(self, sources: list[Any]) -> str:
        for found in self._recognizer.attempt_many(sources, _OPTIONS):
            if isinstance(found, PosformerError):
                raise found
        return ACCEPTED

    def _run_ink(self, name: str, content: bytes) -> str:
        from posformer.ink import read_ink

        document = read_ink(content, name)
        formulas = self._recognizer.prepare(document)
        return self._recognize(formulas[:3])

    def _run_json(self, name: str, content: bytes) -> str:
        from posformer.batch.result_file import partial_file, read_finished
        from posformer.evaluation import read_predictions
        from posformer.synthesis.corpora import load_corpus

        path = self._scratch / f"{name}-{_process()}.jsonl"
        target = partial_file(path) if name == "results" else path
        target.write_bytes(content)
        if name == "predictions":
            read_predictions(path)
        elif name == "symbols":
            load_corpus(path, cache=None)
        else:
            for format in ("json", "csv", "text"):
                with suppress(PosformerError):
                    read_finished(path, format, several=True, top_k=1)
            read_finished(path, "json", several=True, top_k=1)
        return ACCEPTED

    def _run_checkpoint(self, name: str, content: bytes) -> str:
        from posformer.models.checkpoint import load_model
        from posformer.models.public_checkpoint import load_public_checkpoint
        from tiny import VOCABULARY

        path = self._scratch / f"{_process()}.ckpt"
        path.write_bytes(content)
        if name.startswith("public"):
            load_public_checkpoint(path, VOCABULARY)
        else:
            load_model(path)
        return ACCEPTED

    def _run_model(self, name: str, content: bytes) -> str:
        folder = self._scratch / f"model-{_process()}"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        files = {**self._corpus["model"], name: content}
        if name != "config.json":
            config = json.loads(files["config.json"])
            # Else nearly every change would be refused because of its checksum.
            config["files"][name] = hashlib.sha256(content).hexdigest()
            files["config.json"] = json.dumps(config).encode()
        for file, data in files.items():
            (folder / file).write_bytes(data)
        engine = "pytorch" if name == "model.safetensors" and len(content) % 2 else "auto"
        recognizer = Recognizer.load(folder, engine, threads=1)
        recognizer.recognize([[[0, 20], [40, 20]], [[20, 0], [20, 40]]], _OPTIONS)
        return ACCEPTED

    def _run_http(self, name: str, content: bytes) -> str:
        if self._server is None:
            self._server = Server(self._recognizer)
        return self._server.send(content)


class Server:
    """A server on loopback in this process; its errors are recorded."""

    def __init__(self, recognizer: Recognizer) -> None:
        from running import running

        from posformer.serve import Settings, create_app

        self._records: list[logging.LogRecord] = []
        handler = logging.Handler()
        handler.emit = self._records.append  # type: ignore[method-assign]
        for name in ("posformer", "uvicorn.error", "asyncio"):
            logger = logging.getLogger(name)
            logger.addHandler(handler)
            logger.propagate = False
        settings = Settings(options=_OPTIONS, job_seconds=20, seconds=25, header_seconds=5)
        address, _ = running(create_app(recognizer, settings)).__enter__()
        self._address = urlsplit(address).hostname, urlsplit(address).port

    def send(self, content: bytes) -> str:
        """Send bytes; return what came of it, and check that the server goes on."""
        status = _status(self._exchange(content, _ANSWER_SECONDS))
        if _status(self._exchange(request("GET", "/api/health"), _HEALTH_SECONDS)) != 200:
            raise Defect("the server does not answer any more")
        errors = [record for record in self._records if record.levelno >= logging.ERROR]
        self._records.clear()
        if errors or (status is not None and status >= 500 and status != 503):
            raise Defect(f"status {status}; {'; '.join(_describe(record) for record in errors)}")
        if status is None:
            return UNANSWERED
        return ACCEPTED if status < 400 else REFUSED

    def _exchange(self, content: bytes, seconds: float) -> bytes:
        """Send a request; return the beginning of the answer, empty if there is none in time."""
        with socket.create_connection(self._address, timeout=seconds) as connection:
            found, end = b"", monotonic() + seconds
            with suppress(OSError):  # closed while sending, or no answer in time
                connection.sendall(content)
            with suppress(OSError):
                while b"\r\n\r\n" not in found and monotonic() < end:
                    part = connection.recv(65_536)
                    if not part:
                        break
                    found += part
            return found


def _status(answer: bytes) -> int | None:
    words = answer.split(None, 2)
    return int(words[1]) if len(words) > 1 and words[1].isdigit() else None


def _describe(record: logging.LogRecord) -> str:
    text = record.getMessage()
    return f"{text} ({record.exc_info[1]!r})" if record.exc_info else text


def _check_message(message: str) -> Defect | None:
    """Return a defect if the message for the user is not one short line."""
    if "\n" in message or not message.strip() or len(message) > _MESSAGE_LENGTH:
        return Defect(f"a message that is not one line: {message[:300]!r}")
    return None


def _as_defect(error: Exception) -> Defect:
    import traceback

    last = traceback.extract_tb(error.__traceback__)[-3:]
    places = " < ".join(f"{Path(one.filename).name}:{one.lineno}" for one in reversed(last))
    return Defect(f"{type(error).__name__}: {str(error)[:200]} at {places}")


def _process() -> int:
    import os

    return os.getpid()


def start(corpus: Corpus, folder: Path) -> Callable[[Iterator[Case]], Iterator[str | Exception]]:
    """Return the handler of a worker process."""
    return Targets(corpus, folder)
