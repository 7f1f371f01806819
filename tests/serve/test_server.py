"""`posformer serve` as a process: start, errors and graceful shutdown."""

import os
import signal
import socket
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from urllib.parse import urlsplit

import httpx2
import pytest
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


@pytest.mark.skipif(os.name == "nt", reason="stops a process")
def test_full_server_refuses_and_shutdown_finishes_accepted_requests(tiny_recognizer):
    app = create_app(tiny_recognizer, Settings(seconds=300, job_seconds=300, requests=3))
    (worker,) = app.state.pool.process_ids
    with running(app) as (address, server), ThreadPoolExecutor(8) as clients:
        os.kill(worker, signal.SIGSTOP)
        requests = [
            clients.submit(httpx2.post, f"{address}api/strokes", json=CROSS, timeout=300)
            for _ in range(8)
        ]
        while sum(request.done() for request in requests) < 5:
            time.sleep(0.02)
        server.should_exit = True
        time.sleep(0.3)
        os.kill(worker, signal.SIGCONT)
        answers = [request.result() for request in requests]
    assert sorted(answer.status_code for answer in answers) == [200] * 3 + [503] * 5
    waits = [int(one.headers["Retry-After"]) for one in answers if one.status_code == 503]
    assert min(waits) >= 1


HALF_REQUEST = b"POST /api/latex HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"


def connect(address: str, *parts: bytes) -> socket.socket:
    url = urlsplit(address)
    connection = socket.create_connection((url.hostname, url.port), timeout=60)
    for part in parts:
        connection.sendall(part)
    return connection


@pytest.mark.parametrize(
    "sent",
    [b"", b"GET / HT", HALF_REQUEST, HALF_REQUEST + b'Content-Length: 99\r\n\r\n{"latex"'],
    ids=["nothing", "half a line", "half the headers", "half the body"],
)
def test_half_open_connections_do_not_block(tiny_recognizer, sent):
    settings = Settings(connections=20, requests=8, header_seconds=300, seconds=300)
    with running(create_app(tiny_recognizer, settings)) as (address, _), ExitStack() as stack:
        for _ in range(60):
            stack.enter_context(connect(address, sent))
        time.sleep(1.2)
        assert httpx2.get(f"{address}api/health", timeout=60).status_code == 200
        answer = httpx2.post(f"{address}api/latex", json={"latex": "x"}, timeout=60)
        assert answer.status_code == 200


@pytest.mark.parametrize(
    "sent",
    [b"", HALF_REQUEST, HALF_REQUEST + b'Content-Length: 99\r\n\r\n{"latex"'],
    ids=["nothing", "half the headers", "half the body"],
)
def test_300_half_open_connections_do_not_block_a_server(tiny_recognizer, sent):
    # The default numbers of connections and requests; no time limit may free a place.
    settings = Settings(seconds=300, header_seconds=300)
    with running(create_app(tiny_recognizer, settings)) as (address, _), ExitStack() as stack:
        for _ in range(300):
            stack.enter_context(connect(address, sent))
        assert httpx2.get(f"{address}api/health", timeout=60).status_code == 200
        for _ in range(100):  # until a body has been arriving for too long
            answer = httpx2.post(f"{address}api/latex", json={"latex": "x"}, timeout=60)
            if answer.status_code != 503:
                break
            time.sleep(0.1)
        assert answer.status_code == 200


def test_headers_must_arrive_in_time_and_be_short(tiny_recognizer):
    with running(create_app(tiny_recognizer, Settings(header_seconds=0.3))) as (address, _):
        with connect(address, b"GET / HTTP/1.1\r\n") as slow:
            assert slow.recv(1000) == b""
        with connect(address, b"GET /api/health HTTP/1.1\r\nHost: localhost\r\n\r\n") as again:
            assert again.recv(20).startswith(b"HTTP/1.1 200")
            again.sendall(b"GET / HT")  # the next request, which never ends
            while again.recv(10_000):
                pass
        with connect(address) as long, suppress(ConnectionError):
            for _ in range(100_000):
                long.sendall(b"GET / HTTP/1.1\r\nX-Long: " + b"x" * 10_000)
            pytest.fail("headers of a gigabyte were read")


@pytest.mark.skipif(os.name == "nt", reason="kills a process")
def test_killed_worker_loses_no_request(tiny_recognizer):
    app = create_app(tiny_recognizer, Settings(seconds=300, job_seconds=300))
    with running(app) as (address, _), ThreadPoolExecutor(4) as clients:
        (worker,) = app.state.pool.process_ids
        os.kill(worker, signal.SIGSTOP)
        requests = [
            clients.submit(httpx2.post, f"{address}api/strokes", json=CROSS, timeout=300)
            for _ in range(4)
        ]
        for _ in range(300):  # a worker may have taken more than one of them
            if httpx2.get(f"{address}api/health", timeout=60).json()["waiting"] >= 3:
                break
            time.sleep(0.02)
        os.kill(worker, signal.SIGKILL)
        assert [request.result().status_code for request in requests] == [200] * 4
