"""The server under load: throughput, latency, and behavior beyond its limits.

Clients run in this process and call servers on loopback, one per number of workers and batch
size, in turns. For 1 to 64 clients the table shows requests per second, latencies, and CPU time per
request, which other programs affect least. Memory and CPU time include the worker processes. Then
the last server gets ten times as many requests at once as it accepts, a worker is killed under
load, and the server is terminated under load. Every request that was accepted must be answered.

    python benchmarks/load.py --model MODEL --seconds 5 --workers 1 2 --batch 1 8
"""

import argparse
import asyncio
import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from time import perf_counter

import httpx2
import numpy as np

from posformer.synthesis.synthesizer import in_pixels, open_synthesizer

CLIENTS = (1, 4, 16, 64)
REQUESTS = 64  # open requests that the server accepts
FORMULAS = 100  # different requests


def formulas(count: int) -> list[dict[str, list[list[list[float]]]]]:
    """Return request bodies with synthetic formulas."""
    synthesizer, random = open_synthesizer(), np.random.default_rng(0)
    inks = [in_pixels(synthesizer.make(random)) for _ in range(count)]
    return [{"strokes": [stroke.round(1).tolist() for stroke in ink.strokes]} for ink in inks]


BODIES = formulas(FORMULAS)


@dataclass(frozen=True)
class Load:
    """Measurements for a number of clients."""

    seconds: float
    busy: float  # CPU seconds of the server
    latencies: np.ndarray  # seconds of each successful request
    statuses: Counter[int]


async def client(http: httpx2.AsyncClient, until: float, number: int, found: list) -> None:
    while (start := perf_counter()) < until:
        answer = await http.post("/api/strokes", json=BODIES[number % len(BODIES)])
        found.append((perf_counter() - start, answer.status_code))
        number += 7  # so that clients do not send the same requests in step
        if answer.status_code == 503:
            await asyncio.sleep(0.05)


async def load(server: "Server", clients: int, seconds: float) -> Load:
    limits = httpx2.Limits(max_connections=None)
    found: list[tuple[float, int]] = []
    async with httpx2.AsyncClient(base_url=server.address, timeout=120, limits=limits) as http:
        start, busy = perf_counter(), server.cpu_seconds
        await asyncio.gather(
            *(client(http, start + seconds, number, found) for number in range(clients))
        )
        spent = perf_counter() - start
    answered = np.array([latency for latency, status in found if status == 200])
    return Load(spent, server.cpu_seconds - busy, answered, Counter(status for _, status in found))


async def flood(
    address: str, requests: int, then: Callable[[], None] = lambda: None
) -> Counter[int]:
    """Send all requests at once, do something when the first is answered; count the answers."""
    limits = httpx2.Limits(max_connections=None)
    async with httpx2.AsyncClient(base_url=address, timeout=600, limits=limits) as http:
        sent = [
            asyncio.ensure_future(http.post("/api/strokes", json=BODIES[number % len(BODIES)]))
            for number in range(requests)
        ]
        answered = asyncio.as_completed(sent)
        for first in answered:
            if (await first).status_code == 200:
                break
        then()
        answers = await asyncio.gather(*sent)
    assert all("Retry-After" in one.headers for one in answers if one.status_code == 503)
    return Counter(answer.status_code for answer in answers)


