"""Recognition and the server never use the network: no telemetry, no name look-up."""

import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
IMAGE = ROOT / "examples" / "euler.png"
SECONDS = 30  # ONNX Runtime sends its first telemetry some seconds after the first inference

# Native code does not pass through Python's socket module, so system calls are traced. A name
# look-up reads the configuration of the resolver before it sends anything.
_CALLS = "connect,sendto,sendmsg,sendmmsg,openat"
_RESOLVER = re.compile(r'"(/etc/resolv\.conf|/etc/hosts)"')
_ADDRESS = re.compile(r"sa_family=AF_INET6?,")
_LOOPBACK = re.compile(r'inet_addr\("127\.|"::1"|"::ffff:127\.')
_NAME_SERVICE = re.compile(r"htons\(53\)|nscd|systemd/resolve")

RECOGNIZE = f"""
import sys, time
from posformer.cli import app
try:
    app(["recognize", {str(IMAGE)!r}, "--greedy", "--threads", "1"])
except SystemExit as done:
    assert done.code == 0
time.sleep({SECONDS})
"""


def network_use(trace: Path) -> list[str]:
    """Return the traced calls that look up a name or reach another host."""
    return [
        line
        for line in trace.read_text(errors="replace").splitlines()
        if _RESOLVER.search(line)
        or ("connect(" in line and _NAME_SERVICE.search(line))
        or (_ADDRESS.search(line) and not _LOOPBACK.search(line))
    ]


@pytest.fixture(scope="module")
def strace(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """The start of a command that traces another, which is known to see native look-ups."""
    if shutil.which("strace") is None:
        pytest.skip("needs strace")
    start = ["strace", "-f", "-qq", "-e", f"trace={_CALLS}", "-o"]
    trace = tmp_path_factory.mktemp("trace") / "look-up"
    look_up = "import socket\ntry: socket.getaddrinfo('name.invalid', 80)\nexcept OSError: pass"
    done = subprocess.run([*start, trace, sys.executable, "-c", look_up], capture_output=True)
    if done.returncode:
        pytest.skip("strace may not trace processes here")
    assert network_use(trace), "a look-up must show"
    return start


@pytest.mark.slow
def test_recognition_does_not_use_the_network(strace, tmp_path):
    trace = tmp_path / "trace"
    done = subprocess.run(
        [*strace, trace, sys.executable, "-c", RECOGNIZE], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip()
    assert network_use(trace) == []


@pytest.mark.slow
def test_the_server_uses_loopback_only(strace, tmp_path):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    serve = [sys.executable, "-m", "posformer.cli", "serve", "--port", str(port), "--threads", "1"]
    trace = tmp_path / "trace"
    process = subprocess.Popen(
        [*strace, trace, *serve], stdout=subprocess.PIPE, text=True, start_new_session=True
    )
    try:
        assert process.stdout.readline().startswith("http://127.0.0.1")
        request = urllib.request.Request(
            f"http://127.0.0.1:{port}/api/strokes",
            b'{"strokes": [[[0, 0], [40, 40]], [[40, 0], [0, 40]]]}',
            {"Content-Type": "application/json"},
        )
        with urllib.request.urlopen(request, timeout=60) as answer:
            assert answer.status == 200
        time.sleep(SECONDS)
    finally:
        os.killpg(process.pid, signal.SIGTERM)  # strace does not pass signals on
        process.wait(timeout=60)
    assert network_use(trace) == []


def test_telemetry_is_disabled_before_onnx_runtime_is_imported():
    program = f"""
import os, sys

class Watch:
    def find_spec(self, name, path=None, target=None):
        if name == "onnxruntime":
            print("setting:", os.environ.get("ORT_DISABLE_TELEMETRY"))

os.environ.pop("ORT_DISABLE_TELEMETRY", None)
sys.meta_path.insert(0, Watch())
from posformer import Recognizer
Recognizer.load(threads=1).recognize({str(IMAGE)!r}, greedy=True)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout.split() == ["setting:", "1"], done.stderr
