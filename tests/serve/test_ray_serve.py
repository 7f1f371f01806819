"""The example for Ray Serve answers as `posformer serve` does."""

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx2
import pytest
from running import running

from posformer import Recognizer
from posformer.serve import create_app

pytest.importorskip("ray.serve")
pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]

ROOT = Path(__file__).parents[2]
IMAGE = ROOT / "examples" / "euler.png"
PLENTY = 900  # seconds to start on a busy machine


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


def start(port: int) -> tuple[subprocess.Popen, str]:
    """Start the example; return it and what it has printed until it was ready, or ended."""
    script = [sys.executable, str(ROOT / "examples" / "ray_serve.py"), "--replicas", "2"]
    process = subprocess.Popen(
        [*script, "--port", str(port)],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )
    assert process.stdout
    seen = ""
    for line in process.stdout:
        seen += line
        if line.startswith("http://"):
            return process, seen
    process.wait()
    return process, seen


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    port = free_port()
    for _ in range(8):
        process, output = start(port)
        if process.poll() is None:
            break
        # Ray allows a node 30 seconds to start, which a busy machine may exceed.
        assert "timed out during startup" in output, output
    else:
        pytest.skip("this machine is too busy to start a Ray node within 30 seconds")
    yield f"http://127.0.0.1:{port}/"
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=PLENTY)
    assert process.returncode == 0


@pytest.fixture(scope="module")
def plain() -> Iterator[str]:
    with running(create_app(Recognizer.load(threads=1))) as (url, _):
        yield url


def answers(url: str) -> list[tuple[int, Any]]:
    """Send the same requests to a server, and return statuses and JSON without times."""
    with httpx2.Client(base_url=url, timeout=300) as http:
        content = IMAGE.read_bytes()
        found = [
            http.post("api/recognize?top_k=2", files={"file": ("euler.png", content)}),
            http.post("api/recognize", files={"file": ("no.png", b"not an image")}),
            http.post("api/strokes", json={"strokes": [[[0, 20], [40, 20]], [[20, 0], [20, 40]]]}),
            http.post("api/latex", json={"latex": "x^2", "format": "typst"}),
            http.post("api/latex", content="{", headers={"Content-Type": "application/json"}),
            http.get("api/model"),
            http.get("api/ready"),
            http.get("api/nothing"),
        ]
    bodies = [answer.json() for answer in found]
    for body in bodies:
        body.pop("milliseconds", None)
    return [(one.status_code, body) for one, body in zip(found, bodies, strict=True)]


def test_same_paths_and_json(address, plain):
    expected = answers(plain)
    assert [status for status, _ in expected] == [200, 422, 200, 200, 422, 200, 200, 404]
    assert answers(address) == expected
    with httpx2.Client(base_url=address, timeout=300) as http:
        assert "<canvas" in http.get("").text


def test_requests_at_once(address):
    content = IMAGE.read_bytes()

    def ask(_: int) -> str:
        answer = httpx2.post(
            f"{address}api/recognize", files={"file": ("euler.png", content)}, timeout=600
        )
        return str(answer.json().get("latex", answer.text))

    started = time.monotonic()
    with ThreadPoolExecutor(16) as clients:
        found = list(clients.map(ask, range(40)))
    assert set(found) == {"e^{i\\pi}+1=0"}, time.monotonic() - started