class Server:
    """The server in a separate process, so that its memory can be measured."""

    def __init__(self, model: Path | None, workers: int, batch: int) -> None:
        command = [sys.executable, "-m", "posformer.cli", "serve", "--port", "0"]
        command += ["--workers", str(workers), "--batch", str(batch), "--requests", str(REQUESTS)]
        # More than the clients need: beyond this limit, connections without a request are closed.
        command += ["--connections", str(20 * REQUESTS), "--timeout", "600"]
        command += ["--model", str(model)] if model else []
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert self._process.stdout
        self.address = self._process.stdout.readline().split()[0]

    def __enter__(self) -> "Server":
        return self

    def __exit__(self, *_: object) -> None:
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGINT)
            self._process.wait(60)

    @property
    def worker_ids(self) -> list[int]:
        """Process ids of the workers."""
        threads = Path(f"/proc/{self._process.pid}/task").glob("*/children")
        return [int(child) for one in threads for child in one.read_text().split()]

    @property
    def megabytes(self) -> float:
        """Current memory of the server and its workers; pages that they share count once each."""
        pages = 0
        for process in (self._process.pid, *self.worker_ids):
            pages += int(Path(f"/proc/{process}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE") / 1e6

    @property
    def cpu_seconds(self) -> float:
        """CPU time so far of the server and its workers."""
        ticks = 0
        for process in (self._process.pid, *self.worker_ids):
            times = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
            ticks += int(times[11]) + int(times[12])
        return ticks / os.sysconf("SC_CLK_TCK")

    def kill_worker(self) -> None:
        """Kill a worker at once."""
        os.kill(self.worker_ids[0], signal.SIGKILL)

    def terminate(self) -> None:
        """Ask the server to end."""
        self._process.send_signal(signal.SIGTERM)

    def wait(self) -> int:
        """Wait for the end; return the exit code."""
        return self._process.wait(600)


def row(name: str, result: Load) -> str:
    milliseconds = 1000 * result.latencies
    p50, p95 = np.percentile(milliseconds, [50, 95]) if len(milliseconds) else (np.nan, np.nan)
    rate = len(milliseconds) / result.seconds
    busy = 1000 * result.busy / max(len(milliseconds), 1)
    cells = (f"{rate:.1f}", f"{p50:.0f}", f"{p95:.0f}", f"{busy:.0f}", str(result.statuses[503]))
    return f"| {name} | {' | '.join(cells)} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", type=Path, help="model folder (default: the bundled model)")
    parser.add_argument("--seconds", type=float, default=5.0, help="per row")
    parser.add_argument("--clients", type=int, nargs="+", default=CLIENTS)
    parser.add_argument("--workers", type=int, nargs="+", default=[2], help="per server")
    parser.add_argument("--batch", type=int, nargs="+", default=[1, 8], help="per server")
    options = parser.parse_args()
    with ExitStack() as running:
        servers = {
            f"{workers} | {batch}": running.enter_context(Server(options.model, workers, batch))
            for workers, batch in product(options.workers, options.batch)
        }
        for server in servers.values():
            asyncio.run(load(server, 1, 0.5))
        print("| clients | workers | batch | requests/s | p50 ms | p95 ms | CPU ms | refused |")
        print("| ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |")
        for clients in options.clients:
            for name, server in servers.items():
                result = asyncio.run(load(server, clients, options.seconds))
                print(row(f"{clients} | {name}", result), flush=True)
        print()
        torture(server)


def torture(server: Server) -> None:
    """Overload a server, kill one of its workers, and terminate it; print what came of it."""
    before, open_ = server.megabytes, 10 * REQUESTS
    statuses = asyncio.run(flood(server.address, open_))
    assert set(statuses) <= {200, 503}, statuses
    print(
        f"{open_} requests at once, at most {REQUESTS} accepted: {statuses[200]} answered, ", end=""
    )
    late = f"{statuses[408]} received too slowly (408), " if statuses[408] else ""
    print(f"{late}{statuses[503]} refused with 503, none lost; ", end="")
    print(f"memory {before:.0f} MB before, {server.megabytes:.0f} MB after", flush=True)
    statuses = asyncio.run(flood(server.address, REQUESTS, server.kill_worker))
    assert set(statuses) == {200}, statuses
    print(
        f"SIGKILL of a worker with {REQUESTS} requests open: {statuses[200]} answered", flush=True
    )
    statuses = asyncio.run(flood(server.address, REQUESTS, server.terminate))
    assert set(statuses) == {200}, statuses
    print(f"SIGTERM with {REQUESTS} requests open: {statuses[200]} answered, ", end="")
    print(f"exit code {server.wait()}")


if __name__ == "__main__":
    main()
