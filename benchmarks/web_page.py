"""Start of the static page in Chromium: first visit, and warm start from the cache.

    python benchmarks/web_page.py --rounds 5

The page is written to a temporary folder and served on loopback. A round opens it in a new
profile, then reloads it: everything then comes from the service worker's cache. After the reload
a formula is written as soon as the page accepts ink. Needs Chromium and `make web`.

The table has wall time and the CPU time of all processes of Chromium (Linux only), which other
programs affect less.
"""

import argparse
import os
import shutil
import tempfile
import threading
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

from playwright.sync_api import sync_playwright

from posformer.runtime.engine import DEFAULT_MODEL
from posformer.serve.site import build_site

# A cross: two strokes, and the code that writes them with the mouse.
STROKES = (((200, 300), (260, 380)), ((260, 300), (200, 380)))
RECOGNIZED = "#formula[aria-busy=false] math"


class Quiet(SimpleHTTPRequestHandler):
    """Serves files without a log."""

    def log_message(self, *_: Any) -> None:
        """Write nothing."""


def write(page: Any) -> None:
    for start, end in STROKES:
        page.mouse.move(*start)
        page.mouse.down()
        page.mouse.move(*end, steps=5)
        page.mouse.up()


def cpu_seconds() -> float:
    """Return the CPU time of all descendants of this process."""
    parents, ticks = {}, {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:  # it has ended
            continue
        parents[int(stat.parent.name)] = int(fields[1])
        ticks[int(stat.parent.name)] = int(fields[11]) + int(fields[12])

    def descends(process: int) -> bool:
        while process in parents:
            process = parents[process]
            if process == os.getpid():
                return True
        return False

    return sum(ticks[one] for one in ticks if descends(one)) / os.sysconf("SC_CLK_TCK")


class Stopwatch:
    """Measures wall and CPU time from its creation."""

    def __init__(self) -> None:
        self.wall, self.cpu = perf_counter(), cpu_seconds()

    def read(self) -> tuple[float, float]:
        """Return the seconds of wall and CPU time."""
        return perf_counter() - self.wall, cpu_seconds() - self.cpu


def measure(browser: Any, address: str) -> dict[str, tuple[float, float]]:
    """Return the seconds of wall and CPU time from navigation to each event."""
    context = browser.new_context()
    page = context.new_page()
    watch = Stopwatch()
    page.goto(address)
    page.wait_for_selector("html[data-ready=local]", timeout=120_000)
    times = {"first visit: ready": watch.read()}
    watch = Stopwatch()
    page.reload()
    page.wait_for_selector("#loading:not([hidden]), html[data-ready=local]")
    write(page)
    page.wait_for_selector("html[data-ready=local]", timeout=120_000)
    times["warm start: ready"] = watch.read()
    page.wait_for_selector(RECOGNIZED, timeout=120_000)
    times["warm start: first recognition"] = watch.read()
    watch = Stopwatch()
    page.click("#clear")
    page.wait_for_selector("#formula.empty")
    write(page)
    page.wait_for_selector(RECOGNIZED, timeout=120_000)
    times["later recognition, pause after the stroke included"] = watch.read()
    context.close()
    return times


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    rounds = parser.parse_args().rounds
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as driver:
        build_site(Path(folder), DEFAULT_MODEL)
        sizes = {path: path.stat().st_size for path in Path(folder).rglob("*") if path.is_file()}
        model = sum(size for path, size in sizes.items() if path.parent.name == "model")
        beside = sum(sizes.values()) - model
        print(f"model {model / 1e6:.1f} MB, beside it {beside / 1e6:.1f} MB")
        server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=folder))
        threading.Thread(target=server.serve_forever, daemon=True).start()
        arguments = ["--no-sandbox", "--disable-gpu"]
        browser = driver.chromium.launch(executable_path=shutil.which("chromium"), args=arguments)
        address = f"http://127.0.0.1:{server.server_port}/"
        found = [measure(browser, address) for _ in range(rounds)]
        browser.close()
        server.shutdown()
    print("| event | s, median | s, least | CPU s, median |")
    print("| --- | ---: | ---: | ---: |")
    for name in found[0]:
        wall, cpu = zip(*(times[name] for times in found), strict=True)
        print(f"| {name} | {median(wall):.1f} | {min(wall):.1f} | {median(cpu):.1f} |")


if __name__ == "__main__":
    main()
