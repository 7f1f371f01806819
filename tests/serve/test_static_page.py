"""The page without a server: `posformer build-web`, recognition in the browser, offline."""

import contextlib
import gzip
import json
import re
import shutil
import threading
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import cv2
import numpy as np
import pytest
from browsing import BROWSER, FORMULA, RECOGNIZED, TIMEOUT, X, copied, drop, open_page, write
from running import running
from typer.testing import CliRunner

from posformer import Recognizer
from posformer.cli import app as command_line
from posformer.errors import PosformerError
from posformer.ink.ink_formats import read_ink
from posformer.latex import convert
from posformer.models.model_folder import CARD, LANGUAGE, open_folder, write_folder
from posformer.runtime.engine import DEFAULT_MODEL
from posformer.serve import Settings, create_app, site
from posformer.serve.site import build_site

playwright = pytest.importorskip("playwright.sync_api", reason="needs playwright")

MEGABYTE = 1_000_000
EXAMPLES = Path(__file__).parents[2] / "examples"

built = pytest.mark.skipif(not site.RUNTIME.is_dir(), reason="needs the runtime (make web)")
in_browser = pytest.mark.skipif(not BROWSER, reason="needs Chromium (apt-get install chromium)")


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("web") / "page"
    build_site(folder, DEFAULT_MODEL)
    return folder


@contextlib.contextmanager
def hosted(folder: Path):
    """Serve a folder as any static host does; yield the address and the requested paths."""
    paths = []

    class Handler(SimpleHTTPRequestHandler):
        def log_message(self, *_):
            paths.append(self.path)

    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Handler, directory=folder))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/", paths
    server.shutdown()
    server.server_close()


@built
def test_folder_has_all_files_and_is_small(folder):
    files = {str(path.relative_to(folder)): path for path in folder.rglob("*") if path.is_file()}
    beside = sum(path.stat().st_size for name, path in files.items() if "model/" not in name)
    assert beside <= 15 * MEGABYTE
    worker = files["sw.js"].read_text()
    listed = json.loads("[" + worker.split("FILES = [")[1].split("]")[0] + "]")
    expected = {name for name in files if "model/" not in name} - {"sw.js", "index.html"} | {"."}
    assert set(listed) == expected
    assert {path.read_bytes() for path in (folder / "model").iterdir()} <= {
        path.read_bytes() for path in DEFAULT_MODEL.iterdir()
    }
    assert "{version}" not in worker


@built
@pytest.mark.parametrize("has_language", [True, False])
def test_language_model_is_optional(tmp_path, has_language):
    bundled = open_folder(DEFAULT_MODEL)
    files = {name: DEFAULT_MODEL / name for name in bundled.checksums.keys() - {CARD, LANGUAGE}}
    if has_language:
        files[LANGUAGE] = tmp_path / LANGUAGE
        files[LANGUAGE].write_bytes(b"n-grams")
    model = tmp_path / "model"
    write_folder(model, bundled.config, bundled.vocabulary, files, bundled.info)
    build_site(tmp_path / "page", model)
    written = {path.name: path.read_bytes() for path in (tmp_path / "page" / "model").iterdir()}
    assert written == {path.name: path.read_bytes() for path in model.iterdir()}
    assert (f"model/{LANGUAGE}" in site.server_site(model)) == has_language
    if has_language:
        (model / LANGUAGE).unlink()
        with pytest.raises(PosformerError, match=LANGUAGE):
            build_site(tmp_path / "page", model)


@built
def test_command_writes_again_but_not_over_other_files(tmp_path):
    run = CliRunner().invoke
    page = tmp_path / "page"
    for _ in range(2):
        assert run(command_line, ["build-web", str(page)]).exit_code == 0
    version = (page / "sw.js").read_text()
    (page / "style.css").write_text("")
    assert run(command_line, ["build-web", str(page)]).exit_code == 0
    assert (page / "sw.js").read_text() == version
    assert (page / "style.css").stat().st_size
    other = tmp_path / "other"
    other.mkdir()
    (other / "thesis.tex").write_text("")
    with pytest.raises(PosformerError, match="is not empty"):
        build_site(other, DEFAULT_MODEL)
    assert [path.name for path in other.iterdir()] == ["thesis.tex"]


def test_missing_runtime_says_how_to_build_it(tmp_path, monkeypatch):
    monkeypatch.setattr(site, "RUNTIME", tmp_path / "none")
    with pytest.raises(PosformerError, match="make web"):
        build_site(tmp_path / "page", DEFAULT_MODEL)
    assert not (tmp_path / "page").exists()
    assert "runtime/ort.wasm.min.mjs" not in site.server_site(DEFAULT_MODEL)


@built
def test_model_without_onnx_is_refused(tmp_path):
    model = shutil.copytree(DEFAULT_MODEL, tmp_path / "model")
    (model / "decoder.onnx").unlink()
    with pytest.raises(PosformerError, match="model"):
        build_site(tmp_path / "page", model)


