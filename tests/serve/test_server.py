"""`posformer serve` as a process: start, errors and graceful shutdown."""

import os
import signal
import socket
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import httpx2
import pytest
from blocked_recognizer import BlockedRecognizer
from running import running

from posformer.serve import Settings, create_app

CROSS = {"strokes": [[[10, 10], [40, 50]], [[40, 10], [10, 50]]]}


def command(*arguments) -> list[str]:
    return [sys.executable, "-m", "posformer.cli", "serve", *map(str, arguments)]


@pytest.mark.skipif(os.name == "nt", reason="sends a signal")
def test_serve_until_interrupted(tiny_folder):
    arguments = command("--port", 0, "--model", tiny_folder, "--threads", 1)
    with subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True) as server:
        try:
            address = str(server.stdout.readline()).split()[0]
            assert address.startswith("http://127.0.0.1:")
            assert httpx2.post(f"{address}api/strokes", json=CROSS).status_code == 200
            assert "posformer" in httpx2.get(address).text
        finally:
            server.send_signal(signal.SIGINT)
        assert server.wait(30) == 0


def test_port_in_use_is_one_line(tiny_folder):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        arguments = command("--port", port, "--model", tiny_folder)
        done = subprocess.run(arguments, capture_output=True, text=True)
    assert done.returncode == 2
    assert str(port) in done.stderr
    assert done.stderr.count("\n") == 1


def test_shutdown_finishes_accepted_requests(tiny_recognizer):
    recognizer = BlockedRecognizer(tiny_recognizer)
    app = create_app(recognizer, Settings(workers=1, batch=1))
    with running(app) as (address, server), ThreadPoolExecutor(3) as clients:
        requests = [
            clients.submit(httpx2.post, f"{address}api/strokes", json=CROSS, timeout=30)
            for _ in range(3)
        ]
        while httpx2.get(f"{address}api/health").json()["waiting"] < 2:
            threading.Event().wait(0.02)
        server.should_exit = True
        threading.Event().wait(0.3)
        recognizer.open.set()
        assert [one.result().status_code for one in requests] == [200] * 3
