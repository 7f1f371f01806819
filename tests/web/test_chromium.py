"""The JavaScript package gives the same results in a worker of a browser as Python does."""

import os
import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from javascript import MODEL, WEB

from posformer import Recognizer
from posformer.models.model_folder import CARD, open_folder

playwright = pytest.importorskip("playwright.sync_api", reason="needs playwright")

BROWSER = os.environ.get("POSFORMER_BROWSER") or shutil.which("chromium")
FLAGS = ["--no-sandbox", "--disable-quic", "--no-first-run"]
ISOLATION = {
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Embedder-Policy": "require-corp",
}
RUNTIME = "web/node_modules/onnxruntime-web/dist/"
PAGE = "<!doctype html><title>replay</title>"
REPLAY = """(request) => new Promise((resolve, reject) => {
  const worker = new Worker("/web/test/worker.js", { type: "module" });
  worker.onmessage = ({ data }) => { worker.terminate(); resolve(data); };
  worker.onerror = (event) => reject(new Error(event.message));
  worker.postMessage(request);
})"""

# WebGPU on machines without a GPU; compiling its programs takes a while.
SOFTWARE_GPU = (
    "--enable-unsafe-webgpu",
    "--use-webgpu-adapter=swiftshader",
    "--enable-features=Vulkan,WebGPU",
)
WITH_WEBGPU = """async ({ address, runtime, strokes }) => {
  if (!await navigator.gpu?.requestAdapter()) return null;
  const { Recognizer } = await import(`${address}web/src/index.js`);
  const options = { runtimeUrl: runtime, executionProviders: ["webgpu"] };
  const recognizer = await Recognizer.load(`${address}model/`, options);
  return recognizer.recognizeStrokes(strokes);
}"""

pytestmark = pytest.mark.skipif(not BROWSER, reason="needs Chromium (apt-get install chromium)")


class Handler(SimpleHTTPRequestHandler):
    """Serves several folders, with or without the headers that allow threads."""

    extensions_map = {  # noqa: RUF012 - an attribute of the base class
        ".js": "text/javascript",
        ".mjs": "text/javascript",
        ".wasm": "application/wasm",
        "": "application/octet-stream",
    }

    def __init__(self, *arguments, folders: dict[str, Path], isolated: bool) -> None:
        self.folders, self.isolated = folders, isolated
        super().__init__(*arguments)

    def translate_path(self, path: str) -> str:
        name, _, rest = urlsplit(path).path.lstrip("/").partition("/")
        return str(self.folders[name] / rest) if name in self.folders else "missing"

    def do_GET(self) -> None:
        if urlsplit(self.path).path != "/":
            return super().do_GET()
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.end_headers()
        return self.wfile.write(PAGE.encode())

    def end_headers(self) -> None:
        for name, value in ISOLATION.items() if self.isolated else ():
            self.send_header(name, value)
        super().end_headers()

    def log_message(self, *_: object) -> None:
        """Print nothing."""


@contextmanager
def browsing(*flags: str) -> Iterator:
    """Yield a browser."""
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=BROWSER, args=[*FLAGS, *flags])
        yield browser
        browser.close()


@contextmanager
def serving(isolated: bool = False, **folders: Path) -> Iterator[str]:
    """Serve folders by their names, `web` and `model` included; yield the address."""
    folders |= {"web": WEB, "model": MODEL}
    handler = partial(Handler, folders=folders, isolated=isolated)
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/"
    server.shutdown()
    server.server_close()


def run(browser, address: str, script: str, argument: dict) -> dict:
    """Return the result of a script in a page, which may not load anything from elsewhere."""
    page = browser.new_page()
    page.set_default_timeout(300_000)
    foreign = []
    page.context.on(
        "request",
        lambda request: None if request.url.startswith(address) else foreign.append(request.url),
    )
    page.goto(address)
    result = page.evaluate(script, argument)
    page.close()
    assert foreign == []
    return result


@pytest.mark.usefixtures("packages")
@pytest.mark.parametrize(
    "isolated",
    [False, pytest.param(True, marks=pytest.mark.slow)],
    ids=["one thread", "threads"],
)
def test_results_in_a_worker_equal_those_of_python(vectors, isolated):
    with browsing() as browser, serving(isolated, vectors=vectors) as address:
        places = {"model": "model/", "vectors": "vectors/", "runtime": RUNTIME}
        request = {name: f"{address}{place}" for name, place in places.items()}
        report = run(browser, address, REPLAY, request)
    assert "failure" not in report, report["failure"]
    assert report["problems"] == []
    assert report["strokes"]["sameImages"] == report["strokes"]["count"] > 0
    assert all(report["photographs"]["kinds"].values())  # each has a calibration of its own
    assert report["isIsolated"] == isolated
    files = open_folder(MODEL).checksums.keys() - {CARD}
    assert report["sizes"][-1] == [sum((MODEL / name).stat().st_size for name in files)] * 2


@pytest.mark.slow
@pytest.mark.usefixtures("packages")
def test_webgpu_gives_the_same_result():
    strokes = [[[0, 22], [18, 40], [36, 60]], [[36, 22], [18, 42], [0, 62]]]
    expected = Recognizer.load().recognize_strokes(strokes)
    with browsing(*SOFTWARE_GPU) as browser, serving() as address:
        argument = {"address": address, "runtime": f"{address}{RUNTIME}", "strokes": strokes}
        answer = run(browser, address, WITH_WEBGPU, argument)
    if answer is None:
        pytest.skip("this Chromium has no WebGPU")
    assert answer["latex"] == expected.latex
    assert answer["confidence"] == pytest.approx(expected.confidence, abs=1e-3)