def wait_for_alternatives(page):
    buttons = page.locator("#alternatives button")
    playwright.expect(buttons).not_to_have_count(1, timeout=TIMEOUT)


@built
@in_browser
def test_page_works_offline_after_the_first_visit(browser, folder):
    with hosted(folder) as (address, paths), open_page(browser, address) as page:
        assert not page.is_visible("#mode")
        assert not page.is_visible("#how")
        page.context.set_offline(True)
        paths.clear()
        page.reload()
        page.wait_for_selector("html[data-ready=local]")
        write(page, FORMULA, x=130, y=190, scale=2.2)
        page.wait_for_selector(RECOGNIZED)
        assert page.input_value("#latex") == r"x^{2}+\frac{1}{3}"
        assert copied(page, "typst", "Typst") == "x^2 + frac(1, 3)"
        assert copied(page, "latex", "LaTeX") == r"x^{2}+\frac{1}{3}"
        assert "<mfrac>" in copied(page, "mathml", "MathML")
        assert page.is_disabled("[data-copy=sympy]")
        playwright.expect(page.locator("#alternatives button")).not_to_have_count(
            1, timeout=TIMEOUT
        )
        page.fill("#latex", r"\sqrt{2")
        page.wait_for_selector("#problem:visible")
    assert set(paths) <= {"/sw.js"}  # the browser itself looks for a new version


@built
@in_browser
def test_no_request_leaves_the_page_in_local_mode(browser):
    """Every request of the page, its workers included, is blocked and counted."""
    app = create_app(Recognizer.load(threads=1), Settings(), DEFAULT_MODEL)
    with running(app) as (address, _), open_page(browser, address) as page:
        write(page, FORMULA, x=130, y=190, scale=2.2)
        page.wait_for_selector(RECOGNIZED)
        from_server = page.input_value("#latex")
        page.click("#mode")
        page.wait_for_selector("html[data-ready=local]")
        page.wait_for_selector(f"#loading[hidden] >> xpath=//.. >> {RECOGNIZED}", state="attached")
        page.click("#clear")
        page.wait_for_selector("#formula.empty")
        requests = []

        def block(route):
            requests.append(route.request.url)
            route.abort()

        page.context.route("**/*", block)
        page.context.set_offline(True)
        write(page, FORMULA, x=130, y=190, scale=2.2)
        page.wait_for_selector(RECOGNIZED)
        assert page.input_value("#latex") == from_server
        for kind, name in (("latex", "LaTeX"), ("typst", "Typst"), ("unicode", "Unicode text")):
            assert copied(page, kind, name) == convert(from_server, kind)
        playwright.expect(page.locator("#alternatives button")).not_to_have_count(
            1, timeout=TIMEOUT
        )
        assert requests == []
        page.context.set_offline(False)
        page.context.unroute("**/*")
        page.reload()  # the choice is remembered
        page.wait_for_selector("html[data-ready=local]")
        page.click("#mode")
        with page.expect_response("**/api/strokes*"):
            write(page, X)
        page.wait_for_selector(RECOGNIZED)


@built
@in_browser
def test_symbols_are_scored_like_in_python(browser, folder):
    strokes = [[[float(x), float(y)] for x, y in stroke] for stroke in FORMULA]
    expected = Recognizer.load(threads=1).recognize_strokes(strokes, symbols=True).to_dict()
    with hosted(folder) as (address, _), open_page(browser, address) as page:
        found = page.evaluate(
            """async (strokes) => {
                const { LocalRecognizer } = await import("/local.js");
                const local = new LocalRecognizer();
                await local.load(1, () => {});
                return local.recognizeStrokes(strokes, { topK: 1 });
            }""",
            strokes,
        )
    assert found["tokens"] == expected["tokens"]
    assert found["confidence"] == pytest.approx(expected["confidence"], abs=1e-3)
    assert len(found["symbols"]) == len(expected["symbols"])
    for ours, theirs in zip(found["symbols"], expected["symbols"], strict=True):
        assert (ours["index"], ours["token"]) == (theirs["index"], theirs["token"])
        assert ours["confidence"] == pytest.approx(theirs["confidence"], abs=1e-3)
        shares = {one["token"]: one["confidence"] for one in theirs["alternatives"]}
        likely = {token for token, share in shares.items() if share > 0.007}
        assert likely <= {one["token"] for one in ours["alternatives"]} <= set(shares)


@built
@in_browser
def test_images_and_ink_are_recognized_on_this_device(browser, folder):
    with hosted(folder) as (address, _), open_page(browser, address) as page:
        image = cv2.imread(str(EXAMPLES / "euler.png"))
        drop(page, cv2.imencode(".png", image)[1].tobytes(), "euler.png", "image/png")
        page.wait_for_selector("#crop[open]")
        page.click("#crop-all")
        page.wait_for_selector(RECOGNIZED)
        assert page.input_value("#latex") == Recognizer.load().recognize(image).latex
        drop(page, (EXAMPLES / "gravity.inkml").read_bytes(), "gravity.inkml", "")
        playwright.expect(page.locator("#file-name")).to_have_text("gravity.inkml")
        playwright.expect(page.locator("#latex")).to_have_value(re.compile("frac"), timeout=TIMEOUT)
        drop(page, b"no image at all", "note.txt", "text/plain")
        page.wait_for_selector("#problem:visible")
        assert "image" in page.inner_text("#problem")


