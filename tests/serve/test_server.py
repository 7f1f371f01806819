"""The server as a process: it starts by one command, and stops without losing anything."""

import os
import signal
import socket
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import httpx2
import pytest
from gate import Gate
from running import running

from posformer.serve import Settings, create_app

CROSS = {"strokes": [[[10, 10], [40, 50]], [[40, 10], [10, 50]]]}


def command(*words) -> list[str]:
    return [sys.executable, "-m", "posformer.cli", "serve", *map(str, words)]


@pytest.mark.skipif(os.name == "nt", reason="Windows has no such interrupt for another process")
def test_one_command_serves_until_it_is_interrupted(tiny_folder):
    words = command("--port", 0, "--model", tiny_folder, "--threads", 1)
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as server:
        try:
            address = str(server.stdout.readline()).split()[0]
            assert address.startswith("http://127.0.0.1:")
            assert httpx2.post(f"{address}api/strokes", json=CROSS).status_code == 200
            assert "posformer" in httpx2.get(address).text
        finally:
            server.send_signal(signal.SIGINT)
        assert server.wait(30) == 0


def test_a_port_that_is_taken_is_told_in_one_line(tiny_folder):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        words = command("--port", port, "--model", tiny_folder)
        done = subprocess.run(words, capture_output=True, text=True)
    assert done.returncode == 2
    assert str(port) in done.stderr
    assert done.stderr.count("\n") == 1


def test_stopping_finishes_what_was_accepted(tiny_recognizer):
    gate = Gate(tiny_recognizer)
    app = create_app(gate, Settings(workers=1, batch=1))
    with running(app) as (address, server), ThreadPoolExecutor(3) as clients:
        asked = [
            clients.submit(httpx2.post, f"{address}api/strokes", json=CROSS, timeout=30)
            for _ in range(3)
        ]
        while httpx2.get(f"{address}api/health").json()["waiting"] < 2:
            threading.Event().wait(0.02)
        server.should_exit = True
        threading.Event().wait(0.3)
        gate.open.set()
        assert [one.result().status_code for one in asked] == [200] * 3