XOPP = gzip.compress(
    b"""<xournal><page><background type="solid"/><layer>
    <stroke tool="pen" width="1.4">10 10 40.5 50 60 70</stroke>
    <stroke tool="highlighter">0 0 9 9</stroke>
    <stroke tool="pen">40 10 10 50</stroke></layer></page></xournal>"""
)
INKML = b"""<ink xmlns="http://www.w3.org/2003/InkML"><traceFormat><channel name="T"/>
    <channel name="X"/><channel name="Y"/></traceFormat>
    <trace>0 10 10, 1 40 50,</trace><trace> 2 40 10 , 3 10 50</trace></ink>"""
EXCALIDRAW = json.dumps(
    {
        "elements": [
            {"type": "freedraw", "x": 5, "y": 6, "points": [[0, 0], [10, 20]]},
            {"type": "freedraw", "x": 0, "y": 0, "points": [[0, 0]], "isDeleted": True},
            {"type": "rectangle", "x": 0, "y": 0},
            {"type": "line", "x": 0, "y": 0, "angle": 1.0, "points": [[0, 0], [10, 0], [10, 30]]},
        ]
    }
).encode()
SVG = b"""<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 9 9" width="900" height="900">
    <rect width="100" height="100"/><script>alert(1)</script>
    <g transform="translate(10 20) scale(2)" stroke="black" fill="none">
    <polyline points="0,0 10,10 20,0"/><path d="M0 30 h20 M0 40 h20"/>
    <path d="M0 50 C 10 40, 20 60, 30 50" style="stroke:none"/></g>
    <line x1="1" y1="2" x2="3" y2="9" stroke="red" transform="rotate(90)"/></svg>"""


@pytest.fixture(scope="module")
def ink_page(browser, tiny_recognizer):
    app = create_app(tiny_recognizer, Settings())
    # Chromium's document for an XML error has inline styles, which the page does not allow.
    allowed = "Applying inline style"
    with running(app) as (address, _), open_page(browser, address, allowed) as page:
        yield page


def read_on_page(page, content: bytes, name: str):
    """Return the strokes of a file, or the message of the error."""
    return page.evaluate(
        """async ([bytes, name]) => {
            const { readInk } = await import("/ink_files.js");
            try { return await readInk(new Blob([new Uint8Array(bytes)]), name); }
            catch (error) { return error.message; }
        }""",
        [list(content), name],
    )


@in_browser
@pytest.mark.parametrize(
    ("content", "name"),
    [(XOPP, "a.xopp"), (INKML, "a.inkml"), (EXCALIDRAW, "a.excalidraw")],
    ids=["xopp", "inkml", "excalidraw"],
)
def test_page_reads_ink_like_python(ink_page, content, name):
    expected = [stroke.tolist() for stroke in read_ink(content, name).strokes]
    found = read_on_page(ink_page, content, name)
    assert [len(one) for one in found] == [len(one) for one in expected]
    for ours, theirs in zip(found, expected, strict=True):
        assert np.array(ours) == pytest.approx(np.array(theirs))


@in_browser
def test_page_reads_svg_like_python(ink_page):
    """The page samples curves in its own way: each point is near a line of Python's."""
    expected = read_ink(SVG, "a.svg").strokes
    found = read_on_page(ink_page, SVG, "a.svg")
    assert len(found) == len(expected) == 4
    for ours, theirs in zip(found, expected, strict=True):
        ends = np.array([ours[0], ours[-1]])
        assert ends == pytest.approx(theirs[[0, -1]], abs=0.6)
        low, high = np.min(ours, axis=0), np.max(ours, axis=0)
        assert low == pytest.approx(theirs.min(axis=0), abs=0.6)
        assert high == pytest.approx(theirs.max(axis=0), abs=0.6)


@in_browser
@pytest.mark.parametrize(
    ("content", "name", "reason"),
    [
        (b"\x1f\x8bdamaged", "a.xopp", "damaged"),
        (b"<ink><trace>", "a.inkml", "not XML"),
        (b'<!DOCTYPE a [<!ENTITY b "c">]><ink/>', "a.inkml", "entities"),
        (b"<ink/>", "a.inkml", "no ink"),
        (b"<html/>", "a.svg", "none of"),
        (b"{", "a.excalidraw", "not JSON"),
        (b'{"elements": [{"type": "line"}]}', "a.excalidraw", "no points"),
        (b"<ink><trace>1 a, 2 b</trace></ink>", "a.inkml", "not a number"),
        (gzip.compress(b" " * 70_000_000), "a.xopp", "unpacked"),
    ],
)
def test_hostile_ink_is_one_line(ink_page, content, name, reason):
    message = read_on_page(ink_page, content, name)
    assert isinstance(message, str)
    assert reason in message
    assert message.startswith(name)
